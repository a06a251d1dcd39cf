import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import zmq

from mqloom.core.errors import LocalError
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import BatchHeader, ServiceRecord, decode_batch
from mqloom.core.telemetry_keys import Curve, collector_curve, peer_curve
from mqloom.core.telemetry_outbox import TelemetryOutbox, decode_kept
from mqloom.core.telemetry_sockets import connect
from mqloom.spark_analytics import collecting
from mqloom.spark_analytics.asking import Asking
from mqloom.spark_analytics.collecting import CollectPlan, CollectServer
from mqloom.spark_analytics.ranges import AskedRanges, LocalRanges, Question, RangeError
from mqloom.spark_analytics.spool import MARKER, SpoolWriter

SECRET = bytes(32)


@contextmanager
def running(folder: Path, curve: Curve | None = None, told: list[str] | None = None) -> Iterator[CollectServer]:
    told = [] if told is None else told
    plan = CollectPlan(spool=folder, listen="tcp://127.0.0.1:*", serve="tcp://127.0.0.1:*", curve=curve)
    server = CollectServer(plan, told.append)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(timeout=20)
        server.close()
        assert not thread.is_alive()


def send(
    server: CollectServer, records: int, curve: Curve | None = None, wait_s: float = 20.0, epoch: int = 1
) -> TelemetryOutbox:
    """Send records as a gateway does, until all are kept or time is up."""
    box = TelemetryOutbox(GatewayId("north"), epoch, time.time)
    for number in range(records):
        box.offer(ServiceRecord(1.0, number, 0.001, 1), time.monotonic())
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = connect(context, server.addresses[0], curve)
    until = time.monotonic() + wait_s
    try:
        while box.kept < records and time.monotonic() < until:
            for data in box.due(time.monotonic(), all_of_it=True):
                socket.send(data)
            if socket.poll(50):
                box.confirmed(decode_kept(socket.recv()))
    finally:
        context.destroy(linger=0)
    return box


def test_what_gateways_send_is_on_disk_when_they_are_answered_and_readers_get_it(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        assert send(server, 10_000).kept == 10_000
        asking = Asking(server.addresses[1])
        ranges = asking.ranges()
        assert ranges.bounds() == (0, 10_000)
        assert ranges.identity() == LocalRanges(tmp_path).identity() != ""
        assert ranges.boundary(0, 5_000) == 4_096
        read = sum(decode_batch(frame.data).header.count for frame in ranges.frames(0, 10_000))
        asking.close()
    assert read == 10_000
    assert LocalRanges(tmp_path).bounds() == (0, 10_000)


def test_a_collector_of_an_earlier_version_tells_no_id() -> None:
    older = msgspec.msgpack.encode(["", 0, 7, [], [], []])
    ranges = AskedRanges(lambda _: older)
    assert ranges.bounds() == (0, 7)
    assert ranges.identity() == ""


def test_with_a_key_both_ends_prove_themselves(tmp_path: Path) -> None:
    with running(tmp_path, collector_curve(SECRET)) as server:
        assert send(server, 10, peer_curve(SECRET)).kept == 10
        asking = Asking(server.addresses[1], peer_curve(SECRET))
        assert asking.ranges().bounds() == (0, 10)
        asking.close()


STRANGERS = {"no key": None, "a wrong key": peer_curve(b"another secret of somebody else's")}


def until_counted(server: CollectServer, attempt: Callable[[], None]) -> None:
    """Try until the attempt is counted: on a busy machine one ends before the other side has looked at it."""
    before = server.collector.counts["strangers"]
    until = time.monotonic() + 30.0
    while server.collector.counts["strangers"] == before:
        assert time.monotonic() < until, "an attempt is counted"
        attempt()


@pytest.mark.parametrize("curve", STRANGERS.values(), ids=STRANGERS)
def test_whoever_does_not_have_the_key_neither_sends_nor_reads(tmp_path: Path, curve: Curve | None) -> None:
    with running(tmp_path, collector_curve(SECRET)) as server:

        def sends() -> None:
            assert send(server, 10, curve, wait_s=1.0).kept == 0

        def reads() -> None:
            asking = Asking(server.addresses[1], curve, answer_s=0.5, tries=1)
            with pytest.raises(RangeError, match="with the same telemetry key"):
                asking.ranges().bounds()
            asking.close()

        until_counted(server, sends)
        until_counted(server, reads)
    assert LocalRanges(tmp_path).bounds() == (0, 0)


DEEP = b"\x91" * 100_000
BATCH = b"\x92" + msgspec.msgpack.encode(BatchHeader(1, GatewayId("north"), 1, 1, 1))
"""The beginning of a batch."""


def test_garbage_costs_nobody_else_anything(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        for socket in [connect(context, address, None) for address in server.addresses]:
            for _ in range(100):
                socket.send_multipart([b"x" * 100, b"y", b"z"])
                socket.send(b"\xff" * 100)
            socket.send_multipart([b"number", b"\x94\xa6bounds\x00\x00" + DEEP])
            socket.send(BATCH + DEEP)
            socket.close(linger=1_000)
        assert send(server, 100).kept == 100
        asking = Asking(server.addresses[1])
        assert asking.ranges().bounds() == (0, 100)
        asking.close()
        assert server.collector.counts["records"] == 100
        assert server.collector.counts["refused"] > 0
        context.destroy(linger=0)


def test_a_second_collector_for_the_same_folder_is_told_so(tmp_path: Path) -> None:
    plan = CollectPlan(spool=tmp_path, listen="tcp://127.0.0.1:*", serve="tcp://127.0.0.1:*")
    with running(tmp_path), pytest.raises(LocalError, match="somebody else writes into it"):
        CollectServer(plan, lambda _: None)
    CollectServer(plan, lambda _: None).close()


def test_while_keys_are_rotated_a_reader_tries_the_other_one(tmp_path: Path) -> None:
    old, new = bytes(32), bytes([1] * 32)
    with running(tmp_path, collector_curve(new)) as server:
        asking = Asking(server.addresses[1], peer_curve(old), others=[peer_curve(new)], answer_s=0.5)
        assert asking.ranges().bounds() == (0, 0)
        asking.close()


def test_a_second_collector_at_the_same_place_is_told_so(tmp_path: Path) -> None:
    with running(tmp_path / "one") as server:
        intake, readers = server.addresses
        plan = CollectPlan(spool=tmp_path / "two", listen=intake, serve=readers)
        with pytest.raises(LocalError, match="is another collector running"):
            CollectServer(plan, lambda _: None)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_while_the_disk_is_full_what_gateways_send_does_not_pile_up_and_is_taken_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "FULL_RETRY_S", 5.0)
    with running(tmp_path) as server:
        marker = tmp_path / f"{MARKER}.new"
        marker.symlink_to("/dev/full")
        assert send(server, 10, wait_s=1.0).kept == 0
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = connect(context, server.addresses[0], None)
        socket.setsockopt(zmq.SNDTIMEO, 10_000)
        for _ in range(2_000):
            socket.send(b"x" * 50_000)
        context.destroy(linger=10_000)
        assert server.collector.counts["failed commits"] > 0
        assert server.collector.counts["put off"] > 1_000
        marker.unlink()
        assert send(server, 10).kept == 10


def test_who_asks_and_does_not_read_has_few_answers_waiting(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    for _ in range(4):
        writer.append(1, b"x" * 250_000)
    writer.commit()
    with running(tmp_path) as server:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.RCVHWM, 1)
        socket.setsockopt(zmq.RCVBUF, 65_536)
        socket.connect(server.addresses[1])
        for number in range(200):
            socket.send_multipart([b"%d" % number, msgspec.msgpack.encode(Question("parts", 0, 4))])
        asking = Asking(server.addresses[1])
        for _ in range(20):  # everybody is served in turn: what was asked before is answered by then
            assert len(list(asking.ranges().frames(0, 4))) == 4
        asking.close()
        time.sleep(0.5)
        answers = 0
        while socket.poll(1_000):
            socket.recv_multipart()
            answers += 1
        assert answers < 100
        context.destroy(linger=0)


def test_a_message_that_no_gateway_sends_ends_its_connection(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = connect(context, server.addresses[0], None)
        monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        socket.send(b"x" * 3_000_000)
        assert monitor.poll(10_000)
        socket.disable_monitor()
        context.destroy(linger=0)


def test_two_gateways_of_one_name_are_told_and_the_earlier_one_keeps_what_it_has(tmp_path: Path) -> None:
    told: list[str] = []
    with running(tmp_path, told=told) as server:
        assert send(server, 10, epoch=2).kept == 10
        assert send(server, 10, epoch=1, wait_s=1.0).kept == 0
    assert (
        "10 records so far are of an earlier start of their gateway, the last of north: are there two of that name, "
        "or has its clock gone back?" in told
    )


def test_a_mistake_of_ours_in_answering_readers_ends_the_whole_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(collecting, "answer_question", fail)
    server = CollectServer(CollectPlan(spool=tmp_path, listen="tcp://127.0.0.1:*", serve="tcp://127.0.0.1:*"), print)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = connect(context, server.addresses[1], None)
    socket.send_multipart([b"1", b"anything"])
    with pytest.raises(ZeroDivisionError):
        server.run()
    socket.close(linger=0)
    context.destroy(linger=0)
    server.close()
