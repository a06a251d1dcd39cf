"""What is sent again is known again: by its packet id, or by its content where packet ids do not last."""

import pytest

from mqloom.core.publication import Incoming
from mqloom.gateway.packets import ByContent, ByPacketId, Packets


def incoming(packet: int, payload: bytes = b"a") -> Incoming:
    return Incoming(topic="t", payload=payload, qos=1, retain=False, receipt=1, packet=packet)


@pytest.mark.parametrize("packets", [ByPacketId(), ByContent()], ids=["packet id", "content"])
def test_what_was_not_here_is_not_found(packets: Packets) -> None:
    packets.note(incoming(1), 1, 1)
    packets.lost()
    assert packets.find(incoming(2, b"b"), 1) is None


@pytest.mark.parametrize("packets", [ByPacketId(), ByContent()], ids=["packet id", "content"])
def test_below_the_mark_an_equal_one_is_another(packets: Packets) -> None:
    packets.note(incoming(1), 1, 1)
    packets.lost()
    assert packets.find(incoming(1), 2) is None


def test_by_packet_id_equal_ones_are_told_apart() -> None:
    packets = ByPacketId()
    assert [packets.note(incoming(packet), packet + 10, 1) for packet in (1, 2)] == [1, 2]
    packets.lost()
    assert packets.find(incoming(2), 1) == 12
    assert packets.find(incoming(3), 1) is None


def test_by_content_packet_ids_do_not_matter_and_equal_ones_come_again_in_order() -> None:
    packets = ByContent()
    assert [packets.note(incoming(packet), packet + 10, 1) for packet in (5, 6)] == [1, 2]
    assert packets.note(incoming(7, b"b"), 17, 1) == 1
    packets.lost()
    assert [packets.find(incoming(1), 1), packets.find(incoming(2), 1), packets.find(incoming(3), 1)] == [15, 16, None]
    assert packets.find(incoming(4, b"b"), 1) == 17
    packets.lost()
    assert packets.find(incoming(1), 16) == 16


def test_by_content_an_equal_one_that_came_meanwhile_is_not_taken_for_one_that_is_sent_again() -> None:
    packets = ByContent()
    packets.note(incoming(1), 1, 1)
    packets.lost()
    assert packets.find(incoming(1), 1) == 1
    packets.note(incoming(2), 2, 1)
    assert packets.find(incoming(3), 1) is None


def test_by_content_what_is_done_with_is_forgotten() -> None:
    packets = ByContent()
    for number in range(10_000):
        packets.note(incoming(1, b"%d" % number), number + 1, number)
    assert len(packets._sequences) <= 2_048
    assert packets.note(incoming(1, b"9999"), 10_001, 10_001) == 1  # the earlier one does not count any more
