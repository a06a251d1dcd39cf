"""From telemetry to views, findings and the page, in one session of Spark: a small federation of five days."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import DroppedRecord, LoadRecord, MigrationRecord, Record, RefusalRecord, ServiceRecord
from mqloom.lab.planted_spool import write_spool
from mqloom.lab.planted_weeks import BASE_S, SLOPE_S, START_AT, WANTED, Growth, Weeks, weeks
from mqloom.spark_analytics.capacity.analysis import Analysis, NoTelemetryError, Tell, analyse
from mqloom.spark_analytics.capacity.balancing import Balancing, Prediction, Undone
from mqloom.spark_analytics.capacity.findings import CapacityFinding, findings_of
from mqloom.spark_analytics.capacity.frames import Columns, columns
from mqloom.spark_analytics.capacity.groups import group_traffic
from mqloom.spark_analytics.capacity.overlay import Candidate, Passing, links_of, overlay
from mqloom.spark_analytics.capacity.questions import Questions
from mqloom.spark_analytics.capacity.redundancy import Family, Redundancy
from mqloom.spark_analytics.capacity.service import ServiceModel
from mqloom.spark_analytics.capacity.utilisation import imbalance
from mqloom.spark_analytics.capacity.views import VIEWS, CapacityViews
from mqloom.spark_analytics.capacity.what_if import Outlook, Scenario
from mqloom.spark_analytics.report.elements import milliseconds
from mqloom.spark_analytics.report.figures import figures_of
from mqloom.spark_analytics.report.page import page_of
from mqloom.spark_analytics.sessions import SMALL, start
from mqloom.spark_analytics.tables import Tables, tables

pytestmark = pytest.mark.timeout(300)  # Spark starts slowly where there is much else to do

HUB, EAST, WEST = map(GatewayId, ("HUB", "EAST", "WEST"))
PLAN = Weeks(seed=7, days=5, brokers=(HUB, EAST, WEST))


def moved(at_s: float, source: GatewayId, target: GatewayId, predicted: float, observed: float) -> MigrationRecord:
    """Return what one side of a session for output tells."""
    nan = float("nan")
    return MigrationRecord(
        START_AT + at_s, f"{source}-{at_s:g}", "output", target, 5, 4, nan, nan, predicted, nan, nan, observed
    )


@pytest.fixture(scope="module")
def records() -> dict[GatewayId, list[Record]]:
    found = weeks(PLAN)
    more: list[Record] = [
        moved(1_000, EAST, WEST, 0.5, 0.4),
        moved(2_000, EAST, WEST, 0.3, float("nan")),
        structs.replace(moved(3_000, EAST, WEST, 0.3, float("nan")), moved=-1),
        RefusalRecord(START_AT + 500, "frames_refused", "too large", 3),
        DroppedRecord(START_AT + 600, 10, 7),
    ]
    found[EAST] = sorted([*found[EAST], *more], key=lambda each: each.at)
    back = [moved(1_500, WEST, EAST, 0.5, 0.5)]
    found[WEST] = sorted([*found[WEST], *back], key=lambda each: each.at)
    return found


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return start("local[2]", SMALL)


@pytest.fixture(scope="module")
def telemetry(
    spark: SparkSession, records: dict[GatewayId, list[Record]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tables]:
    folder = tmp_path_factory.mktemp("spool")
    write_spool(folder, records)
    with tables(spark, spool=folder) as found:
        yield found


@pytest.fixture(scope="module")
def views(telemetry: Tables) -> CapacityViews:
    return CapacityViews(telemetry)


@pytest.fixture(scope="module")
def analysis(views: CapacityViews) -> Analysis:
    return views.analysis


def loads(records: dict[GatewayId, list[Record]], gateway: GatewayId) -> list[LoadRecord]:
    return [each for each in records[gateway] if isinstance(each, LoadRecord)]


def asked(spark: SparkSession, views: CapacityViews, query: str) -> Columns:
    views.ensure(query)
    return columns(spark.sql(query))


def test_a_view_is_made_when_a_query_names_it(spark: SparkSession, telemetry: Tables) -> None:
    fresh = CapacityViews(telemetry)
    assert fresh.ensure("SELECT * FROM Utilisation JOIN telemetry_load") == ["utilisation"]
    assert fresh.ensure("SELECT * FROM utilisation") == []
    assert fresh.ensure("SELECT count(*) AS clusters FROM telemetry_link") == []


def test_the_analysis_behind_a_view_tells_how_far_it_is(
    telemetry: Tables, analysis: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def look(_telemetry: object, _questions: object, tell: Tell) -> Analysis:
        tell(0.5, "links")
        return analysis

    monkeypatch.setattr("mqloom.spark_analytics.capacity.views.analyse", look)
    CapacityViews(telemetry).ensure("SELECT * FROM clusters", lambda _share, text: told.append(text))
    assert told == ["links"]


def test_every_view_has_rows_or_columns_to_show(spark: SparkSession, views: CapacityViews) -> None:
    may_be_empty = {"forecast", "settings_to_change", "soft_links_worth_having", "families"}
    for name in VIEWS:
        found = asked(spark, views, f"SELECT * FROM {name} LIMIT 3")
        assert found
        assert name in may_be_empty or len(next(iter(found.values()))), name


def test_clusters_families_and_soft_links_worth_having_are_views_too(
    spark: SparkSession, telemetry: Tables, views: CapacityViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = Family("EAST", "stocks/#", ("stocks/# WHERE a > 1", "stocks/# WHERE b > 2"), 4, 17)
    more = replace(views.analysis, families=[family], candidates=[Candidate("EAST", "WEST", 5.5, 2)])
    fresh = CapacityViews(telemetry)
    monkeypatch.setattr(fresh, "analysis", more)
    found = asked(spark, fresh, "SELECT head, explode(covered) AS covered, subscriptions FROM families")
    assert found["covered"].tolist() == list(family.covered)
    assert found["subscriptions"].tolist() == [17, 17]
    links = asked(spark, fresh, "SELECT * FROM soft_links_worth_having")
    assert [values[0] for values in links.values()] == ["EAST", "WEST", 5.5, 2]
    clusters = views.analysis.clusters
    assert clusters is not None
    told = asked(spark, fresh, "SELECT number, best FROM clusters")
    assert (told["number"].tolist(), told["best"].tolist()) == ([clusters.number], [clusters.best])
    monkeypatch.setattr(fresh, "analysis", replace(more, clusters=None))
    assert len(columns(VIEWS["clusters"](fresh))["number"]) == 0


def test_while_nobody_has_any_load_nobody_is_uneven(spark: SparkSession) -> None:
    names = ["bucket_at", "gateway", "input_mean", "output_mean", "utilisation_mean"]
    rows = [(0.0, "EAST", 0.0, 0.3, 0.3), (0.0, "WEST", 0.0, 0.1, 0.1), (60.0, "EAST", 0.5, 0.5, 0.5)]
    found = columns(imbalance(spark.createDataFrame(rows, names), ["EAST", "WEST"]))
    assert [*found["metric"]] == ["output", "utilisation"]
    assert [*found["variation"]] == pytest.approx([0.5, 0.5])


GROUP = ["gateway", "topics", "where", "at", "window_s", "subscribers", "publications", "payload_bytes", "epoch"]
STARTS = "gateway string, epoch long, epoch_at double"


def told_at_the_end(
    spark: SparkSession, rows: list[tuple[str, int, int]], starts: dict[str, tuple[int, float]]
) -> list[tuple[str, int, float]]:
    """Return broker, subscribers and rate of what (broker, time, subscribers) tells; at 100 an epoch begins."""
    told = [(broker, "stocks/#", "", at, 1.0, number, 10, 1_000, 1 + at // 100) for broker, at, number in rows]
    begun = [(broker, *start) for broker, start in starts.items()]
    found = columns(group_traffic(spark.createDataFrame(told, GROUP), spark.createDataFrame(begun, STARTS)))
    return [*zip(found["gateway"], found["subscribers"], found["rate"], strict=True)]


def test_a_group_is_where_its_subscribers_went_and_where_all_have_left_where_they_were(spark: SparkSession) -> None:
    moved = [("EAST", 1, 5), ("WEST", 1, 2), ("EAST", 2, 0), ("WEST", 2, 7)]
    for rows in (moved, [*moved, ("EAST", 3, 0), ("WEST", 3, 0)]):
        assert told_at_the_end(spark, rows, {"EAST": (1, 0.0), "WEST": (1, 0.0)}) == [("WEST", 7, 10.0)]


def test_a_group_that_a_restarted_gateway_does_not_tell_any_more_is_gone(spark: SparkSession) -> None:
    moved = [("EAST", 1, 5), ("WEST", 2, 3), ("WEST", 101, 8)]  # EAST was started again, and has no group since
    begun = {"EAST": (2, 100.0), "WEST": (2, 100.0)}
    assert told_at_the_end(spark, moved, begun) == [("WEST", 8, 10.0)]
    later = {"EAST": (2, 300.0), "WEST": (2, 100.0)}  # after all had left: then it is no reason
    assert sorted(told_at_the_end(spark, moved, later)) == [("EAST", 5, 10.0), ("WEST", 8, 10.0)]


def test_of_two_groups_of_a_gateway_only_that_of_its_last_start_counts(spark: SparkSession) -> None:
    rows = [("EAST", "a/#", 1, 1), ("EAST", "b/#", 1, 1), ("EAST", "b/#", 2, 2)]
    told = [(broker, topics, "", at, 1.0, 4, 10, 1_000, epoch) for broker, topics, at, epoch in rows]
    none = spark.createDataFrame([], STARTS)
    found = columns(group_traffic(spark.createDataFrame(told, GROUP), none))
    assert found["topics"].tolist() == ["b/#"]


def test_percentiles_are_those_of_all_windows(
    spark: SparkSession, views: CapacityViews, records: dict[GatewayId, list[Record]]
) -> None:
    found = asked(spark, views, "SELECT gateway, output_p50, output_p95, delay_p99, windows FROM utilisation")
    for place, gateway in enumerate(found["gateway"]):
        windows = loads(records, gateway)
        assert found["windows"][place] == len(windows)
        for name, values, share in (
            ("output_p50", [each.output_ratio for each in windows], 0.5),
            ("output_p95", [each.output_ratio for each in windows], 0.95),
            ("delay_p99", [each.delay_s for each in windows], 0.99),
        ):
            assert found[name][place] == pytest.approx(np.quantile(values, share), rel=0.01)


def test_hot_hours_are_by_day_and_not_by_date(spark: SparkSession, views: CapacityViews) -> None:
    found = asked(spark, views, "SELECT gateway, max_by(hour, utilisation_p95) AS hottest FROM hot_hours GROUP BY 1")
    assert all(11 <= hour <= 17 for hour in found["hottest"])


def test_imbalance_is_deviation_over_mean_and_most_over_mean(
    spark: SparkSession, views: CapacityViews, records: dict[GatewayId, list[Record]]
) -> None:
    query = "SELECT bucket_at, variation, most_over_mean FROM imbalance WHERE metric = 'output' ORDER BY bucket_at"
    found = asked(spark, views, query)
    first = [
        np.mean([each.output_ratio for each in loads(records, name) if each.at <= START_AT + 3_600])
        for name in PLAN.brokers
    ]
    assert found["variation"][0] == pytest.approx(np.std(first) / np.mean(first))
    assert found["most_over_mean"][0] == pytest.approx(np.max(first) / np.mean(first))


def test_the_service_model_is_the_one_that_was_planted(analysis: Analysis) -> None:
    for model in analysis.models.values():
        assert model.is_by_deliveries
        each_s = SLOPE_S / WANTED
        assert model.is_proportional or abs(model.slope_s - each_s) < 4 * model.slope_spread_s
        middle = float(np.mean(model.work))
        assert model.base_s + model.slope_s * middle == pytest.approx(BASE_S + each_s * middle, rel=0.02)
    assert not all(model.is_proportional for model in analysis.models.values())


def test_estimates_start_from_the_deliveries_of_busy_hours_and_know_what_one_costs(
    analysis: Analysis, records: dict[GatewayId, list[Record]]
) -> None:
    for broker, estimate in analysis.estimates.items():
        told = [each.deliveries_s for each in loads(records, GatewayId(broker)) if each.deliveries_s is not None]
        assert estimate.deliveries_s == pytest.approx(np.quantile(told, 0.95), rel=0.1)
        assert estimate.delay.slope_s == pytest.approx(SLOPE_S / WANTED, rel=0.35)


def older(records: list[Record]) -> list[Record]:
    """Return records as gateways of version 1 told them."""
    plain = (
        (each, {"deliveries_s": None} if isinstance(each, LoadRecord) else {"deliveries": None})
        for each in records
        if isinstance(each, LoadRecord | ServiceRecord)
    )
    return [structs.replace(each, **without) for each, without in plain]


def test_a_recording_of_version_1_is_analysed_by_subscriptions_and_beside_others(
    spark: SparkSession, records: dict[GatewayId, list[Record]], tmp_path: Path
) -> None:
    write_spool(tmp_path, records | {WEST: older(records[WEST])})
    with tables(spark, spool=tmp_path) as found:
        analysis = analyse(found, Questions(full=0.8), lambda share, text: None)
    assert {each.full for each in analysis.scenarios} == {analysis.full} == {0.8}
    assert {name: each.is_by_deliveries for name, each in analysis.models.items()} == {
        "HUB": True,
        "EAST": True,
        "WEST": False,
    }
    west = analysis.estimates["WEST"]
    assert west.deliveries_s is None
    assert west.delay_s == pytest.approx(BASE_S + SLOPE_S * west.subscriptions, rel=0.1)
    assert analysis.estimates["EAST"].deliveries_s is not None
    assert "a delivery" in page_of(analysis, findings_of(analysis))


def test_sessions_and_what_undid_them_are_told(spark: SparkSession, views: CapacityViews) -> None:
    found = asked(spark, views, "SELECT gateway, sessions, error, bias FROM predictions ORDER BY gateway")
    assert found["gateway"].tolist() == ["EAST", "WEST"]
    assert found["error"].tolist() == pytest.approx([0.25, 0.0])
    pairs = asked(spark, views, "SELECT gateway, partner, sessions, undone FROM undone_sessions")
    assert [values[0] for values in pairs.values()] == ["EAST", "WEST", 3, 2]
    balancing = views.analysis.balancing  # of one session it is not known how many have moved
    assert (balancing.sessions, balancing.asked, balancing.moved) == (4, 15, 12)


def test_what_telemetry_says_of_itself_is_kept(analysis: Analysis, records: dict[GatewayId, list[Record]]) -> None:
    assert analysis.dropped == 7
    assert analysis.records_all == sum(map(len, records.values()))
    assert analysis.refusals["amount"].tolist() == [3]
    assert analysis.seconds == pytest.approx(PLAN.days * 86_400)


def test_no_load_at_all_is_said(spark: SparkSession, tmp_path: Path) -> None:
    write_spool(tmp_path, {HUB: [RefusalRecord(START_AT, "x", "", 1)]})
    with tables(spark, spool=tmp_path) as found, pytest.raises(NoTelemetryError, match="no load records"):
        analyse(found, Questions(), lambda share, text: None)


def test_a_federation_without_trouble_has_no_findings(analysis: Analysis) -> None:
    assert findings_of(analysis) == []


def kinds(findings: list[CapacityFinding]) -> list[tuple[str, str]]:
    return [(each.kind, each.broker) for each in findings]


def overloaded(analysis: Analysis, until_s: float) -> Analysis:
    """Return the analysis with EAST's output overloaded for a while, until so long before the end."""
    place = analysis.brokers.index("EAST")
    used = {name: values.copy() for name, values in analysis.utilisation.items()}
    used["output_overloaded"][place] = used["overloaded"][place] = 50
    used["output_max"][place] = 1.4
    used["output_overloaded_at"] = np.full(len(analysis.brokers), analysis.end_at - until_s)
    used["cpu_overloaded"][place] = 1
    used["cpu_overloaded_at"] = np.full(len(analysis.brokers), analysis.end_at)  # a spike, of something else
    daily = {name: values.copy() for name, values in analysis.daily.items()}
    last = np.flatnonzero(daily["gateway"] == "EAST")[-1]
    daily["output_overloaded"][last] = 0 if until_s else 50
    daily["cpu_overloaded"][last] = 1
    return replace(analysis, utilisation=used, daily=daily)


def test_overload_is_told_of_the_broker_and_whether_it_goes_on(analysis: Analysis) -> None:
    (found,) = findings_of(overloaded(analysis, until_s=0.0))
    assert (found.kind, found.broker, found.urgency) == ("overload", "EAST", "now")
    assert "140%" in found.title
    assert "8 hours" in found.evidence
    (past,) = findings_of(overloaded(analysis, until_s=2 * 86_400.0))
    assert past.urgency == "soon"
    assert "no longer" in past.evidence


def test_of_two_resources_the_one_that_is_still_too_full_is_told(analysis: Analysis) -> None:
    bad = overloaded(analysis, until_s=2 * 86_400.0)
    bad.utilisation["cpu_overloaded"][analysis.brokers.index("EAST")] = 40
    bad.daily["cpu_overloaded"] = np.where(bad.daily["cpu_overloaded"] > 0, 40, 0)
    (found,) = findings_of(bad)
    assert found.urgency == "now"
    assert found.title.startswith("EAST is overloaded: its processor reached")


def test_a_link_is_up_for_a_share_of_the_time_and_not_of_the_records(spark: SparkSession) -> None:
    end_at = START_AT + 3 * 86_400
    told = [(1.0, 1_000.0, True), (2.5, 3_000.0, False), (2.9, 1_000.0, True)]
    rows = [("HUB", "EAST", "primary", START_AT + days * 86_400, *own) for days, *own in told]
    counts = ("sent", "pure_forwards", "sent_bytes", "received", "received_unwanted", "gain", "distance")
    frame = spark.createDataFrame(
        rows, "gateway string, peer string, kind string, at_s double, window_s double, is_up boolean"
    )
    frame = frame.withColumn("at", f.timestamp_seconds("at_s")).withColumns(dict.fromkeys(counts, f.lit(0)))
    (link,) = links_of(columns(overlay(frame, end_at)))
    assert (link.up_share, link.up_share_lately, link.is_up) == (0.4, 0.25, True)
    (past,) = links_of(columns(overlay(frame, end_at + 9 * 86_400)))
    assert past.up_share_lately == 1.0  # of a day on which nothing was told of it


def test_each_rule_finds_what_it_is_for_and_the_urgent_comes_first(analysis: Analysis) -> None:
    model = next(iter(analysis.models.values()))
    bad = replace(
        overloaded(analysis, 0.0),
        balancing=Balancing(
            20, 100, 98, (Prediction("WEST", "output", 8, 0.6, -0.6),), (Undone("EAST", "WEST", "input", 10, 6),), ()
        ),
        links=[replace(each, up_share=0.5) if each.gateway == "HUB" else each for each in analysis.links],
        passings=[Passing("HUB", 50.0, 45.0, 0.1, 45.0)],
        redundancy=[Redundancy("WEST", 20, 900, 20, 0.004, 0.001, 0.8, 0.2)],
        models={"WEST": ServiceModel("WEST", 1e-6, 1e-4, 1e-8, False, 9, model.work, model.service_s)},
        scenarios=[Scenario("EAST fails", "", (Outlook("WEST", 0.4, 1.2, "output", 10),))],
        dropped=analysis.records_all // 50,
    )
    found = findings_of(bad)
    assert kinds(found)[0] == ("overload", "EAST")
    assert sorted(kinds(found)) == sorted(
        [
            ("overload", "EAST"),
            ("prediction", "WEST"),
            ("undone", "EAST"),
            ("link", "HUB"),
            ("link", "HUB"),
            ("forwards", "HUB"),
            ("redundancy", "WEST"),
            ("failure", "EAST"),
            ("telemetry", ""),
        ]
    )
    assert [each.urgency for each in found] == sorted(
        (each.urgency for each in found), key=["now", "soon", "plan"].index
    )


def test_what_is_rare_or_small_is_no_finding(analysis: Analysis) -> None:
    calm = replace(
        analysis,
        balancing=Balancing(
            4, 20, 20, (Prediction("WEST", "output", 4, 0.6, 0.6),), (Undone("EAST", "WEST", "input", 10, 1),), ()
        ),
        passings=[Passing("HUB", 0.5, 0.45, 0.1, 0.45)],
        redundancy=[Redundancy("WEST", 20, 900, 20, 0.004, 0.001, 0.3, 0.1)],
        dropped=analysis.records_all // 120,  # of all kinds, of which load is a small part
    )
    assert findings_of(calm) == []


class _Page(HTMLParser):
    """What of a page asks for something from outside, and what people read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.words: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not (value or "").startswith(("#", "data:")):
                self.outside.append(f"{tag} {value}")
            if name == "id" and value:
                self.ids.append(value)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_is_one_file_that_shows_every_section(analysis: Analysis) -> None:
    bad = overloaded(analysis, 0.0)
    page = page_of(bad, findings_of(bad), ["a <damaged> frame"])
    read = _Page()
    read.feed(page)
    text = " ".join(read.words)
    assert read.outside == []
    assert "<script" not in page
    assert not re.search(r"url\((?!#)", page)
    assert len(read.ids) == len(set(read.ids))
    for anchor in ("findings", "utilisation", "forecast", "service", "what-if", "overlay", "balancing", "redundancy"):
        assert anchor in read.ids
        assert f'href="#{anchor}"' in page
    assert "EAST is overloaded: its output reached 140%" in text
    assert "a <damaged> frame" in text
    assert page.count('<svg class="plot"') >= 7


def test_a_page_without_findings_says_so(analysis: Analysis) -> None:
    page = page_of(analysis, [])
    delays = [milliseconds(float(analysis.utilisation[f"delay_p{each}"][0])) for each in (50, 95, 99)]
    assert " / ".join(delays) in page
    assert "<h1>All is well</h1>" in page
    assert "Nothing was found" in page


def test_figures_are_json_and_the_same_each_time(analysis: Analysis, telemetry: Tables) -> None:
    found = figures_of(analysis, findings_of(analysis))
    again = figures_of(analyse(telemetry, Questions(), lambda share, text: None), [])
    assert json.loads(json.dumps(found, allow_nan=False)) == json.loads(json.dumps(again, allow_nan=False))
    assert [each["gateway"] for each in found["utilisation"]] == ["EAST", "HUB", "WEST"]


def test_growth_is_drawn_with_its_band(spark: SparkSession, tmp_path: Path) -> None:
    plan = Weeks(seed=3, days=9, brokers=(HUB, EAST), growth=(Growth(broker=EAST, resource="output", per_day=0.08),))
    write_spool(tmp_path, weeks(plan))
    with tables(spark, spool=tmp_path) as found:
        analysis = analyse(found, Questions(grows=(10.0,)), lambda share, text: None)
    findings = findings_of(analysis)
    assert findings[0].title.startswith("EAST will be full on")
    page = page_of(analysis, findings)
    assert 'id="forecast-0-figure_1"' in page
    assert "Nine times in ten between" in page
