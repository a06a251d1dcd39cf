"""Metrics are valid in Prometheus' text format, follow its conventions, and say the reason of every failure."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from mqloom.core.counters import COUNTERS, REASONS
from mqloom.core.ids import GatewayId
from mqloom.core.reports import Report, ReportedLink
from mqloom.gateway.metrics import Process, families, render

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
AWKWARD = 'a "quoted\\ name"\nof two lines'
REPORT = Report(
    gateway=GatewayId("west"),
    epoch=5_500,
    at=9.0,
    links=(
        ReportedLink(gateway=GatewayId(AWKWARD), kind="primary", state="down", since=6.25, waiting=2, parked=40),
        ReportedLink(gateway=GatewayId("south"), kind="soft", state="up", since=7.0),
    ),
    held=3,
    lag_s=1.5,
    subscriptions_elsewhere=8,
    broker={"heap/current": 33_752.0, "retained messages/count": 40.0},
    counts={
        "publications_in": 12,
        "frames_refused.sender": 5,
        "frames_refused.no.such": 1,
        "subscriptions_established": 2,
        "subscriptions_established.partly": 1,
    },
)


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for sample in family.samples:
            assert sample.name == family.name + ("_total" if family.type == "counter" else "")
            labels = dict(sample.labels)
            assert labels.pop("gateway") == "west"
            key = sample.name, tuple(sorted(labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def test_prometheus_reads_every_figure_as_it_was() -> None:
    found = read(render(REPORT, "0.1.0", is_served=True, process=Process(1.25, 4096)))
    link = (("kind", "primary"), ("neighbour", AWKWARD))
    for key, value in {
        ("mqloom_build_info", (("version", "0.1.0"),)): 1,
        ("mqloom_start_time_seconds", ()): 5.5,
        ("mqloom_broker_up", ()): 1,
        ("mqloom_held_publications", ()): 3,
        ("mqloom_lag_seconds", ()): 1.5,
        ("mqloom_subscriptions", (("of", "elsewhere"),)): 8,
        ("mqloom_broker_figure", (("name", "heap/current"),)): 33_752,
        ("mqloom_broker_figure", (("name", "retained messages/count"),)): 40,
        ("mqloom_link_up", link): 0,
        ("mqloom_link_up", (("kind", "soft"), ("neighbour", "south"))): 1,
        ("mqloom_link_changed_timestamp_seconds", link): 6.25,
        ("mqloom_link_waiting_publications", link): 2,
        ("mqloom_link_parked_publications", link): 40,
        ("mqloom_publications_in_total", ()): 12,
        ("mqloom_frames_refused_total", (("reason", "sender"),)): 5,
        ("mqloom_frames_refused_total", (("reason", "no.such"),)): 1,
        ("mqloom_subscriptions_established_total", (("reason", "partly"),)): 1,
        ("process_cpu_seconds_total", ()): 1.25,
        ("process_resident_memory_bytes", ()): 4096,
    }.items():
        assert found[key] == value, key


def test_every_counter_is_there_from_the_start() -> None:
    empty = Report(gateway=GatewayId("west"), epoch=1, at=1.0, links=())
    found = read(render(empty, "0.1.0", is_served=False, process=Process(0.0, None)))
    assert all(found[f"mqloom_{name}_total", ()] == 0 for name in COUNTERS)
    for name, reasons in REASONS.items():
        assert all(found[f"mqloom_{name}_total", (("reason", reason),)] == 0 for reason in reasons)
    assert found["mqloom_broker_up", ()] == 0
    assert not [name for name, _ in found if name.startswith(("mqloom_link_up", "process_resident"))]


def test_no_series_goes_when_another_comes() -> None:
    """Prometheus sees a series that is new as no rise: neither its first value, nor that of a sum."""
    empty = Report(gateway=GatewayId("west"), epoch=1, at=1.0, links=())
    before = read(render(empty, "0.1.0", is_served=True, process=Process(0.0, 1)))
    after = read(render(REPORT, "0.1.0", is_served=True, process=Process(0.0, 1)))
    assert before.keys() <= after.keys()


def test_the_alerts_in_the_docs_are_about_series_that_are_there_from_the_start() -> None:
    [text] = re.findall(r"```yaml\n(groups:.*?)```", PAGE, re.DOTALL)
    names = set(re.findall(r"\b(mqloom_\w+)", text))
    report = Report(gateway=GatewayId("west"), epoch=1, at=1.0, links=REPORT.links)
    found = {name for name, _ in read(render(report, "0.1.0", is_served=True, process=Process(0.0, 1)))}
    assert len(names) > 3
    assert names <= found


def test_every_metric_that_is_no_counter_is_documented() -> None:
    names = [each.name for each in families(REPORT, "0.1.0", is_served=True, process=Process(0.0, 1))]
    others = [name for name in names if not name.startswith("mqloom_") or not name.endswith("_total")]
    assert [name for name in others if f"`{name}`" not in PAGE] == []
