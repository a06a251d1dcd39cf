"""The README's example, typed as it is written."""

import json
import re
import shlex
from pathlib import Path

from integration_tests.processes import Commands

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_federation_in_ten_lines_works_as_typed(commands: Commands) -> None:
    (commands.folder / "federation.toml").write_text(blocks("toml")[0])
    lines = [line for block in blocks("sh")[2:4] for line in block.splitlines()]
    assert len(blocks("toml")[0].splitlines()) == 10
    subscriber = None
    for line in lines:
        program, *words = shlex.split(line.removesuffix("&"))
        assert program == "mqloom"
        process = commands.start(*words)
        match words[0]:
            case "gateway":
                process.wait_for_log("serving the broker")
            case "sub":
                subscriber = process
                process.wait_for_log("established")
            case _:
                assert process.wait() == 0, process.log
    assert subscriber is not None
    topic, _, payload = subscriber.wait_for_output(1)[0].partition(" ")
    assert (topic, json.loads(payload)) == ("stocks/YHOO", {"symbol": "YHOO", "volume": 500000})
