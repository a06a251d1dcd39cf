"""The unit for systemd and the Dockerfile start a gateway with options that there are, and reload it rightly."""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from mqloom.gateway.command_gateway import configure

FOLDER = Path(__file__).parents[2] / "packaging"
UNIT = FOLDER / "mqloom-gateway@.service"


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(words)


def test_the_unit_starts_the_gateway_that_its_name_says() -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    program, command, *words = shlex.split(line)
    assert (Path(program).name, command) == ("mqloom", "gateway")
    assert parse(words).name == "%I"
    assert "ExecReload=/bin/kill -HUP $MAINPID\n" in UNIT.read_text()


def test_the_user_of_the_unit_is_the_one_that_the_docs_let_own_the_keys() -> None:
    (user,) = re.findall(r"^User=(.*)$", UNIT.read_text(), re.MULTILINE)
    page = " ".join((FOLDER.parent / "docs" / "operations.md").read_text(encoding="utf-8").split())
    assert f"useradd --system {user}`" in page
    assert f"chown {user} /etc/mqloom/federation.keys" in page


def test_every_part_of_the_package_is_copied_into_the_image_and_nothing_else() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    with (FOLDER.parent / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    parts = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    needed = {"pyproject.toml", "README.md", "LICENSE", *(part.partition("/")[0] for part in parts)}
    assert {name for names in copied for name in names.split()} == needed


def test_the_image_starts_the_gateway_that_its_arguments_say() -> None:
    (line,) = re.findall(r"^ENTRYPOINT (.*)$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    program, command, *words = json.loads(line)
    assert (program, command) == ("mqloom", "gateway")
    assert parse([*words, "--name", "west"]).configuration == Path("/etc/mqloom/federation.toml")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd on this machine")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "mqloom"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "mqloom-gateway@west.service"
    unit.write_text(UNIT.read_text().replace("/opt/mqloom/bin/mqloom", str(program)))
    finished = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    ours = [line for line in finished.stderr.splitlines() if "mqloom" in line]
    assert ours == []
