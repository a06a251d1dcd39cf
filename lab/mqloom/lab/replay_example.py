"""A spool of a small federation, made up: a hub, a weak broker where everybody is, and a strong one with nobody."""

from pathlib import Path
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import (
    ConfigurationRecord,
    GroupRecord,
    LinkRecord,
    LoadRecord,
    Record,
    ServiceRecord,
    decode_batch,
)
from mqloom.core.telemetry_outbox import TelemetryOutbox
from mqloom.spark_analytics.spool import SpoolWriter

HUB, WEAK, STRONG = GatewayId("HUB"), GatewayId("WEAK"), GatewayId("STRONG")
PEERS: Final = {HUB: (WEAK, STRONG), WEAK: (HUB,), STRONG: (HUB,)}
BYTES_S: Final = {HUB: 1e9, WEAK: 20_000.0, STRONG: 80_000.0}
WINDOW_S: Final = 10.0
MESSAGE_BYTES: Final = 250
SETTINGS: Final = {"plugins.settings.balance": '{"local_ratio":0.2}', "telemetry.groups_max": "1000"}
SPEEDS: Final = {HUB: 1.0, WEAK: 0.5, STRONG: 2.0}


def service_s(name: GatewayId, subscriptions: int) -> float:
    """Return what a publication takes."""
    return (1e-4 + 2e-6 * subscriptions) / SPEEDS[name]


def told(name: GatewayId, window: int, subscribers: int, rate: float) -> list[Record]:
    """Return one window in which everybody is at the weak broker, and wants a quarter of all there is."""
    at = 1_000_000.0 + window * WINDOW_S
    delay = service_s(name, subscribers + window % 3)
    sent = rate * subscribers / 4 * MESSAGE_BYTES if name == WEAK else 0.0  # each wants a quarter
    records: list[Record] = [
        LoadRecord(
            at=at,
            window_s=WINDOW_S,
            input_ratio=rate * delay,
            delay_s=delay,
            output_ratio=sent / BYTES_S[name],
            cpu_ratio=0.1,
            memory_ratio=0.1,
            input_rate=rate,
            output_bytes_s=sent,
            output_bytes_s_max=BYTES_S[name],
            subscriptions=subscribers + window % 3,
            deliveries_s=sent / MESSAGE_BYTES,
        ),
        ServiceRecord(
            at, subscribers + window % 3, delay, round(rate * WINDOW_S), round(sent / MESSAGE_BYTES * WINDOW_S)
        ),
    ]
    records += [LinkRecord(at, WINDOW_S, peer, "primary", True, 0, 0, 0) for peer in PEERS[name]]
    count = round(rate * WINDOW_S)
    if name == WEAK:
        for group in range(4):
            each = subscribers // 4
            records.append(GroupRecord(at, WINDOW_S, "stocks/#", f"symbol = 'S{group}'", each, count // 4, 0))
    return records


def make_spool(folder: Path, *, windows: int = 60, subscribers: int = 40, rate: float = 8.0) -> Path:
    """Write windows of all three into a folder, and return it."""
    writer = SpoolWriter(folder)
    for name in PEERS:
        box = TelemetryOutbox(name, 1, lambda: 0.0)
        for what, value in SETTINGS.items():
            box.offer(ConfigurationRecord(1_000_000.0, what, "", value), 0.0)
        for window in range(1, windows + 1):
            for record in told(name, window, subscribers, rate):
                box.offer(record, 0.0)
        for data in box.due(0.0, all_of_it=True):
            header = decode_batch(data).header
            writer.append(header.count, data, name, header.epoch, header.first + header.count - 1)
    writer.commit()
    writer.close()
    return folder
