"""What clients publish: given an identity, acknowledged in order, recognised when it comes again."""

import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.counters import Counters
from mqloom.core.effects import Acknowledge, Effect, HoldIntake, PublishFence, ReleaseIntake
from mqloom.core.ids import GatewayId
from mqloom.core.limits import FENCE_EVERY_S, INTAKE_WINDOW
from mqloom.core.publication import Incoming, Publication
from mqloom.core.traits import USUAL, Traits
from mqloom.gateway.intake import FIRST_FENCE, Intake
from mqloom.gateway.journal import Journal

US = GatewayId("US")


class Door:
    """An intake, and a broker that hands publications over."""

    def __init__(self, *, is_open: bool = True, traits: Traits = USUAL, payload_bytes_max: int = 100) -> None:
        self.now = 0.0
        self.counters = Counters()
        self.intake = Intake(US, 1, payload_bytes_max, Journal(self.counters))
        self.intake.know(traits)
        self.receipt = 0
        self.under_way: list[int] = []
        if is_open:
            self.intake.open()
            self.drain()

    def take(
        self, packet: int = 1, payload: bytes = b"", *, again: bool = False, replayed: bool = False
    ) -> Sequence[int]:
        """Hand one over; return its sequence if it is new."""
        return [each.sequence for each in self.take_publications(packet, payload, again=again, replayed=replayed)]

    def take_publications(
        self, packet: int = 1, payload: bytes = b"", *, again: bool = False, replayed: bool = False
    ) -> list[Publication]:
        self.receipt += 1
        incoming = Incoming(
            topic="t", payload=payload, qos=1, replayed=replayed, receipt=self.receipt, packet=packet, again=again
        )
        taken = self.intake.take([incoming])
        self.intake.check()
        return taken

    def drain(self) -> list[Effect]:
        effects = self.intake.drain(self.now)
        self.under_way += [each.number for each in effects if isinstance(each, PublishFence)]
        self.intake.check()
        return effects

    def acknowledged(self) -> list[int]:
        return [receipt for each in self.drain() if isinstance(each, Acknowledge) for receipt in each.receipts]

    def fences(self) -> list[int]:
        return [each.number for each in self.drain() if isinstance(each, PublishFence)]

    def fence(self) -> None:
        """Let everything acknowledged be fenced."""
        self.now += FENCE_EVERY_S
        self.drain()
        while self.under_way:
            self.intake.fenced(self.under_way.pop(0))


# ---- identity ----------------------------------------------------------------------------------------------------


def test_each_gets_the_next_sequence_and_the_mark_of_that_moment() -> None:
    door = Door()
    (first,) = door.take_publications(1)
    (second,) = door.take_publications(2)
    assert [(each.id, each.low_water, each.packet, each.qos) for each in (first, second)] == [
        ((US, 1, 0), 0, 1, 1),
        ((US, 1, 1), 0, 2, 1),
    ]
    door.intake.met(0)
    door.drain()
    door.fence()
    (third,) = door.take_publications(3)
    assert third.low_water == 1
    assert door.counters.total("publications_in") == 3


def test_qos_0_has_no_receipt_and_is_never_waited_for() -> None:
    door = Door()
    (publication,) = door.intake.take([Incoming(topic="t", payload=b"")])
    assert (publication.qos, publication.packet, publication.low_water) == (0, 0, 1)
    assert len(door.intake) == 0
    assert door.acknowledged() == []


def test_qos_2_is_carried_as_1() -> None:
    door = Door()
    (publication,) = door.intake.take([Incoming(topic="t", payload=b"", qos=2, receipt=1, packet=1)])
    assert publication.qos == 1


def test_however_many_long_topics_come_few_stay_in_memory() -> None:
    door = Door()
    tracemalloc.start()
    try:
        for number in range(4_000):
            assert door.intake.take([Incoming(topic=f"a/{number}/" + "x" * 14_900, payload=b"")])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10_000_000


def test_a_session_that_our_broker_has_lost_while_we_run_is_told_and_counted_but_not_that_there_was_none_at_first() -> (
    None
):
    door = Door()
    for resumed, count in ((False, 0), (True, 0), (False, 1), (True, 1), (False, 2)):
        door.intake.lost()
        door.intake.opened(door.now, echoes=False, resumed=resumed)
        assert door.counters.reasons("broker_sessions_lost") == ({"intake": count} if count else {})


# ---- acknowledgements --------------------------------------------------------------------------------------------


def test_what_is_no_data_any_more_is_not_taken_in_and_acknowledged_behind_what_came_before_it() -> None:
    door = Door()
    (first,) = door.take(1)
    assert door.intake.take([Incoming(topic="old", payload=b"", qos=1, receipt=2, packet=2, is_data=False)]) == []
    assert door.acknowledged() == []
    door.intake.met(first)
    assert door.acknowledged() == [1, 2]
    assert door.counters.snapshot() == {"publications_in": 1}


def test_they_are_acknowledged_in_the_order_in_which_they_came() -> None:
    door = Door()
    for packet in (1, 2, 3):
        door.take(packet)
    door.intake.met(1)
    assert door.acknowledged() == []
    door.intake.met(0)
    assert door.acknowledged() == [1, 2]
    door.intake.met(2)
    assert door.acknowledged() == [3]
    assert len(door.intake) == 0


def test_what_is_refused_is_acknowledged_in_its_turn() -> None:
    door = Door()
    door.take(1)
    assert door.take(2, replayed=True) == []
    assert door.acknowledged() == []
    door.intake.met(0)
    assert door.acknowledged() == [1, 2]
    assert door.counters.reasons("publications_refused") == {"retained replay": 1}


# ---- sent again --------------------------------------------------------------------------------------------------


def test_sent_again_while_it_is_pending_it_is_the_same_and_its_new_receipt_counts() -> None:
    door = Door()
    door.take(1)
    door.intake.lost()
    assert door.take(1, again=True) == []
    assert door.acknowledged() == []
    door.intake.met(0)
    assert door.acknowledged() == [2]
    assert door.counters.total("duplicates") == 1


def test_taken_care_of_while_the_connection_was_away_it_is_acknowledged_when_it_comes_again() -> None:
    door = Door()
    door.take(1)
    door.intake.lost()
    door.intake.met(0)
    assert door.acknowledged() == []
    assert door.take(1, again=True) == []
    assert door.acknowledged() == [2]


def test_acknowledged_but_the_broker_did_not_get_it_it_is_acknowledged_once_more() -> None:
    door = Door()
    door.take(1)
    door.intake.met(0)
    assert door.acknowledged() == [1]
    door.intake.lost()
    assert door.take(1, again=True) == []
    assert door.acknowledged() == [2]


@pytest.mark.parametrize("again", [True, False])
def test_another_one_under_the_same_packet_id_is_new(again: bool) -> None:
    door = Door()
    door.take(1, b"x")
    door.intake.met(0)
    door.drain()
    assert door.take(1, b"y", again=again) == [1]


def test_an_equal_one_under_the_same_packet_id_is_new_when_the_broker_has_surely_forgotten_the_first() -> None:
    door = Door()
    door.take(1, b"x")
    door.intake.met(0)
    assert door.acknowledged() == [1]
    door.fence()
    door.intake.lost()  # and with it another message of that packet id, on its way to us
    assert door.take(1, b"x", again=True) == [1]


def test_sent_again_before_our_first_fence_is_back_it_may_be_of_an_earlier_life() -> None:
    door = Door(is_open=False)
    door.intake.open()
    assert door.fences() == [FIRST_FENCE]
    (old,) = door.take_publications(1, again=True)
    (new,) = door.take_publications(2)
    assert (old.repeat, new.repeat) == (True, False)
    door.intake.fenced(FIRST_FENCE)
    (lost,) = door.take_publications(3, again=True)  # it was lost on its way to us in this life
    assert not lost.repeat


def test_what_came_as_a_repeat_and_is_sent_again_is_known() -> None:
    door = Door()
    assert door.take(1, again=True) == [0]
    door.intake.lost()
    assert door.take(1, again=True) == []


def test_sent_again_while_the_connection_stands_it_is_the_same_and_its_new_receipt_counts() -> None:
    """So does NATS, when its `ack_wait` is over."""
    door = Door()
    (first,) = door.take(1, b"a")
    (second,) = door.take(2, b"b")
    assert door.take(1, b"a", again=True) == []
    door.intake.met(second)
    assert door.acknowledged() == [2]
    door.intake.met(first)
    assert door.acknowledged() == [3]


def test_of_a_broker_that_does_not_repeat_at_once_anything_sent_again_may_be_of_an_earlier_life() -> None:
    for traits, repeat in ((USUAL, False), (Traits(repeats_at_once=False), True)):
        door = Door(traits=traits)
        door.intake.fenced(FIRST_FENCE)
        assert [each.repeat for each in door.take_publications(1, b"a", again=True)] == [repeat]


def test_the_first_fence_is_published_again_after_a_break() -> None:
    door = Door(is_open=False)
    assert door.fences() == []
    door.intake.open()
    assert door.fences() == [FIRST_FENCE]
    assert door.fences() == []
    door.intake.lost()
    assert door.fences() == [FIRST_FENCE]
    door.intake.fenced(FIRST_FENCE)
    door.intake.lost()
    assert door.fences() == []


# ---- fences and the mark -----------------------------------------------------------------------------------------


def test_a_fence_follows_acknowledgements_but_not_too_often() -> None:
    door = Door()
    for packet in (1, 2):
        door.take(packet)
    door.intake.met(0)
    effects = door.drain()
    assert effects == [Acknowledge(receipts=(1,)), PublishFence(number=1)]
    door.intake.fenced(1)
    door.intake.met(1)
    assert door.fences() == []
    assert door.intake.deadline == FENCE_EVERY_S
    door.now = FENCE_EVERY_S
    assert door.fences() == [2]
    assert door.intake.deadline is None


def test_a_break_takes_the_proof_of_a_fence_with_it() -> None:
    door = Door()
    door.take(1)
    door.intake.met(0)
    assert door.fences() == [1]
    door.intake.lost()
    door.intake.fenced(1)
    door.take(1, again=True)
    (publication,) = door.take_publications(2)
    assert publication.low_water == 0
    door.fence()
    (publication,) = door.take_publications(3)
    assert publication.low_water == 1


def test_a_fence_before_an_acknowledgement_that_had_to_wait_for_its_turn_proves_nothing_for_it() -> None:
    door = Door()
    door.intake.fenced(FIRST_FENCE)
    door.take(1)
    door.take(2)
    door.intake.lost()
    door.intake.met(1)
    assert door.fences() == [1]
    door.take(1, again=True)
    door.take(2, again=True)
    door.intake.fenced(1)
    door.intake.met(0)
    assert door.acknowledged() == [3, 4]
    door.intake.lost()  # the broker has read the first of them, but not the second
    door.now = FENCE_EVERY_S
    assert door.fences() == [2]
    door.take(2, again=True)
    assert door.acknowledged() == [5]
    door.intake.fenced(2)
    (publication,) = door.take_publications(3)
    assert publication.low_water == 1


# ---- the window --------------------------------------------------------------------------------------------------


def test_it_is_held_until_it_is_opened() -> None:
    door = Door(is_open=False)
    assert door.drain() == []
    assert not door.intake.is_open
    door.intake.open()
    assert door.intake.is_open
    assert door.drain() == [PublishFence(number=FIRST_FENCE), ReleaseIntake()]
    assert door.drain() == []


def test_past_the_window_it_is_held_until_half_of_it_is_done() -> None:
    door = Door()
    for packet in range(INTAKE_WINDOW):
        door.take(packet + 1)
    assert door.drain() == []
    door.take(INTAKE_WINDOW + 1)
    assert door.drain() == [HoldIntake()]
    assert door.drain() == []
    for sequence in range(INTAKE_WINDOW // 2):
        door.intake.met(sequence)
    assert not any(isinstance(each, ReleaseIntake) for each in door.drain())
    door.intake.met(INTAKE_WINDOW // 2)
    assert door.drain()[-1] == ReleaseIntake()


def test_a_break_releases_it_because_nothing_of_that_connection_is_waited_for() -> None:
    door = Door()
    for packet in range(INTAKE_WINDOW + 1):
        door.take(packet + 1)
    assert HoldIntake() in door.drain()
    door.intake.lost()
    assert ReleaseIntake() in door.drain()


# ---- against a plain broker --------------------------------------------------------------------------------------


class Session:
    """A broker's session: it sends in order, keeps what was not acknowledged, and takes the lowest free packet id.

    What is under way, either way, when the connection breaks is lost.
    """

    def __init__(self, traits: Traits) -> None:
        self.traits = traits
        self.door = Door(traits=traits)
        self.kept: dict[int, tuple[int, bytes]] = {}  # by message: packet id and payload; those sent at least once
        self.queue: list[tuple[int, bytes]] = []
        self.count = 0
        self.towards: list[tuple[int, int, bytes, bool]] = []  # message, packet id, payload, again
        self.back: list[int | None] = []  # receipts, and None for a fence
        self.fence_numbers: list[int] = []
        self.message_of: dict[int, int] = {}  # by receipt of this connection
        self.sequence_of: dict[int, int] = {}  # by message
        self.pending: set[int] = set()

    def send(self, limit: int = 6) -> None:
        while self.queue and len(self.kept) < limit:
            message, payload = self.queue.pop(0)
            packet = min(set(range(1, limit + 1)) - {packet for packet, _ in self.kept.values()})
            self.kept[message] = packet, payload
            self.towards.append((message, packet, payload, False))

    def step(self, kind: str, amount: int) -> None:
        if kind == "publish":
            self.queue.append((self.count, b"%d" % self.count))
            self.count += 1
        elif kind == "arrive" and self.towards:
            self.arrive(*self.towards.pop(0))
        elif kind == "meet" and self.pending:
            sequence = sorted(self.pending)[amount % len(self.pending)]
            self.pending.remove(sequence)
            self.door.intake.met(sequence)
        elif kind == "read" and self.back:
            self.read(self.back.pop(0))
        elif kind == "break":
            self.connect_anew()
        self.send()
        self.door.now += 0.2
        self.carry_out(self.door.drain())

    def arrive(self, message: int, packet: int, payload: bytes, again: bool) -> None:
        taken = self.door.take(packet, payload, again=again)
        self.message_of[self.door.receipt] = message
        if taken:
            assert message not in self.sequence_of, "taken in twice"
            self.sequence_of[message] = taken[0]
            self.pending.add(taken[0])
        self.carry_out(self.door.drain())

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Acknowledge):
                for receipt in effect.receipts:
                    assert self.sequence_of[self.message_of[receipt]] not in self.pending, "acknowledged too early"
                self.back += effect.receipts
            elif isinstance(effect, PublishFence):
                self.back.append(None)
                self.fence_numbers.append(effect.number)

    def read(self, receipt: int | None) -> None:
        if receipt is None:
            # Its answer is behind what was sent before.
            while self.towards:
                self.arrive(*self.towards.pop(0))
            self.door.intake.fenced(self.fence_numbers.pop(0))
        else:
            del self.kept[self.message_of[receipt]]

    def connect_anew(self) -> None:
        self.towards.clear()
        self.back.clear()
        self.fence_numbers.clear()
        self.message_of.clear()
        self.door.intake.lost()
        self.carry_out(self.door.drain())
        if not self.traits.keeps_packet_ids:
            self.kept = {
                message: (number, payload) for number, (message, (_, payload)) in enumerate(self.kept.items(), 1)
            }
        for message, (packet, payload) in self.kept.items():
            self.towards.append((message, packet, payload, True))


steps = st.tuples(
    st.sampled_from(["publish", "publish", "arrive", "arrive", "meet", "read", "read", "break"]), st.integers(0, 5)
)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=80), st.booleans())
def test_whatever_breaks_everything_is_taken_in_once_and_acknowledged(
    script: list[tuple[str, int]], keeps_packet_ids: bool
) -> None:
    session = Session(Traits(keeps_packet_ids=keeps_packet_ids))
    for step in script:
        session.step(*step)
        low_water = session.door.intake._marks.low_water
        kept = [session.sequence_of[message] for message in session.kept if message in session.sequence_of]
        assert low_water <= min(kept, default=low_water), "it may come again"
    for kind in ("arrive", "meet", "read") * (6 * session.count + 10):
        session.step(kind, 0)
    assert sorted(session.sequence_of) == list(range(session.count))
    assert session.kept == {}
    assert len(session.door.intake) == 0


def test_a_payload_past_the_bound_of_the_federation_is_acknowledged_and_counted() -> None:
    door = Door(payload_bytes_max=3)
    assert door.take(1, b"four") == []
    assert Acknowledge(receipts=(1,)) in door.drain()
    assert door.counters.reasons("publications_refused") == {"payload too large": 1}
    assert len(door.take(2, b"one")) == 1
