"""Profiles that agents ask for: what publications match here and there, within bounds, and without holding them up."""

from mqloom.core.limits import PROFILE_BYTES_MAX, PROFILE_KEYS, PROFILE_SLICE
from mqloom.core.messages import Announce
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import ProfileTaken as Taken
from mqloom.gateway.agent_interfaces import Sample, TakeProfile
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.gateway.subscribers import Standing
from mqloom.lab.gate import ANN, BOB, JSON, US, A, B, delivered, key, publication, wakings
from mqloom.lab.gate_agents import ORDERS, Office


def test_a_profile_says_what_each_publication_matches_here_and_there() -> None:
    office = Office(A)
    office.record(ANN, {"low": ("a/#", "x < 5"), "all": ("a/#", "")})
    office.record(BOB, {"high": ("a/#", "x >= 5")})
    there = Subscription.parse("a/b", "x >= 7")
    office.order(TakeProfile("t", [there], 3, 30.0))
    office.now = 2.0
    effects = office.publish(b'{"x": 1}', b'{"x": 9}')
    assert len(delivered(effects, ANN)) == 2
    assert office.answers() == []
    office.now = 4.0
    office.hear(A, publication(0, b'{"x": 6}'))
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    assert (taken.token, taken.took_s) == ("t", 4.0)
    low, everything, high = key(US, 1), key(US, 2), key(US, 3)
    size = len("a/b") + len(b'{"x": 1}')
    assert [(set(keys), *rest) for keys, *rest in taken.samples] == [
        ({low, everything}, False, size, True),
        ({high, everything}, True, size, True),
        ({high, everything}, False, size, False),  # the only one that was not published here
    ]


def test_what_others_want_is_not_in_a_profile() -> None:
    office = Office(A)
    office.hear(A, Announce(key(A, 1), "a/#", ""))
    office.order(TakeProfile("t", (), 1, 30.0))
    office.publish(b"{}")
    assert [taken.samples for taken in office.answers() if isinstance(taken, Taken)] == [[Sample([], False, 5, True)]]


def test_a_profile_ends_when_its_time_is_over() -> None:
    office = Office()
    effects = office.order(TakeProfile("t", (), 50, 30.0))
    assert 30.0 in wakings(effects)
    office.publish(b"{}")
    office.wait(29.9)
    assert office.answers() == []
    office.wait(0.1)
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    assert (len(taken.samples), taken.took_s) == (1, 30.0)
    office.publish(b"{}")
    office.wait(99.0)
    assert office.answers() == []


def test_a_new_profile_replaces_the_one_before() -> None:
    office = Office()
    office.order(TakeProfile("first", (), 2, 30.0))
    office.publish(b"{}")
    office.order(TakeProfile("second", (), 2, 30.0))
    office.publish(b"{}", b"{}", b"{}")
    office.wait(60.0)
    assert [taken.token for taken in office.answers() if isinstance(taken, Taken)] == ["second"]


def test_a_large_covering_set_is_tried_in_slices_and_publications_go_on_meanwhile() -> None:
    office = Office()
    office.record(ANN, {"all": ("#", "")})
    office.answers()
    covering = [Subscription.parse("a/b", f"x = {number}") for number in range(PROFILE_SLICE * 5)]
    office.order(TakeProfile("t", covering, 3, 30.0))
    office.publish(b'{"x": 0}', b'{"x": -1}', b'{"x": %d}' % (len(covering) - 1))
    assert office.answers() == []
    assert len(delivered(office.publish(b"{}"))) == 1  # which is a waking, too
    rounds = 0
    while not (answers := office.answers()):
        office.wait()
        rounds += 1
    assert 5 <= rounds <= 8
    [taken] = answers
    assert isinstance(taken, Taken)
    assert [sample.is_wanted_there for sample in taken.samples] == [True, False, True]


def test_samples_that_thousands_want_are_sorted_in_slices_too() -> None:
    office = Office()
    wanting = 1_000
    office.record(ANN, {f"w{number}": ("#", "") for number in range(wanting)})
    office.answers()
    office.order(TakeProfile("t", (), 50, 30.0))
    office.publish(*[b"{}"] * 50)
    rounds = 0
    while not (answers := office.answers()):
        office.wait()
        rounds += 1
    assert rounds >= 50 * wanting // (PROFILE_SLICE * PROFILE_KEYS) - 2  # the first go along with the publications
    [taken] = answers
    assert isinstance(taken, Taken)
    assert [len(sample.keys) for sample in taken.samples] == [wanting] * 50


def test_another_configuration_ends_a_profile_with_what_there_is() -> None:
    office = Office()
    office.order(TakeProfile("t", (), 50, 30.0))
    office.publish(b"{}")
    office.node.handle(Reconfigured(codecs=(("#", JSON),), standing=(), federate=(), data=("#",), orders=ORDERS), 5.0)
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    assert (len(taken.samples), taken.took_s) == (1, 5.0)


def test_samples_hold_so_many_bytes_and_no_more() -> None:
    office = Office()
    office.order(TakeProfile("t", (), 50, 30.0))
    large = b"x" * (PROFILE_BYTES_MAX // 5)
    for _ in range(7):
        office.publish(large)
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    assert len(taken.samples) == 6


def test_a_subscription_that_has_ended_since_is_not_in_the_profile() -> None:
    office = Office()
    office.record(ANN, {"one": ("a/#", "")})
    office.order(TakeProfile("t", (), 2, 30.0))
    office.publish(b"{}")
    office.record(ANN, {})
    office.publish(b"{}")
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    assert [list(sample.keys) for sample in taken.samples] == [[], []]


def come_anyway(office: Office, *publications: bytes) -> list[bool]:
    office.order(TakeProfile("t", (), len(publications), 30.0))
    for place, payload in enumerate(publications):
        office.hear(A, publication(place, payload))
    [taken] = office.answers()
    assert isinstance(taken, Taken)
    return [sample.comes_anyway for sample in taken.samples]


def test_what_comes_in_for_clients_alone_no_longer_comes_when_they_go() -> None:
    office = Office(A)
    office.record(ANN, {"all": ("a/#", "")})
    assert come_anyway(office, b"{}") == [False]


def test_what_is_passed_on_comes_in_whoever_goes() -> None:
    office = Office(A, B)
    office.record(ANN, {"all": ("a/#", "")})
    office.hear(B, Announce(key(B, 1), "a/#", "x = 1"))
    assert come_anyway(office, b'{"x": 1}', b'{"x": 2}') == [True, False]


def test_what_the_configuration_or_plain_clients_want_comes_in_whoever_goes() -> None:
    office = Office(A, standing=[Standing("a/#", "x = 1", "into")])
    office.record(ANN, {"all": ("a/#", "")})
    assert come_anyway(office, b'{"x": 1}', b'{"x": 2}') == [True, False]
    plain = Office(A, federate=["a/b"])
    plain.record(ANN, {"all": ("a/#", "")})
    assert come_anyway(plain, b"{}") == [True]
