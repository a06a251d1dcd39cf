"""The measurement of what load meters cost: a small one, beside a real Mosquitto."""

import inspect
from pathlib import Path

import pytest

from mqloom.gateway.drivers.gateway import GatewayDriver
from mqloom.lab.bench_meters import Plan, SwitchedDriver, measure
from mqloom.lab.bench_processes import BenchError, find_mosquitto


def has_mosquitto() -> bool:
    try:
        find_mosquitto()
    except BenchError:
        return False
    return True


real = pytest.mark.skipif(not has_mosquitto(), reason="no mosquitto here: apt-get install mosquitto")


@real
def test_a_gateway_is_measured_with_and_without_meters_and_delivers_everything_in_both(tmp_path: Path) -> None:
    told: list[str] = []
    cost = measure(Plan(comparisons=3, publications=20, clients=2), tmp_path, told.append)
    assert len(told) == 3
    assert cost.comparisons == 3
    assert cost.publication_us > 10
    assert 0 < cost.messages <= 2
    assert cost.events > 0
    assert cost.note_us < 50
    assert 0 < cost.bytes_note < 0.1
    assert 0 < cost.window < 0.01
    assert cost.total == cost.noted + cost.bytes_note + cost.window


def test_without_meters_a_gateway_does_the_same_but_for_the_notes() -> None:
    def lines(function: object) -> list[str]:
        source = inspect.getsource(function)  # type: ignore[arg-type]
        noted = ("def ", '"""', "thread_time", "busy_s", "_is_data", "received =")
        return [line.split("  #")[0].strip() for line in source.splitlines() if not any(word in line for word in noted)]

    assert lines(SwitchedDriver._handle_unmetered) == lines(GatewayDriver._handle)
