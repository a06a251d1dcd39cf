"""Two links back to back under random losses, restarts and time."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.counters import Counters
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.publication import Publication
from mqloom.core.wire import decode, decode_ack
from mqloom.gateway.custody import Custody, FromBroker
from mqloom.gateway.departures import Entry
from mqloom.gateway.journal import Journal
from mqloom.gateway.links import Link, LinkChange, LinkState

US, THEM = GatewayId("US"), GatewayId("THEM")
OPEN, CLOSE, DOUBT = LinkChange.OPEN, LinkChange.CLOSE, LinkChange.DOUBT


class Side:
    """One side: its link, what it says in each conversation, and what it obeyed of the other's.

    It says publications. Some of those it gets it takes care of at once, others only when it is told to.
    """

    def __init__(self, name: GatewayId, other: GatewayId) -> None:
        self.name, self.other = name, other
        self.epoch = 0
        self.channel: list[bytes] = []  # frames to the other side
        self.acks: list[bytes] = []  # acknowledgements to the other side
        self.sent = 0
        self.said: dict[Conversation, int] = {}
        self.restart(0.0)

    def restart(self, now: float) -> None:
        self.now = now
        self.epoch += 1
        self.link = Link(self.name, self.other, Conversation(self.epoch, 0), now, Journal(Counters()))
        self.opened_in: Conversation | None = None
        self.doubted: Conversation | None = None
        self.obeyed: dict[Conversation, int] = {}
        self.put_off: list[tuple[Conversation, int]] = []
        self.unfinished: list[Entry] = []
        self.link.connected(now)
        self.send()

    def send(self, entries: Sequence[Entry] = ()) -> None:
        for sent in self.link.pack((), entries, self.now):
            self.channel.append(sent.frame)
            self.sent += 1
        ack = self.link.pack_ack(self.now)
        if ack is not None:
            self.acks.append(ack.ack)
            self.sent += 1

    def say(self, count: int = 1) -> None:
        """Say numbered things, if anybody listens."""
        for _ in range(count if self.link.state is LinkState.UP else 0):
            conversation = self.link._conversation
            number = self.said.get(conversation, 0)
            self.said[conversation] = number + 1
            publication = Publication(self.name, conversation.epoch, number, 0, 0, "t", b"", 1)
            entry = Entry(publication, Custody().begin(FromBroker(number)))
            self.unfinished.append(entry)
            self.send([entry])

    def change(self, changes: Sequence[LinkChange]) -> None:
        for change in changes:
            if change is OPEN:
                assert self.opened_in is None
                self.opened_in = self.link._conversation
            elif change is CLOSE:
                assert self.opened_in is not None
                self.opened_in = None
                # What was not taken care of is given back, all of it and in order.
                assert self.link.take_back() == self.unfinished
                self.unfinished = []
        assert (self.link.state is LinkState.UP) == (self.opened_in is not None)
        assert self.opened_in in (None, self.link._conversation)
        assert self.link.held == len(self.unfinished)
        self.link.check()

    def receive(self, data: bytes, now: float) -> None:
        self.now = now
        received = decode(data)
        changes, messages = self.link.receive(received, now)
        if DOUBT in changes:
            assert self.doubted is None or received.conversation >= self.doubted
            self.doubted = received.conversation
        self.change(changes)
        for message in messages:
            if isinstance(message, Publication):
                # Only of the conversation that is followed, from its beginning, and without a gap.
                assert received.conversation == self.doubted
                expected = self.obeyed.get(received.conversation, 0)
                assert message.sequence == expected
                self.obeyed[received.conversation] = expected + 1
                self.put_off.append((received.conversation, expected))
                if expected % 3:
                    self.take_care()
        if OPEN in changes:
            self.say()
        self.send()

    def receive_ack(self, data: bytes, now: float) -> None:
        self.now = now
        finished = self.link.acknowledged(decode_ack(data), now)
        assert all(any(entry is each for each in self.unfinished) for entry in finished)  # each once
        for entry in finished:
            self.unfinished = [each for each in self.unfinished if each is not entry]
        self.change(())
        self.send()

    def take_care(self, count: int = 1) -> None:
        for _ in range(min(count, len(self.put_off))):
            self.link.taken_care_of(*self.put_off.pop())
        self.link.check()

    def step(self, kind: str, amount: int, now: float) -> None:
        if kind == "lose":
            del self.channel[:amount]
        elif kind == "lose newest":
            del self.channel[-amount:]
        elif kind == "lose acks":
            self.acks.clear()
        elif kind == "repeat":
            self.channel[:0] = self.channel[:1]
        elif kind == "restart":
            self.restart(now)
        elif kind == "lost":
            self.link.lost(now)
        elif kind == "connected":
            self.link.connected(now)
        elif kind == "say":
            self.say(amount)
        else:
            assert kind == "take care"
            self.take_care(amount)
        self.send()

    def wake(self, now: float) -> None:
        self.now = now
        while self.link.deadline is not None and self.link.deadline <= now:
            self.change(self.link.wake(now))
            self.send()


class Pair:
    """Two sides and the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sides = (Side(US, THEM), Side(THEM, US))

    def deliver(self, receiver: int) -> None:
        sender = self.sides[1 - receiver]
        if sender.channel:
            self.sides[receiver].receive(sender.channel.pop(0), self.now)
        if sender.acks:
            self.sides[receiver].receive_ack(sender.acks.pop(0), self.now)

    def step(self, kind: str, which: int, amount: int) -> None:
        if kind == "deliver":
            for _ in range(amount):
                self.deliver(which)
        elif kind == "wait":
            self.wait(amount)
        else:
            self.sides[which].step(kind, amount, self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for side in self.sides:
            side.wake(self.now)

    def settle(self, seconds: int) -> None:
        for _ in range(seconds * 2):
            for _ in range(1_000):
                if not any(side.channel or side.acks for side in self.sides):
                    break
                self.deliver(0)
                self.deliver(1)
            else:
                raise AssertionError("the greetings do not end")
            self.wait(0.5)


KINDS = [
    "deliver",
    "deliver",
    "deliver",
    "lose",
    "lose newest",
    "lose acks",
    "repeat",
    "restart",
    "lost",
    "connected",
    "say",
    "take care",
    "wait",
]
steps = st.tuples(st.sampled_from(KINDS), st.integers(0, 1), st.integers(1, 6))


def judge(script: list[tuple[str, int, int]]) -> None:
    pair = Pair()
    for step in script:
        pair.step(*step)
    for side in pair.sides:
        side.link.connected(pair.now)
        side.send()
    pair.settle(15)
    for side in pair.sides:
        side.take_care(len(side.put_off))
        side.send()
    pair.settle(1)
    sent = [side.sent for side in pair.sides]
    pair.settle(20)
    assert [side.sent for side in pair.sides] == sent, "something is still said"
    for side, other in (pair.sides, pair.sides[::-1]):
        assert side.link.state is LinkState.UP
        assert side.link.deadline is None
        conversation = side.link._conversation
        assert other.doubted == conversation
        assert other.obeyed[conversation] == side.said[conversation]
        assert side.unfinished == []


@settings(max_examples=250, deadline=None)
@given(st.lists(steps, max_size=60))
def test_whatever_happened_both_sides_are_up_again_and_everything_is_obeyed_once_and_acknowledged(
    script: list[tuple[str, int, int]],
) -> None:
    judge(script)


FOUND = {
    # One side gives up on the other and comes back, while the other has noticed nothing.
    "given up by one side": [
        ("deliver", 0, 5),
        ("deliver", 1, 5),
        ("deliver", 0, 5),
        ("lost", 0, 1),
        ("wait", 0, 6),
        ("connected", 0, 1),
    ],
    # The greeting with which one side goes up is lost, and nothing else is said.
    "a lost last greeting": [("deliver", 0, 1), ("deliver", 1, 2), ("lose", 1, 1)],
    # A greeting is lost before any side is up.
    "a lost greeting between": [("deliver", 0, 1), ("wait", 0, 2), ("lose newest", 1, 1), ("wait", 0, 2)],
}


@pytest.mark.parametrize("what", FOUND)
def test_what_once_kept_a_link_down_does_so_no_more(what: str) -> None:
    judge(FOUND[what])
