"""What an agent is: an internal subscriber with timers, which talks to its like on other gateways.

Agents are cores without IO: `handle(event, now)` returns effects. What they ask for takes time, and is answered by an
event with the same token: a profile of what publications match, a computation beside the event loop, a move of clients.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable

from mqloom.core.filter import Scalar
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.load import Load
from mqloom.core.subscription import Subscription
from mqloom.core.telemetry import Record
from mqloom.gateway.offload_interfaces import OffloadKind

Subject = Mapping[str, Scalar]
"""What a control publication is about; filters of agents look at it, and at nothing else."""

NO_SUBJECT: Final[Subject] = MappingProxyType({})


class AgentWoke(NamedTuple):
    """The time that an agent asked for has come; also its first event, at the start."""


class AgentEnded(NamedTuple):
    """Another configuration holds, by which another agent takes this one's place, or none: its last event.

    What it publishes goes out; what it asks of its gateway now, or has asked before, is not answered any more.
    """


class ControlReceived(NamedTuple):
    """An agent of the same name at `origin` published `body`."""

    origin: GatewayId
    body: bytes
    subject: Subject = NO_SUBJECT


class ControlsWanted(NamedTuple):
    """The agent of the same name at `neighbour` wants these control publications from now on; empty: none any more."""

    neighbour: GatewayId
    wheres: Sequence[str]
    is_new: bool
    """It was not known before: the neighbour has begun anew, or its link was down, so it has missed what was said."""


class LoadSampled(NamedTuple):
    """This was the load of our broker and gateway in the window that has just ended.

    `broker` is what the broker says of itself at its end, by its own names; empty where it says nothing.
    """

    load: Load
    broker: Mapping[str, float] = MappingProxyType({})


class Sample(NamedTuple):
    """What one publication has matched."""

    keys: Collection[SubscriptionKey]
    """Subscriptions of our own clients."""
    is_wanted_there: bool
    """Whether the covering set that was handed in matches it."""
    size: int
    """Bytes of topic and payload."""
    comes_anyway: bool = False
    """Whichever clients go, it comes in: it was published here, is passed on, or is wanted here by what cannot move."""


class ProfileTaken(NamedTuple):
    """Answers TakeProfile: what came in, in order, and in how many seconds."""

    token: str
    samples: Sequence[Sample]
    took_s: float


class Computed(NamedTuple):
    """Answers Compute: what the function returned; or None, and why it failed."""

    token: str
    result: object
    problem: str = ""


class ClientsMoved(NamedTuple):
    """Answers MoveClients: who has moved, and why others have not."""

    token: str
    moved: Sequence[ClientId]
    stayed: Mapping[ClientId, str]
    under_way: Sequence[ClientId] = ()
    """Of those who stayed, who was on its way when time was up: it may still arrive."""


class AgentAsked(NamedTuple):
    """An operator asks this agent something; answered by AnswerOperator with the same `operator` and `number`."""

    operator: ClientId
    number: int
    body: bytes


AgentEvent = (
    AgentWoke
    | AgentEnded
    | ControlReceived
    | ControlsWanted
    | LoadSampled
    | ProfileTaken
    | Computed
    | ClientsMoved
    | AgentAsked
)


class PublishControl(NamedTuple):
    """Send `body` to the agents of the same name on all gateways within `hops` links.

    With a subject it only goes to those who want it (`WantControls`), and only over links that lead to one.
    """

    body: bytes
    hops: int
    subject: Subject = NO_SUBJECT


class WantControls(NamedTuple):
    """From now on receive only control publications whose subject one of these filters matches, from so far away.

    Filters are of the federation's own language. Replaces what was wanted before. Publications without a subject come
    in any case.
    """

    wheres: Sequence[str]
    hops: int


class TakeProfile(NamedTuple):
    """Note for the next publications what they match, as many or until time is up; a new one replaces the one before.

    `covering` is tried on them afterwards, bit by bit (paper 000, section 4.1, has it locally subscribed meanwhile).
    """

    token: str
    covering: Sequence[Subscription]
    samples: int
    timeout_s: float


class Compute(NamedTuple):
    """Run a pure function beside the event loop."""

    token: str
    function: Callable[[], object]


class MoveClients(NamedTuple):
    """Order clients of ours to another broker; answered when all have moved or stayed, or by the time given."""

    token: str
    clients: Sequence[ClientId]
    to: GatewayId
    timeout_s: float


class AnswerOperator(NamedTuple):
    """Answers AgentAsked."""

    operator: ClientId
    number: int
    body: bytes


class AgentLog(NamedTuple):
    """Write a line into the gateway's log."""

    level: Literal["info", "warning", "error"]
    text: str


class WakeAgentAt(NamedTuple):
    """Send AgentWoke at this time; a later one replaces an earlier one."""

    at: float


AgentOrder = TakeProfile | Compute | MoveClients | AnswerOperator
"""What the gateway does for an agent."""

AgentEffect = PublishControl | WantControls | AgentOrder | AgentLog | WakeAgentAt


class Agent(Protocol):
    """An internal subscriber with timers, which talks to its like on other gateways; a core without IO itself."""

    @property
    def name(self) -> str:
        """The name by which the agents of all gateways find each other."""
        ...

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        """Take an event, return what is to be done."""
        ...


class AgentView(Protocol):
    """What an agent may look at in its gateway, at any time; looking changes nothing."""

    def neighbours(self) -> Sequence[GatewayId]:
        """Return the gateways at the other ends of our primary links."""
        ...

    def wishes(self) -> Mapping[ClientId, Mapping[SubscriptionKey, Subscription]]:
        """Return what our own clients want."""
        ...

    def movable(self) -> Collection[ClientId]:
        """Return those of our clients that can be ordered elsewhere, and are not on their way already."""
        ...

    def is_draining(self) -> bool:
        """Tell whether our broker is being emptied: whoever is moved to it is sent on at once."""
        ...

    def covering_set(self) -> Sequence[Subscription]:
        """Return the most general subscriptions of our own clients: all others are covered by these."""
        ...

    def offload(self, name: str) -> OffloadKind | None:
        """Return the way of this name to choose whom to move, if a plugin offers it."""
        ...


@runtime_checkable
class TellingAgent(Agent, Protocol):
    """An agent with telemetry of its own."""

    def tell(self, at: float) -> Sequence[Record]:
        """Return what there is to tell since the last call, dated with `at`, a Unix time; called with each window."""
        ...


@runtime_checkable
class SeeingAgent(Agent, Protocol):
    """An agent that looks into its gateway: `see` is called once, before its first event."""

    def see(self, view: AgentView) -> None:
        """Take the view."""
        ...
