"""A subscriber in virtual time, around the production core.

It acknowledges a message after its core has handled it, and keeps its memory when it vanishes. Should its
core fail, as it does where no gateway answers, its user starts it anew, under another name and with another memory.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mqloom.client.states import State
from mqloom.client.subscriber import Subscriber
from mqloom.client.vocabulary import (
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Effect,
    Event,
    Failed,
    Finished,
    MessageReceived,
    Note,
    Subscribe,
    Tell,
    WakeAt,
    Woke,
)
from mqloom.client.vocabulary import Publish as PublishEffect
from mqloom.core import layout
from mqloom.core.errors import RecordError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Wish, decode_answer
from mqloom.lab.clock import Timer
from mqloom.lab.endpoint import Endpoint, Manner, Place
from mqloom.lab.packets import Publish

LEASE_S: Final = 7_200.0
"""Longer than any absence that the lab draws: nobody is forgotten while away."""

AGAIN_S: Final = 2.0
"""After what time a user starts a subscriber anew that failed."""


@dataclass(slots=True)
class Life:
    """One run of a subscriber: what it was promised, and what came. Times are of the world."""

    client: str
    gateway: GatewayId
    wishes: Mapping[str, Wish]
    established: dict[str, list[float]] = field(default_factory=dict)
    withdrawn_at: float | None = None
    under_way: frozenset[int] = frozenset()  # when it withdrew
    ended: dict[str, float] = field(default_factory=dict)
    over_at: float | None = None
    problem: str = ""
    delivered: list[tuple[float, int, tuple[str, ...]]] = field(default_factory=list)


class Lookup(NamedTuple):
    """What a subscriber asks the world for: the number of a publication, and the numbers of all that brokers hold."""

    number_of: Callable[[bytes], int]
    under_way: Callable[[], frozenset[int]]


class SubscriberModel:
    """A subscriber at one broker; opened by `start`, and once more after each failure."""

    def __init__(
        self,
        name: str,
        gateway: GatewayId,
        wishes: Mapping[str, Wish],
        place: Place,
        look: Lookup,
        tell: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self.gateway = gateway
        self.lives: list[Life] = []
        self._is_closing = False
        self._wishes = wishes
        self._place = place
        self._number_of = look.number_of
        self._under_way = look.under_way
        self._tell = tell
        self._begin()

    @property
    def mqtt_client_id(self) -> str:
        """The client id of the session of the present life."""
        return f"sub-{self.life.client}"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come, as the user wanted it."""
        return self.life.over_at is not None

    def start(self) -> None:
        """Connect for the first time."""
        self.endpoint.open()

    def close(self) -> None:
        """The user has had enough; without a connection the record could not be deleted, so that is waited for."""
        self._is_closing = True
        if self.life.withdrawn_at is None and self.core.state is not State.OFFLINE:
            self.life.withdrawn_at = self._place.clock.now
            self.life.under_way = self._under_way()
            self._happen(CloseRequested())

    def vanish(self, broker_notice_s: float) -> None:
        """Lose the connection until `come_back`."""
        self.endpoint.vanish(broker_notice_s)

    def come_back(self) -> None:
        """Connect again."""
        if not self.is_over:
            self.endpoint.open()

    def check(self) -> None:
        """State the invariants."""
        self.core.check()

    def _begin(self) -> None:
        client = self.name if not self.lives else f"{self.name}.{len(self.lives)}"
        self.life = Life(client, self.gateway, self._wishes)
        self.lives.append(self.life)
        self.core = Subscriber(ClientId(client), self._wishes, lease_s=LEASE_S)
        self._control = layout.control(self.gateway, ClientId(client))
        self._events: deque[tuple[Event, int]] = deque()
        self._effects: deque[Effect] = deque()
        self._awaits: int | None = None  # the number of the subscription that the broker must confirm
        self._busy = False
        self._timer: Timer | None = None
        manner = Manner(
            client_id=f"sub-{client}",
            clean=False,
            on_up=self._up,
            on_down=self._down,
            on_messages=self._received,
            on_subscribed=self._confirmed,
        )
        self.endpoint = Endpoint(self._place, manner)

    # ---- inward --------------------------------------------------------------------------------------------------

    def _up(self, session_present: bool) -> None:
        self._happen(Connected())
        if self._is_closing:
            self.close()

    def _down(self) -> None:
        self._awaits = None
        self._events = deque((event, 0) for event, _ in self._events)  # their packet ids are no longer ours
        self._happen(ConnectionLost())

    def _received(self, messages: list[Publish]) -> None:
        for message in messages:
            event = MessageReceived(
                topic=message.topic, payload=message.payload, qos=message.qos, retain=message.retain
            )
            self._happen(event, message.packet)

    def _confirmed(self, number: int) -> None:
        if number == self._awaits:
            self._awaits = None
            self._work()

    def _happen(self, event: Event, packet: int = 0) -> None:
        self._events.append((event, packet))
        self._work()

    def _work(self) -> None:
        """Carry out effects in order, then take the next event; a subscription lets everything wait."""
        if self._busy:
            return
        self._busy = True
        while self._awaits is None and (self._effects or self._events):
            if self._effects:
                self._carry_out(self._effects.popleft())
                continue
            event, packet = self._events.popleft()
            if isinstance(event, MessageReceived):
                self._listen(event)
            if self.core.state is not State.OFFLINE or not isinstance(event, MessageReceived):
                self._effects.extend(self.core.handle(event, self._place.clock.now))
            while self._effects and not isinstance(self._effects[0], Subscribe):
                self._carry_out(self._effects.popleft())
            if packet:
                self.endpoint.acknowledge((packet,))
        self._busy = False

    def _listen(self, message: MessageReceived) -> None:
        """Note what the gateway promises: the checkers lean on its answers, not on the core."""
        if message.topic != self._control:
            return
        try:
            answer = decode_answer(message.payload)
        except RecordError:
            return
        now = self._place.clock.now
        self._tell(self.life.client, f"is answered {answer.answer} {answer.name}{_partly(answer)}")
        if answer.answer == "established" and not _partly(answer):
            self.life.established.setdefault(answer.name, []).append(now)
        elif answer.answer == "ended":
            self.life.ended.setdefault(answer.name, now)

    # ---- outward -------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Deliver():
                self._deliver(effect)
            case Subscribe():
                if self.endpoint.is_up:
                    self._awaits = self.endpoint.subscribe(effect.topic, effect.qos)
            case PublishEffect():
                self.endpoint.publish(Publish(effect.topic, effect.payload, effect.qos, effect.retain))
            case WakeAt():
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._place.clock.timer_at(effect.at, lambda: self._happen(Woke()))
            case Tell() | Note():
                pass
            case Failed():
                self._end(effect.problem)
            case Finished():
                self._end("")

    def _deliver(self, effect: Deliver) -> None:
        number = self._number_of(effect.publication.payload)
        self.life.delivered.append((self._place.clock.now, number, effect.names))
        if self._place.watch is not None:  # a text for each delivery takes time
            self._tell(self.life.client, f"gets p{number} {effect.publication.id} for {', '.join(effect.names)}")

    def _end(self, problem: str) -> None:
        """The core is done: leave, and let the broker forget the session. After a failure, begin anew."""
        now = self._place.clock.now
        self.life.over_at, self.life.problem = now, problem
        self._tell(self.life.client, f"fails: {problem}" if problem else "has finished")
        if self._timer is not None:
            self._timer.cancel()
        Leaving(self.endpoint)
        if problem and not self._is_closing:
            self._place.clock.at(now + AGAIN_S, self._begin_anew)

    def _begin_anew(self) -> None:
        self._begin()
        self.start()


class Leaving:
    """Hands the last messages over, then makes the broker forget the session by connecting once with a clean one."""

    def __init__(self, endpoint: Endpoint, forgotten: Callable[[], None] = lambda: None) -> None:
        self._endpoint = endpoint
        self._forgotten = forgotten
        endpoint.manner.on_messages = lambda messages: None
        endpoint.manner.on_down = lambda: None
        endpoint.manner.on_up = lambda _: self._look([])
        endpoint.manner.on_published = self._look
        endpoint.open()
        self._look([])

    def _look(self, numbers: list[int]) -> None:
        endpoint = self._endpoint
        if endpoint.pending or not endpoint.is_up:
            return
        if not endpoint.manner.clean:
            endpoint.close()
            endpoint.manner.clean = True
            endpoint.open()
        else:
            endpoint.close()
            self._forgotten()


def _partly(answer: object) -> str:
    return " partly" if getattr(answer, "partly", False) else ""
