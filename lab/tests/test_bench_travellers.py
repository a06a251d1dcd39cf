"""A process of subscribers that cannot be served says so."""

import asyncio
from pathlib import Path

import pytest

from mqloom.gateway.key_file import ORDER_KIND, new_key, write_keys
from mqloom.lab import bench_travellers
from mqloom.lab.bench_processes import BenchError
from mqloom.lab.bench_travellers import Passenger, State, _Crowd
from mqloom.lab.ports import free_ports


def test_subscribers_that_nobody_serves_end_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = tmp_path / "our.keys"
    write_keys(keys, [new_key("sending"), new_key("sending", ORDER_KIND)], is_new=True)
    monkeypatch.setattr(bench_travellers, "ESTABLISH_S_MAX", 0.0)

    async def establish() -> object:
        crowd = _Crowd(free_ports(1)[0], keys, [Passenger("one", "volume > 1"), Passenger("two", "volume > 2")])
        with pytest.raises(BenchError, match="2 subscribers are not served after 0 s"):
            await crowd.establish()
        return crowd.answer("state")

    assert asyncio.run(establish()) == State(0, 0, 0, 0, 0, "")
