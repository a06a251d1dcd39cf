"""What docs/balancing.md says of parameters, bounds and states is so."""

import re
from pathlib import Path

import msgspec

from mqloom.agents import (
    decisions,
    detector,
    fruitless,
    giving,
    head,
    lasting,
    mediation,
    mediator,
    peer,
    pie,
    session_farewells,
    standing,
)
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
    assert f"has said nothing for {pie.SILENT_PERIODS} counts no more" in WORDS
    assert f"older than {pie.FRESH_PERIODS} periods does not count" in WORDS
    assert f"up to {peer.CONFIGURED_HOPS} links apart" in WORDS
    assert f"after {detector.YIELDS_MAX} detections that waited" in WORDS
    assert f"A difference of {lasting.CLEAR:g} triggers counts at once" in WORDS
    assert f"the mean of the last {BalanceSettings().lasting_detections} detections" in WORDS
    assert f"after {standing.STABILISE_PERIODS_MAX} of these in any case" in WORDS
    assert f"after {BalanceSettings().global_requests} such requests" in WORDS
    assert standing.BUSY_S_MAX == mediator.SESSION_S_MAX == 3_600
    assert "after an hour at the latest" in WORDS
    assert pie.ANSWER_PERIODS == 0.1
    assert "at most ten times a period" in WORDS


def test_the_bounds_of_sessions_are_the_ones_documented() -> None:
    settings = BalanceSettings()
    assert f"Keep ────────────────────────────────────▶ every {mediator.KEEP_S:g} s" in WORDS
    tries, again_s = session_farewells.TRIES_MAX, session_farewells.RETRY_S
    assert f"sent {tries} times in {tries * again_s:g} seconds" in WORDS
    assert f"after {mediator.ASKING_S_MAX:g} seconds nobody further" in WORDS
    assert f"for {mediator.LEASE_S:g} seconds is free" in WORDS
    assert f"{settings.move_timeout_s:g} seconds for each (`move_timeout_s`)" in WORDS
    assert f"at most {giving.MOVE_S_MAX / 60:g} minutes" in WORDS
    parts = f"in at most {mediation.PARTS_MAX} parts of {mediation.PART_BYTES_MAX // 1024} KiB"
    assert f"at most {mediation.COVERING_MAX:,} subscriptions are told, {parts}" in WORDS
    fruitless_s = fruitless.FRUITLESS_DETECTIONS * settings.local_detect_max_s
    assert f"for {fruitless.FRUITLESS_DETECTIONS} detections ({fruitless_s:g} s)" in WORDS
    overloaded_s = fruitless.OVERLOADED_DETECTIONS * settings.local_detect_max_s
    assert f"after one detection ({overloaded_s:g} s)" in WORDS
    assert f"every {head.HEAR_S:g} seconds for the next {head.HEAR_LEASE_S:g}" in WORDS
    session_s = head.SESSION_DETECTIONS * settings.local_detect_max_s
    assert f"after {head.SESSION_DETECTIONS} detections of edges ({session_s:g} s)" in WORDS
    assert f"the last {decisions.DECISIONS_MAX} sessions" in WORDS
