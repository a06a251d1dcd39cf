"""What docs/balancing.md says of parameters, bounds and states is so."""

import re
from pathlib import Path

import msgspec

from mqloom.agents import detector, peer, pie, standing
from mqloom.agents.settings import BalanceSettings

PAGE = Path(__file__).parents[2].joinpath("docs", "balancing.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())


def default_of(field: msgspec.structs.FieldInfo) -> str:
    factory = field.default_factory
    default = field.default if factory is msgspec.NODEFAULT else factory()
    return repr(default).replace("'", '"')


def test_every_parameter_is_documented_in_order_with_its_default_its_trade_off_and_how_to_see_it() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    fields = msgspec.structs.fields(BalanceSettings)
    assert [(name, default) for name, default, _, _ in rows] == [(each.name, default_of(each)) for each in fields]
    assert all(trade_off.strip() and effect.strip() for _, _, trade_off, effect in rows)


def test_bounds_are_the_ones_documented() -> None:
    assert f"after {pie.KEEP_ALIVE_PERIODS} periods in any case" in WORDS
    assert f"older than {pie.FRESH_PERIODS} periods does not count" in WORDS
    assert f"up to {peer.CONFIGURED_HOPS} links apart" in WORDS
    assert f"after {detector.YIELDS_MAX} detections that waited" in WORDS
    assert f"after {standing.STABILISE_PERIODS_MAX} of these in any case" in WORDS
    assert f"after {BalanceSettings().global_requests} such requests" in WORDS
    assert standing.BUSY_S_MAX == 3_600
    assert "after an hour at the latest" in WORDS
    assert pie.ANSWER_PERIODS == 0.1
    assert "at most ten times a period" in WORDS
