"""Publications on a real broker, at an even rate, until they are enough."""

import contextlib
from pathlib import Path

import pytest

from mqloom.lab.bench_brokers import MOSQUITTO, start_mosquitto
from mqloom.lab.bench_load import Load
from mqloom.lab.bench_processes import BenchError, Worker
from mqloom.lab.bench_publisher import publish_for
from mqloom.lab.bench_quotes import FIRST_NUMBER
from mqloom.lab.demo_mosquitto import MOSQUITTO as PROGRAM
from mqloom.lab.ports import free_ports


@pytest.mark.skipif(PROGRAM is None, reason="there is no mosquitto on this machine")
def test_what_is_published_has_the_rate_and_a_broker_that_dies_is_told(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        (port,) = free_ports(1)
        broker = start_mosquitto("west", MOSQUITTO.format(port=port), port, tmp_path, stack)
        publisher = Worker("publisher", publish_for, port, 1)
        stack.callback(publisher.end)
        load = Load(publisher, 200.0)
        stack.callback(load.stop)
        sent = load.end()
        assert sent.first == FIRST_NUMBER
        assert len(sent.times) == 200
        assert list(sent.times) == sorted(sent.times)
        again = Load(publisher, 200.0)
        stack.callback(again.stop)
        broker.end()
        with pytest.raises(BenchError, match="process of the publisher"):
            again.end()
