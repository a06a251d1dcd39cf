"""A spool made by a lab's own hand: what was put into it is what comes out as brokers, laws and rates."""

import math
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from mqloom.core.errors import LocalError
from mqloom.core.telemetry import ServiceRecord
from mqloom.lab.replay_example import BYTES_S, HUB, MESSAGE_BYTES, STRONG, WEAK, make_spool
from mqloom.lab.replay_model import PUBLICATIONS_MAX, Replay, law_of, replay_of
from mqloom.lab.replay_recording import Recorded, read_recording
from mqloom.spark_analytics.spool import SpoolWriter


def replayed(folder: Path) -> Replay:
    return replay_of(read_recording(folder, lambda share, text: None))


def test_brokers_links_and_strengths_are_those_that_were_told(tmp_path: Path) -> None:
    replay = replayed(make_spool(tmp_path))
    setup = replay.setup
    assert setup.clusters == {HUB: (WEAK, STRONG)}
    assert {name: broker.bytes_s for name, broker in setup.brokers.items()} == BYTES_S
    assert setup.message_bytes == MESSAGE_BYTES
    assert math.isclose(setup.law.slope_s * 1.0, 2e-6, rel_tol=0.75)
    assert abs(setup.length_s - 600.0) < 1e-6
    assert replay.notes == ()


def test_everybody_joins_where_it_was_and_publications_come_as_often(tmp_path: Path) -> None:
    replay = replayed(make_spool(tmp_path))
    workload = replay.workload
    assert [stay.broker for stay in workload.stays] == [WEAK] * 40
    times = workload.publishing.times
    assert abs(len(times) - 8.0 * 600) <= 5
    assert np.all(np.diff(times) >= 0)
    wanted = sum(len(workload.matching(int(quote))) for quote in workload.publishing.quotes)
    assert abs(wanted - 8.0 * 600 * 10) <= 50
    for subscriber, subscription in enumerate(workload.subscriptions):
        for quote, attributes in enumerate(workload.quotes):
            assert subscription.where.matches(attributes) == (subscriber in workload.matching(quote))


def test_that_all_leave_when_a_recording_ends_is_not_replayed(tmp_path: Path) -> None:
    recording = read_recording(make_spool(tmp_path), lambda share, text: None)
    groups = recording.gateways[WEAK].groups
    last = max(groups)
    groups[last] = [structs.replace(record, subscribers=0) for record in groups[last]]
    replay = replay_of(recording)
    assert [(stay.broker, stay.leaves_at) for stay in replay.workload.stays] == [(WEAK, math.inf)] * 40
    assert replay.setup.brokers == replayed(tmp_path).setup.brokers


def test_each_broker_takes_as_long_as_it_took_whoever_left_at_the_end(
    tmp_path: Path,
) -> None:
    recording = read_recording(make_spool(tmp_path), lambda share, text: None)
    for each in recording.gateways.values():  # a line without a base: what takes no time with nobody
        each.services[:] = [structs.replace(one, service_s=4e-6 * one.subscriptions) for one in each.services]
        each.loads[:] = [structs.replace(one, delay_s=4e-6 * one.subscriptions) for one in each.loads]
    groups = recording.gateways[WEAK].groups
    groups[max(groups)] = [structs.replace(record, subscribers=0) for record in groups[max(groups)]]
    setup = replay_of(recording).setup
    for broker in setup.brokers.values():
        assert math.isclose(setup.law.at(41, broker.speed), 4e-6 * 41, rel_tol=0.05)


def test_a_recording_of_many_publications_is_thinned_and_loads_are_the_same(tmp_path: Path) -> None:
    replay = replayed(make_spool(tmp_path, rate=4_000.0, subscribers=4))
    assert len(replay.workload.publishing.times) <= PUBLICATIONS_MAX + 10
    assert replay.notes == (f"each publication stands for {4_000 * 600 / PUBLICATIONS_MAX:.1f}",)
    sent = len(replay.workload.publishing.times) * replay.setup.message_bytes
    assert math.isclose(sent, 4_000 * 600 * MESSAGE_BYTES, rel_tol=0.02)


def test_where_groups_make_up_little_of_what_was_counted_it_is_told(tmp_path: Path) -> None:
    recording = read_recording(make_spool(tmp_path), lambda share, text: None)
    weak = recording.gateways[WEAK]
    assert weak.loads[0].deliveries_s == 8.0 * 10
    weak.loads[:] = [structs.replace(load, deliveries_s=160.0) for load in weak.loads]
    assert any("50% of the deliveries" in note for note in replay_of(recording).notes)


def test_the_line_of_the_service_time_is_found_again() -> None:
    recorded = Recorded()
    recorded.services += [ServiceRecord(0.0, n, 1e-4 + 3e-6 * n, 100) for n in range(10, 500, 7)]
    law = law_of([recorded])
    assert math.isclose(law.base_s, 1e-4, rel_tol=1e-6)
    assert math.isclose(law.slope_s, 3e-6, rel_tol=1e-6)


def test_without_load_or_subscribers_it_is_told_what_is_missing(tmp_path: Path) -> None:
    SpoolWriter(tmp_path / "empty").ensure()
    with pytest.raises(LocalError, match="there is no load in it"):
        replayed(tmp_path / "empty")
    with pytest.raises(LocalError, match="nobody was subscribed"):
        replayed(make_spool(tmp_path / "alone", subscribers=0))
