"""All legs of a client that is moved between brokers, and where else it may go."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from mqloom.client.journal import NEVER, Travel
from mqloom.client.journey import Journey
from mqloom.client.legs import HOME_LEG, Leg, Place
from mqloom.client.limits import FAILOVER_S, LEASE_S
from mqloom.client.roles import Role
from mqloom.client.states import State
from mqloom.client.subscriber import Subscriber
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import VISITED_MAX
from mqloom.core.orders import RosterBroker
from mqloom.core.records import Wish
from mqloom.core.seen import Seen


class Manner(NamedTuple):
    """How a client asks for its subscriptions, wherever it is."""

    qos: int = 1
    lease_s: float = LEASE_S
    token: str = ""
    adopts: bool = False
    gateway: GatewayId | None = None
    """Whose broker the first one is, where a broker does not tell that by a wildcard."""


class Party:
    """Legs by number, with one memory of what has come by any of them."""

    def __init__(self, client: ClientId, manner: Manner, seen: Seen, incarnation: str = "") -> None:
        self.plain_journey = Journey(incarnation=incarnation)
        """Of a client that has nothing to do with other brokers."""
        self.errands: set[str] = set()
        """Where we have gone because of what an earlier life has left there."""
        self.unknown: dict[str, None] = {}
        """Where such errands are to lead, if no roster had it yet."""
        self.legs: dict[int, Leg] = {}
        self.seen = seen
        self.brokers: Mapping[GatewayId, RosterBroker] = {}
        """The brokers of the roster, as long as that is valid."""
        self.visited: dict[GatewayId, None] = {}
        """Where we were served before, in this life or an earlier one, the last of them last."""
        self._client = client
        self._manner = manner
        self._numbers = count(HOME_LEG)
        self._behind: dict[int, GatewayId] = {}  # brokers that are to forget us and may not have, by former leg

    def __len__(self) -> int:
        return len(self.legs)

    def __iter__(self) -> Iterator[Leg]:
        """Yield those that are there now, whatever becomes of them meanwhile."""
        return iter(list(self.legs.values()))

    @property
    def home(self) -> Leg:
        """The leg by which we are served, or about to be."""
        return next(leg for leg in self if leg.role in (Role.HOME, Role.WAITING))

    def in_role(self, role: Role) -> Leg | None:
        """Return the first leg of a role, if there is one."""
        return next((leg for leg in self if leg.role is role), None)

    def add(
        self,
        role: Role,
        gateway: GatewayId | None,
        wishes: Mapping[str, Wish],
        journey: Journey,
        end_by: float | None,
        *,
        is_first: bool = False,
    ) -> Leg:
        """Have one more leg; the first of a life takes over what an earlier one wanted, if this client does."""
        core = Subscriber(
            self._client,
            wishes,
            qos=self._manner.qos,
            lease_s=self._manner.lease_s,
            gateway=gateway,
            token=self._manner.token,
            lasting=True,
            travel=Travel(journey, self.seen, is_home=role is Role.HOME),
            adopts=is_first and self._manner.adopts,
        )
        leg = Leg(next(self._numbers), core, role, gateway, end_by=end_by)
        self._return_to(gateway)
        self.legs[leg.number] = leg
        self.hold_floors()
        return leg

    def drop(self, leg: Leg, *, forget: bool = False) -> None:
        """Have one leg less; its broker is to forget us, or not."""
        del self.legs[leg.number]
        self._return_to(leg.gateway)
        if forget and leg.gateway is not None:
            self._behind[leg.number] = leg.gateway
        self.hold_floors()

    def _return_to(self, gateway: GatewayId | None) -> None:
        """What was to be forgotten there before is not waited for any more."""
        self._behind = {number: each for number, each in self._behind.items() if each != gateway}

    def forgotten(self, number: int) -> bool:
        """The broker of a former leg has forgotten us; return whether we waited for that."""
        return self._behind.pop(number, None) is not None

    def course(self) -> dict[str, str]:
        """Return what the record at home is to say of the legs: where we go, or else where we come from."""
        target, old = self.in_role(Role.TARGET), self.in_role(Role.OLD)
        if target is not None:
            return {"moving_to": target.gateway or ""}
        return {"moved_from": "" if old is None else old.gateway or ""}

    def journey(self, at: GatewayId | None, **fields: str) -> Journey:
        """Return what a record is to say, and where else a session of ours may be left, if that does not."""
        legs = [leg.gateway or "" for leg in self if leg.role in (Role.OLD, Role.ERASING)]
        places = [*legs, *self._behind.values(), *(each for each in self.unknown if each not in self.errands)]
        left = next((each for each in places if each not in ("", at, *fields.values())), "")
        said = ("", at, fields.get("moved_from", ""))
        before = tuple(each for each in self.visited if each not in said)[-VISITED_MAX:]
        return replace(self.plain_journey, left=left, visited=before, **fields)

    def visit(self, *gateways: str) -> None:
        """We have been served there."""
        for each in filter(None, gateways):
            self.visited.pop(GatewayId(each), None)
            self.visited[GatewayId(each)] = None
        while len(self.visited) > VISITED_MAX + 1:  # one of them may be where we are
            del self.visited[next(iter(self.visited))]

    def hold_floors(self) -> None:
        """Let marks count only if there is one way by which anything can come, and this is known."""
        self.seen.holds_floors = len(self) > 1 or not all(leg.core.has_read for leg in self)

    def place(self, gateway: str) -> Place:
        """Return where a broker of the roster is."""
        return Place(GatewayId(gateway), self.brokers[GatewayId(gateway)])

    def knows(self, gateway: str) -> bool:
        """Whether we may go there, and are not there."""
        return gateway in self.brokers and all(leg.gateway != gateway for leg in self)

    def others(self) -> list[GatewayId]:
        """Return where else we may go; nowhere as long as we do not know where we are."""
        if any(leg.gateway is None for leg in self):
            return []
        return [each for each in sorted(self.brokers) if self.knows(each)]

    def note_service(self, now: float) -> None:
        """See since when nobody serves us: whoever is to do so can do it only when we have read."""
        home = self.home
        is_served = home.core.state in (State.SERVED, State.IDLE) or home.core.is_answered
        if is_served or not home.core.has_read:
            home.unserved_since = None
        elif home.unserved_since is None:
            home.unserved_since = now

    def fails_over_at(self) -> float:
        """Return when another broker is to be tried; only one that knows where it is, and what is there, goes."""
        home = self.home
        if home.role is not Role.HOME or home.unserved_since is None:
            return NEVER
        is_moving = self.in_role(Role.TARGET) is not None
        return NEVER if is_moving or not self.others() else home.unserved_since + FAILOVER_S

    def check(self) -> None:
        """State the invariants."""
        assert self.seen.holds_floors or all(leg.core.has_read for leg in self)
        assert self.seen.holds_floors or len(self) <= 1
        for leg in self:
            leg.core.check()
