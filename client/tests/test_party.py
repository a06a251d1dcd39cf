"""The legs of a client: which of them there are, where else it may go, and when marks count."""

from mqloom.client.journey import Journey
from mqloom.client.legs import ForLeg, Leg, OnLeg
from mqloom.client.limits import FAILOVER_S
from mqloom.client.party import Manner, Party
from mqloom.client.roles import Role
from mqloom.client.states import State
from mqloom.client.traveller import Traveller
from mqloom.client.vocabulary import Connected, Subscribe
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.orders import RosterBroker
from mqloom.core.records import Wish
from mqloom.core.seen import Seen

ANN = ClientId("ann")
A, B, C = GatewayId("A"), GatewayId("B"), GatewayId("C")
WISHES = {"w": Wish(topics="a/#")}


def party_of(*roles: tuple[Role, GatewayId | None]) -> Party:
    party = Party(ANN, Manner(), Seen())
    party.brokers = {name: RosterBroker(host=name) for name in (A, B, C)}
    for role, gateway in roles:
        party.add(role, gateway, WISHES, Journey(incarnation="life"), None)
    return party


def read(leg: Leg) -> None:
    """Let a leg have read what an earlier life has left."""
    leg.core._record.reads = False


def test_marks_count_for_one_leg_that_knows_what_is_there_and_never_for_two() -> None:
    party = party_of((Role.HOME, A))
    assert party.seen.holds_floors
    read(party.home)
    party.hold_floors()
    assert not party.seen.holds_floors
    other = party.add(Role.TARGET, B, WISHES, Journey(), None)
    read(other)
    party.hold_floors()
    assert party.seen.holds_floors
    party.drop(other)
    assert not party.seen.holds_floors
    party.check()


def test_no_number_of_a_leg_is_used_twice() -> None:
    party = party_of((Role.HOME, A), (Role.OLD, B))
    party.drop(party.legs[1])
    assert party.add(Role.OLD, B, WISHES, Journey(), None).number == 2


def test_it_goes_nowhere_where_it_is_already_and_nowhere_before_it_knows_where_it_is() -> None:
    party = party_of((Role.HOME, A), (Role.OLD, B))
    assert [party.knows(each) for each in (A, B, C, GatewayId("D"), "")] == [False, False, True, False, False]
    assert party.others() == [C]
    assert party_of((Role.HOME, None)).others() == []


def test_another_broker_is_tried_only_by_one_that_is_at_home_unserved_and_has_read() -> None:
    party = party_of((Role.HOME, A))
    party.note_service(5.0)
    party.note_service(9.0)
    assert party.fails_over_at() == float("inf")  # what is there may lead somewhere else
    read(party.home)
    party.note_service(12.0)  # from now on it can be served
    party.note_service(15.0)
    assert party.fails_over_at() == 12.0 + FAILOVER_S
    party.brokers = {}  # the roster is over
    assert party.fails_over_at() == float("inf")
    party.brokers = {B: RosterBroker(host="b")}
    party.home.core.state = State.SERVED
    party.note_service(10.0)
    assert party.fails_over_at() == float("inf")
    party.home.core.state = State.OFFLINE
    party.note_service(11.0)
    party.add(Role.TARGET, B, WISHES, Journey(), None)
    assert party.fails_over_at() == float("inf")


def test_one_that_waits_for_another_counts_as_home() -> None:
    party = party_of((Role.OLD, B), (Role.WAITING, A))
    assert party.home.gateway == A
    assert party.in_role(Role.TARGET) is None


def test_a_gateway_that_the_user_has_named_is_asked_for_by_that_name_at_the_first_broker() -> None:
    """Where a broker replays no retained message to a wildcard nothing would come of the other."""
    core = Traveller(ANN, WISHES, incarnation="life", manner=Manner(gateway=A))
    effects = core.handle(OnLeg(leg=0, event=Connected(resumed=False)), 0.0, 1_000.0)
    asked = [each.effect.topic for each in effects if isinstance(each, ForLeg) and isinstance(each.effect, Subscribe)]
    assert asked == [layout.status(A)]
