import pytest
from msgspec.structs import replace

from mqloom.core.ids import GatewayId
from mqloom.core.load import Load
from mqloom.core.records import PaintedLink
from mqloom.core.subscription import Subscription
from mqloom.core.telemetry import (
    TEXT_MAX,
    BrokerRecord,
    GroupRecord,
    LinkRecord,
    LoadRecord,
    RefusalRecord,
    ServiceRecord,
)
from mqloom.gateway.groups import GroupTold
from mqloom.gateway.recorder import Recorder, check_records
from mqloom.gateway.tallies import LinkTally, Tallied

LOAD = Load(
    input_ratio=0.5,
    delay_s=0.001,
    output_ratio=0.2,
    input_rate=500.0,
    output_bytes_s=1e4,
    output_bytes_s_max=1e5,
    subscriptions=7,
    cpu_ratio=0.4,
    memory_ratio=0.1,
)


def test_what_a_plugin_tells_is_a_record_that_can_be_read_or_none() -> None:
    good = BrokerRecord(1.0, "queue", 3.0)
    assert check_records([good]) == [good]
    for wrong in ("hello", BrokerRecord(1.0, "x" * (TEXT_MAX + 1), 3.0), BrokerRecord("now", "queue", 3.0)):  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            check_records([good, wrong])  # type: ignore[list-item]


def test_a_window_of_the_meters_is_a_load_and_what_a_publication_has_cost() -> None:
    assert Recorder().load(LOAD, 3, 10.0, 100.0) == [
        LoadRecord(100.0, 10.0, 0.5, 0.001, 0.2, 0.4, 0.1, 500.0, 1e4, 1e5, 7, 3),
        ServiceRecord(100.0, 7, 0.001, 5_000),
    ]


def test_deliveries_are_told_where_they_are_counted() -> None:
    load, service = Recorder().load(replace(LOAD, deliveries_s=40.0), 3, 10.0, 100.0)
    assert isinstance(load, LoadRecord)
    assert isinstance(service, ServiceRecord)
    assert (load.deliveries_s, service.publications, service.deliveries) == (40.0, 5_000, 400)


def test_of_a_window_without_publications_no_cost_is_told() -> None:
    idle = Load(
        input_ratio=0.0,
        delay_s=0.001,
        output_ratio=0.0,
        input_rate=0.0,
        output_bytes_s=0.0,
        output_bytes_s_max=1e5,
        subscriptions=7,
    )
    assert [type(record) for record in Recorder().load(idle, 0, 10.0, 100.0)] == [LoadRecord]


def test_links_and_groups_are_told_with_what_they_had() -> None:
    link = PaintedLink(gateway=GatewayId("B"), kind="soft", up=True, distance=3, gain=0.5)
    group = GroupTold(Subscription.parse("stocks/#", "volume > 3"), 4, 10, 1_000, 30.0)
    tallied = Tallied([(link, LinkTally(5, 2, 500, 7, 1))], [group])
    assert Recorder().traffic(tallied, 2.0, 100.0) == [
        LinkRecord(100.0, 2.0, GatewayId("B"), "soft", True, 5, 2, 500, 0.5, 3, 7, 1),
        GroupRecord(100.0, 30.0, "stocks/#", "volume > 3", 4, 10, 1_000),
    ]


def test_what_was_refused_since_the_last_time_is_told_by_reason_and_nothing_else() -> None:
    recorder = Recorder()
    counts = {"publications_in": 9, "frames_refused.key": 2, "publications_dropped.hops": 1}
    assert recorder.refusals(counts, 1.0) == [
        RefusalRecord(1.0, "frames_refused", "key", 2),
        RefusalRecord(1.0, "publications_dropped", "hops", 1),
    ]
    counts = {"publications_in": 99, "frames_refused.key": 5, "publications_dropped.hops": 1}
    assert recorder.refusals(counts, 2.0) == [RefusalRecord(2.0, "frames_refused", "key", 3)]


def test_the_brokers_figures_keep_their_names() -> None:
    assert Recorder().broker({"$SYS/broker/load/messages/received/1min": 4.5}, 1.0) == [
        BrokerRecord(1.0, "$SYS/broker/load/messages/received/1min", 4.5)
    ]


def test_what_a_plugin_tells_must_be_records() -> None:
    records = [ServiceRecord(1.0, 7, 0.001, 3)]
    assert check_records(records) == records
    with pytest.raises(TypeError, match="'a text' is no record of telemetry"):
        check_records(["a text"])  # type: ignore[list-item]
