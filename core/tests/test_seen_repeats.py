"""Publications that their origin sends again in a later life: known by packet id, topic and payload."""

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId, PublicationId
from mqloom.core.limits import SEEN_ORIGINS_MAX
from mqloom.core.publication import Publication
from mqloom.core.seen import EPOCHS_MAX, Seen

A = GatewayId("A")


def publication(
    epoch: int,
    sequence: int,
    packet: int = 1,
    *,
    repeat: bool = False,
    low_water: int = 0,
    topic: str = "t",
    payload: bytes = b"x",
    origin: GatewayId = A,
) -> Publication:
    return Publication(origin, epoch, sequence, low_water, 0, topic, payload, 1, packet=packet, repeat=repeat)


def id_of(epoch: int, sequence: int) -> PublicationId:
    return PublicationId(A, epoch, sequence)


def test_the_same_id_again_is_known_by_itself() -> None:
    seen = Seen()
    assert seen.earlier(publication(1, 0)) is None
    assert seen.earlier(publication(1, 0)) == id_of(1, 0)


def test_a_repeat_of_what_has_come_is_known_by_its_first_name() -> None:
    seen = Seen()
    seen.earlier(publication(1, 7))
    assert seen.earlier(publication(2, 0, repeat=True)) == id_of(1, 7)
    assert seen.earlier(publication(2, 0, repeat=True)) == id_of(2, 0)


def test_a_repeat_of_what_has_not_come_is_new() -> None:
    seen = Seen()
    seen.earlier(publication(1, 7, packet=1))
    assert seen.earlier(publication(2, 0, packet=2, repeat=True)) is None


@pytest.mark.parametrize("other", ["packet", "topic", "payload", "origin"])
def test_what_differs_in_anything_is_another_one(other: str) -> None:
    seen = Seen()
    seen.earlier(publication(1, 7))
    different = {
        "packet": publication(2, 0, 2, repeat=True),
        "topic": publication(2, 0, topic="u", repeat=True),
        "payload": publication(2, 0, payload=b"y", repeat=True),
        "origin": publication(2, 0, origin=GatewayId("B"), repeat=True),
    }
    assert seen.earlier(different[other]) is None


def test_what_is_not_marked_as_a_repeat_is_new_whatever_it_contains() -> None:
    seen = Seen()
    seen.earlier(publication(1, 7))
    assert seen.earlier(publication(2, 0)) is None


def test_of_twins_the_one_that_has_not_come_is_new() -> None:
    seen = Seen()
    seen.earlier(publication(1, 0, packet=1))
    assert seen.earlier(publication(2, 0, packet=2, repeat=True)) is None
    assert seen.earlier(publication(2, 1, packet=1, repeat=True)) == id_of(1, 0)


def test_twins_that_both_have_come_are_both_known() -> None:
    seen = Seen()
    for packet in (1, 2):
        seen.earlier(publication(1, packet, packet))
    for packet in (1, 2):
        assert seen.earlier(publication(2, packet + 10, packet, repeat=True)) == id_of(1, packet)


def test_of_two_with_one_packet_id_the_later_is_meant_and_each_is_repeated_once() -> None:
    seen = Seen()
    seen.earlier(publication(1, 0))
    seen.earlier(publication(1, 1))
    assert seen.earlier(publication(2, 0, repeat=True)) == id_of(1, 1)
    assert seen.earlier(publication(2, 1, repeat=True)) is None


def test_after_two_restarts_it_is_known_by_the_later_name() -> None:
    seen = Seen()
    seen.earlier(publication(1, 0))
    assert seen.earlier(publication(2, 0, repeat=True)) == id_of(1, 0)
    assert seen.earlier(publication(3, 5, repeat=True)) == id_of(2, 0)


def test_a_restart_in_which_it_was_not_repeated_does_not_hide_it() -> None:
    seen = Seen()
    seen.earlier(publication(1, 0))
    seen.earlier(publication(2, 0, packet=9))
    assert seen.earlier(publication(3, 0, repeat=True)) == id_of(1, 0)


def test_an_original_that_comes_after_its_repeat_is_known() -> None:
    seen = Seen()
    seen.earlier(publication(1, 0, packet=5))
    assert seen.earlier(publication(2, 0, repeat=True)) is None
    assert seen.earlier(publication(1, 1)) == id_of(2, 0)
    assert seen.earlier(publication(1, 1)) == id_of(1, 1)


def test_an_original_that_comes_after_its_repeat_is_known_though_that_was_the_first_we_heard() -> None:
    seen = Seen()
    assert seen.earlier(publication(2, 0, repeat=True)) is None
    assert seen.earlier(publication(1, 1)) == id_of(2, 0)


def test_an_original_that_comes_between_other_repeats_and_its_own_is_known_by_then() -> None:
    seen = Seen()
    seen.earlier(publication(1, 0, packet=1))
    assert seen.earlier(publication(2, 0, packet=1, repeat=True)) == id_of(1, 0)
    assert seen.earlier(publication(1, 1, packet=2)) is None
    assert seen.earlier(publication(2, 1, packet=2, repeat=True)) == id_of(1, 1)


def test_repeats_of_two_restarts_may_come_in_any_order_and_the_original_last() -> None:
    seen = Seen()
    assert seen.earlier(publication(3, 0, repeat=True)) is None
    assert seen.earlier(publication(2, 0, repeat=True)) == id_of(3, 0)
    assert seen.earlier(publication(1, 0)) == id_of(2, 0)


def test_what_is_below_the_mark_is_done_with_and_cannot_be_meant() -> None:
    seen = Seen()
    seen.earlier(publication(1, 0, packet=1))
    seen.earlier(publication(1, 5, packet=2, low_water=5))
    assert seen.earlier(publication(2, 0, packet=1, repeat=True)) is None
    assert seen.earlier(publication(2, 1, packet=2, repeat=True)) == id_of(1, 5)


def test_what_has_no_packet_id_is_never_a_repeat() -> None:
    seen = Seen()
    seen.earlier(publication(1, 0, packet=0))
    assert seen.earlier(publication(2, 0, packet=0, repeat=True)) is None
    assert seen.earlier(publication(2, 0, packet=0, repeat=True)) == id_of(2, 0)


def test_past_the_bound_the_oldest_epoch_is_forgotten() -> None:
    seen = Seen()
    for epoch in range(1, EPOCHS_MAX + 1):
        seen.earlier(publication(epoch, 0, packet=epoch))
    assert seen.earlier(publication(1, 0, packet=1)) == id_of(1, 0)
    assert len(seen) == EPOCHS_MAX
    seen.earlier(publication(EPOCHS_MAX + 1, 0, packet=99))
    assert len(seen) == EPOCHS_MAX
    assert seen.earlier(publication(EPOCHS_MAX + 1, 1, packet=1, repeat=True)) is None
    assert seen.earlier(publication(EPOCHS_MAX + 1, 2, packet=2, repeat=True)) == id_of(2, 0)


def test_an_epoch_older_than_all_that_are_remembered_costs_nothing() -> None:
    seen = Seen()
    for epoch in range(10, 10 + EPOCHS_MAX):
        seen.earlier(publication(epoch, 0, packet=epoch))
    for _ in range(3):
        assert seen.earlier(publication(1, 0)) is None
        assert seen.earlier(publication(2, 0, packet=77, repeat=True)) is None
    assert len(seen) == EPOCHS_MAX


def test_repeats_are_forgotten_behind_the_mark() -> None:
    seen = Seen()
    seen.earlier(publication(1, 0, packet=60_000))
    for sequence in range(3_000):
        seen.earlier(publication(2, sequence, sequence + 1, repeat=True, low_water=max(0, sequence - 10)))
    assert len(seen) <= 1_024 + 1
    assert len(seen._origins[A].epochs[2].repeats) <= 1_024


def test_no_more_origins_than_the_bound_are_remembered() -> None:
    seen = Seen()
    for number in range(SEEN_ORIGINS_MAX + 2):
        seen.earlier(publication(1, 0, origin=GatewayId(f"G{number}")))
    assert len(seen) == SEEN_ORIGINS_MAX
    assert seen.earlier(publication(1, 0, origin=GatewayId("G1"))) is None


class Origin:
    """A gateway with its broker, which crashes, and the channel to one receiver.

    The broker counts packet ids. It keeps a message until it is acknowledged, which the gateway does when the receiver
    has it; and after a crash it hands what was not acknowledged over again.
    """

    def __init__(self) -> None:
        self.seen = Seen()
        self.received: Counter[int] = Counter()
        self.payloads: list[bytes] = []
        self.unacknowledged: dict[int, bool] = {}  # by message: whether it has been handed over in an earlier life
        self.epoch, self.sequence = 1, 0
        self.pending: dict[int, int] = {}  # by sequence: the message
        self.channels: list[list[tuple[Publication, int]]] = [[]]

    def publish(self, payload: bytes) -> None:
        self.unacknowledged[len(self.payloads)] = False
        self.payloads.append(payload)

    def hand_over(self) -> None:
        handed = set(self.pending.values())
        waiting = [message for message in self.unacknowledged if message not in handed]
        for message in waiting[:1]:
            sequence, self.sequence = self.sequence, self.sequence + 1
            self.pending[sequence] = message
            made = publication(
                self.epoch,
                sequence,
                message + 1,
                repeat=self.unacknowledged[message],
                low_water=min(self.pending),
                payload=self.payloads[message],
            )
            self.channels[-1].append((made, message))

    def arrive(self, at: int) -> None:
        channels = [channel for channel in self.channels if channel]
        if not channels:
            return
        arrived, message = channels[at % len(channels)].pop(0)
        self.received[message] += self.seen.earlier(arrived) is None
        if arrived.epoch == self.epoch:
            del self.pending[arrived.sequence]
            del self.unacknowledged[message]

    def crash(self, lost: int) -> None:
        """What is under way may be lost, or late."""
        if lost:
            del self.channels[-1][-lost:]
        for message in self.pending.values():
            self.unacknowledged[message] = True
        self.pending.clear()
        self.epoch, self.sequence = self.epoch + 1, 0
        self.channels.append([])


steps = st.tuples(
    st.sampled_from(["publish", "publish", "hand over", "hand over", "arrive", "crash"]), st.integers(0, 3)
)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=60))
@example([*[("publish", 0)] * 16, ("hand over", 0), ("crash", 0)])  # the original comes long after its repeat
def test_whatever_crashes_everything_comes_once(script: list[tuple[str, int]]) -> None:
    origin = Origin()
    crashes = 0
    for kind, amount in script:
        if kind == "publish":
            origin.publish(b"%d" % (amount // 2))
        elif kind == "hand over":
            origin.hand_over()
        elif kind == "arrive":
            origin.arrive(amount)
        elif crashes < EPOCHS_MAX - 1:
            crashes += 1
            origin.crash(amount)
        assert max(origin.received.values(), default=0) <= 1
    while origin.unacknowledged or any(origin.channels):
        origin.hand_over()
        origin.arrive(-1)
    assert origin.received == Counter(range(len(origin.payloads)))
