"""A gateway put together: the ids of its sessions, and what of them a reload changes."""

import asyncio
from pathlib import Path

from mqloom.core.command import main
from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import Assembly, former_sessions
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.key_file import new_key, write_keys

WEST = GatewayId("west")
TEXT = '[federation]\nname = "one"\ndata = ["stocks/#"]\nkey_file = "our.keys"\n[[brokers]]\nid = "west"\n'


def test_no_id_of_a_session_tells_another_and_without_a_secret_all_are_as_everybody_knows() -> None:
    name = "mqloom-west-control"
    assert BrokerAddress("h", 1).session(name) == name
    ours, others = (BrokerAddress("h", 1, session_secret=bytes([each]) * 32) for each in (1, 2))
    assert ours.session(name).startswith(f"{name}-")
    assert len(ours.session(name)) == len(name) + 17
    suffixes = {
        each.session(one)[-16:] for each in (ours, others) for one in (name, "mqloom-west", "mqloom-west-park-e")
    }
    assert len(suffixes) == 6
    assert ours.session(name) == BrokerAddress("other", 2, session_secret=bytes([1]) * 32).session(name)
    assert "session_secret" not in repr(ours)


def test_the_former_sessions_are_those_that_the_broker_keeps() -> None:
    assert former_sessions(WEST, [GatewayId("east")]) == [
        "mqloom-west",
        "mqloom-west-control",
        "mqloom-west-interest",
        "mqloom-west-park-east",
    ]


def test_a_secret_that_is_added_waits_for_a_new_start_and_the_reload_says_so(tmp_path: Path) -> None:
    path, keys = tmp_path / "federation.toml", tmp_path / "our.keys"
    path.write_text(TEXT)
    write_keys(keys, [new_key("sending")], is_new=True)

    async def reload() -> list[tuple[list[str], list[str]]]:
        assembly = Assembly(load_federation(path), WEST)
        first = assembly.reload(load_federation(path))
        assert main(["keys", "sessions", str(keys)]) == 0
        return [first, assembly.reload(load_federation(path))]

    assert asyncio.run(reload()) == [([], []), ([], ["keys: the ids of sessions"])]
