"""What we republish and the broker hands back: told from what clients publish, on brokers without no-local."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.counters import Counters
from mqloom.core.effects import PublishLocally
from mqloom.core.limits import ECHO_KEPT_S, ECHO_S, ECHOES_MAX
from mqloom.core.publication import Incoming
from mqloom.core.seen import print_of
from mqloom.core.traits import USUAL, Traits
from mqloom.gateway.echo_repeats import ByContent
from mqloom.gateway.echoes import OVER_MAX, Echoes
from mqloom.gateway.journal import Journal


class Wall:
    """Echoes, and a broker that hands things back."""

    def __init__(self, traits: Traits = USUAL) -> None:
        self.now = 0.0
        self.counters = Counters()
        self.echoes = Echoes(Journal(self.counters))
        self.echoes.know(traits)

    def republish(self, payload: bytes = b"x", number: int = 0) -> None:
        effect = PublishLocally(topic="t", payload=payload, qos=int(number > 0), number=number, republished=True)
        self.echoes.expect([effect], self.now)
        self.echoes.check()

    def comes(self, payload: bytes = b"x", packet: int = 0, *, again: bool = False) -> bool:
        """Hand something over; return whether it is taken for an echo."""
        incoming = Incoming(topic="t", payload=payload, qos=int(packet > 0), packet=packet, again=again)
        self.echoes.expire(self.now)
        is_echo = self.echoes.take(incoming)
        self.echoes.check()
        return is_echo

    def opened(self, *, echoes: bool = True, resumed: bool = True) -> None:
        self.echoes.opened(self.now, echoes=echoes, resumed=resumed)
        self.echoes.check()

    def missed(self) -> dict[str, int]:
        return self.counters.reasons("echoes_missed")


def test_each_republication_is_expected_back_once() -> None:
    wall = Wall()
    assert not wall.comes()
    wall.republish()
    wall.republish(number=1)
    assert [wall.comes(), wall.comes(packet=1), wall.comes(packet=2)] == [True, True, False]
    assert wall.counters.total("echoes") == 2


def test_another_payload_is_no_echo() -> None:
    wall = Wall()
    wall.republish(b"x")
    assert not wall.comes(b"y")
    assert len(wall.echoes) == 1


def test_what_is_published_for_our_own_clients_is_not_expected_back() -> None:
    wall = Wall()
    wall.echoes.expect([PublishLocally(topic="t", payload=b"x", qos=1, number=1)], wall.now)
    assert not wall.comes()


def test_where_the_broker_has_no_local_nothing_is_expected() -> None:
    wall = Wall()
    wall.republish()
    wall.opened(echoes=False)
    wall.republish()
    assert not wall.comes()
    assert len(wall.echoes) == 0


def test_an_echo_that_the_broker_sends_again_is_known_by_its_packet_id() -> None:
    wall = Wall()
    wall.republish(number=1)
    wall.echoes.acknowledged([1], wall.now)
    assert wall.comes(packet=7)
    wall.echoes.lost()
    wall.opened()
    assert wall.comes(packet=7, again=True)
    assert not wall.comes(packet=8, again=True)


COUNTS_ANEW = Traits(keeps_packet_ids=False)


def test_where_packet_ids_do_not_last_an_echo_that_is_sent_again_is_known_by_its_content() -> None:
    wall = Wall(COUNTS_ANEW)
    for number in (1, 2):
        wall.republish(number=number)
        wall.echoes.acknowledged([number], wall.now)
        assert wall.comes(packet=number)
    assert not wall.comes(packet=3)  # of a client, and equal
    for _ in range(2):  # the broker gets no acknowledgement in either connection
        wall.echoes.lost()
        wall.opened()
        assert [wall.comes(packet=packet, again=True) for packet in (9, 8, 7)] == [True, True, False]
    assert not wall.comes(packet=1)  # not sent again: somebody published it


def test_where_packet_ids_do_not_last_nothing_comes_again_while_the_connection_stands() -> None:
    wall = Wall(COUNTS_ANEW)
    wall.republish(number=1)
    wall.echoes.acknowledged([1], wall.now)
    assert wall.comes(packet=1)
    assert not wall.comes(packet=2, again=True)
    wall.echoes.lost()
    wall.opened(resumed=False)
    assert not wall.comes(packet=1, again=True)


def test_where_packet_ids_do_not_last_an_echo_of_long_ago_suppresses_nothing() -> None:
    wall = Wall(COUNTS_ANEW)
    assert not wall.comes()
    wall.republish(number=1)
    wall.echoes.acknowledged([1], wall.now)
    assert wall.comes(packet=1)
    for _ in range(2):
        wall.now += ECHO_KEPT_S
        assert not wall.comes(b"other", packet=2)
    wall.echoes.lost()
    wall.opened()
    assert not wall.comes(packet=1, again=True)


def test_where_packet_ids_do_not_last_no_more_echoes_are_remembered_than_the_bound() -> None:
    repeats = ByContent()
    for number in range(3 * ECHOES_MAX):
        repeats.note(Incoming(topic="t", payload=b"x", qos=1, packet=1), print_of(0, "t", b"%d" % number))
    assert len(repeats) <= ECHOES_MAX


def test_a_packet_id_that_somebody_else_has_used_since_is_nobodys_echo() -> None:
    wall = Wall()
    wall.republish(number=1)
    assert wall.comes(packet=7)
    assert not wall.comes(b"other", packet=7)
    assert not wall.comes(packet=7, again=True)


def test_one_of_qos_0_that_does_not_come_suppresses_nothing_for_long() -> None:
    wall = Wall()
    wall.republish()
    wall.now = ECHO_S
    assert not wall.comes()
    assert wall.missed() == {"late": 1}


def test_one_of_qos_1_is_waited_for_longer() -> None:
    wall = Wall()
    wall.republish(number=1)
    wall.republish(number=2)
    wall.now = ECHO_S
    assert wall.comes(packet=1)
    wall.now = ECHO_KEPT_S
    assert not wall.comes(packet=2)
    assert wall.missed() == {"late": 1}


def test_a_broker_that_lost_our_session_hands_nothing_back_but_what_it_had_not_acknowledged() -> None:
    wall = Wall()
    wall.republish(b"kept", number=1)
    wall.republish(b"on its way", number=2)
    wall.echoes.acknowledged([1], wall.now)
    wall.echoes.lost()
    wall.opened(resumed=False)
    assert wall.missed() == {"session lost": 1}
    assert not wall.comes(b"kept", packet=1)
    assert wall.comes(b"on its way", packet=2)


def test_what_is_sent_again_after_a_break_may_come_back_twice_and_only_for_a_while() -> None:
    wall = Wall()
    wall.republish(number=1)
    wall.echoes.lost()
    wall.opened()
    wall.echoes.acknowledged([1], wall.now)
    assert [wall.comes(packet=1), wall.comes(packet=2), wall.comes(packet=3)] == [True, True, False]
    wall.republish(number=2)
    wall.echoes.lost()
    wall.opened()
    wall.echoes.lost()
    wall.opened()
    assert [wall.comes(packet=4), wall.comes(packet=4)] == [True, True]  # before it is acknowledged, too
    wall.echoes.acknowledged([2], wall.now)
    wall.now += ECHO_S
    assert not wall.comes(packet=5)


def test_the_time_in_which_nothing_could_come_does_not_count() -> None:
    wall = Wall()
    wall.republish()
    wall.now = 5 * ECHO_S
    wall.echoes.refresh(wall.now)
    assert wall.comes()


def test_past_the_bound_the_oldest_of_qos_0_is_forgotten_first() -> None:
    wall = Wall()
    wall.republish(b"kept", number=1)
    for index in range(ECHOES_MAX):
        wall.echoes.expect([PublishLocally(topic="t", payload=b"%d" % index, republished=True)], wall.now)
    wall.echoes.check()
    assert len(wall.echoes) == ECHOES_MAX
    assert wall.missed() == {"too many": 1}
    assert not wall.comes(b"0")
    assert wall.comes(b"kept")


def test_one_that_stays_open_does_not_keep_all_behind_it_that_are_over() -> None:
    wall = Wall()
    wall.republish(b"never comes", number=1)
    for number in range(2, 3 * OVER_MAX):
        wall.republish(number=number)
        assert wall.comes(packet=number)  # each time `check` states how long the queues may be
    wall.now = ECHO_KEPT_S
    assert not wall.comes(b"never comes")
    assert wall.missed() == {"late": 1}


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=60))
def test_in_any_order_as_many_are_taken_in_as_clients_published(script: list[tuple[bool, int]]) -> None:
    """Clients publish, we republish, and the broker hands over everything in its order, whoever was first."""
    wall = Wall()
    taken: Counter[int] = Counter()
    handed: list[int] = []
    for number, (is_ours, what) in enumerate(script, 1):
        if is_ours:
            wall.republish(b"%d" % what, number=number)
        handed.append(what)
    for packet, what in enumerate(handed, 1):
        taken[what] += not wall.comes(b"%d" % what, packet=packet)
    assert +taken == Counter(what for is_ours, what in script if not is_ours)
    assert len(wall.echoes) == 0
