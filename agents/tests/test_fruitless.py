"""What is not tried again at once, for how long, and when that leaves an overloaded edge helpless."""

import pytest

from mqloom.agents.detector import Action
from mqloom.agents.fruitless import FRUITLESS_DETECTIONS, OVERLOADED_DETECTIONS, Fruitless
from mqloom.agents.settings import BalanceSettings
from mqloom.core.ids import GatewayId

B2, B3 = GatewayId("B2"), GatewayId("B3")
SETTINGS = BalanceSettings()


@pytest.fixture
def fruitless() -> Fruitless:
    return Fruitless(SETTINGS)


@pytest.mark.parametrize(("is_overload", "detections"), [(False, FRUITLESS_DETECTIONS), (True, OVERLOADED_DETECTIONS)])
def test_what_has_brought_nothing_rests_with_this_partner_and_for_this_metric(
    fruitless: Fruitless, *, is_overload: bool, detections: int
) -> None:
    ends = 100.0 + detections * SETTINGS.local_detect_max_s
    fruitless.rest(B2, "output", 100.0, is_overload=is_overload)
    assert fruitless.rests(B2, "output", ends - 1)
    assert not fruitless.rests(B2, "input", ends - 1)
    assert not fruitless.rests(B3, "output", ends - 1)
    assert not fruitless.rests(B2, "output", ends)


def test_it_rests_no_longer_than_until_the_reason_goes_away(fruitless: Fruitless) -> None:
    fruitless.rest(B2, "output", 100.0, is_overload=False, until=120.0)
    assert fruitless.rests(B2, "output", 119.0)
    assert not fruitless.rests(B2, "output", 120.0)


def test_who_is_overloaded_is_helpless_if_all_partners_rest_for_what_does_not_pass(fruitless: Fruitless) -> None:
    actions = [Action(partner, "output", 0.5, True) for partner in (B2, B3)]
    assert not fruitless.is_helpless([], 100.0)
    fruitless.rest(B2, "output", 100.0, is_overload=True, is_lasting=True)
    assert not fruitless.is_helpless(actions, 101.0)
    fruitless.rest(B3, "output", 100.0, is_overload=True)
    assert not fruitless.is_helpless(actions, 101.0)
    fruitless.rest(B3, "output", 100.0, is_overload=True, is_lasting=True)
    assert fruitless.is_helpless(actions, 101.0)
    assert not fruitless.is_helpless(actions, 200.0)


def test_who_is_only_uneven_is_never_helpless(fruitless: Fruitless) -> None:
    fruitless.rest(B2, "output", 100.0, is_overload=False, is_lasting=True)
    assert not fruitless.is_helpless([Action(B2, "output", 0.5, False)], 101.0)
