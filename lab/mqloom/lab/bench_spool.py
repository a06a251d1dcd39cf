"""A spool of telemetry for benchmarks, as a federation would have filled it in days, in seconds.

Each gateway's records of one window are encoded once, as a pattern. For each window the pattern is copied and only the
numbers that change are written into it: msgpack has floats in nine bytes, wherever they are. A broker's load goes up
and down with the day and grows a little, by a share that differs from broker to broker.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import (
    VERSION,
    BrokerRecord,
    GroupRecord,
    LinkRecord,
    LoadRecord,
    MigrationRecord,
    Record,
    RefusalRecord,
    ServiceRecord,
    encode_record,
)
from mqloom.spark_analytics.spool import SpoolWriter

WINDOW_S: Final = 30.0
EPOCH: Final = 1_700_000_000
"""When it begins, in Unix time; also the epoch of all gateways."""

CHUNK_WINDOWS: Final = 32
"""Windows of one gateway that are made at once."""

COMMIT_BYTES: Final = 8 * 1024 * 1024
DAY_S: Final = 86_400.0

_AT: Final = 1e300
_LOADS: Final = (2e300, 3e300, 4e300)
"""Stand in a pattern where times and the load's ratios (input, output, processor) belong."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The encoded records of one window of one gateway, and where in them its numbers are."""

    gateway: str
    records: int
    body: bytes
    ats: "np.ndarray[Any, np.dtype[np.int64]]"
    loads: "np.ndarray[Any, np.dtype[np.int64]]"
    growth_per_day: float
    phase: float


def write_telemetry(folder: Path, rows: int, tell: Callable[[int], None], *, gateways: int = 16, seed: int = 1) -> int:
    """Fill a new spool with at least so many records; return how many. `tell` is told how many there are so far."""
    writer = SpoolWriter(folder)
    randomness = random.Random(seed)  # noqa: S311 - nothing secret
    patterns = [_pattern(f"broker-{number:02d}", randomness) for number in range(gateways)]
    written = waiting = window = 0
    while written < rows:
        for pattern in patterns:
            for count, data in _batches(pattern, window):
                writer.append(count, data)
                written, waiting = written + count, waiting + len(data)
        if waiting >= COMMIT_BYTES:
            writer.commit()
            waiting = 0
            tell(written)
        window += CHUNK_WINDOWS
    writer.commit()
    writer.close()
    tell(written)
    return written


def _records(gateway: str, randomness: random.Random) -> Iterator[Record]:
    capacity = 1e6
    yield LoadRecord(
        at=_AT,
        window_s=WINDOW_S,
        input_ratio=_LOADS[0],
        delay_s=0.002,
        output_ratio=_LOADS[1],
        cpu_ratio=_LOADS[2],
        memory_ratio=0.4,
        input_rate=800.0,
        output_bytes_s=3e5,
        output_bytes_s_max=capacity,
        subscriptions=randomness.randrange(500),
        clients=50,
        deliveries_s=1.5e3,
    )
    for name in ("clients/connected", "messages/received", "messages/sent", "bytes/received", "bytes/sent"):
        for average in ("", "/1min", "/5min"):
            yield BrokerRecord(_AT, f"$SYS/broker/load/{name}{average}", randomness.random() * 1e4)
    for peer in range(4):
        sent = randomness.randrange(5_000)
        kind: Literal["primary", "soft"] = "primary" if peer < 2 else "soft"
        name = GatewayId(f"broker-{peer:02d}")
        yield LinkRecord(_AT, WINDOW_S, name, kind, True, sent, sent // 5, sent * 200, 0.5, 1 + peer)
    for group in range(20):
        where = f"symbol = 'S{group % 7}' AND volume > {1_000 * group}"
        yield GroupRecord(_AT, WINDOW_S, "stocks/#", where, 1 + group % 5, randomness.randrange(500), 50_000)
    for subscriptions in (100, 200, 300, 400):
        yield ServiceRecord(_AT, subscriptions, 1e-4 + 1e-6 * subscriptions, 200, 2 * subscriptions)
    yield RefusalRecord(_AT, "publications_dropped", "no room", randomness.randrange(3))
    if randomness.random() < 0.1:
        partner = GatewayId("broker-00")
        yield MigrationRecord(_AT, f"{gateway}-1", "output", partner, 5, 5, 0.5, 0.001, 0.5, 0.5, 0.001, 0.55)


def _pattern(gateway: str, randomness: random.Random) -> Pattern:
    encoded = [encode_record(record) for record in _records(gateway, randomness)]
    body = b"\xdc" + len(encoded).to_bytes(2, "big") + b"".join(encoded)
    return Pattern(
        gateway,
        len(encoded),
        body,
        _places(body, _AT),
        np.concatenate([_places(body, value) for value in _LOADS]),
        randomness.uniform(0.0, 0.01),
        randomness.uniform(0.0, 0.2),
    )


def _places(body: bytes, value: float) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return where a float is in a body: the places of its eight bytes, a row for each time it is there."""
    wanted, found, at = msgspec.msgpack.encode(value), [], 0
    while (at := body.find(wanted, at)) >= 0:
        found.append(at + 1)
        at += len(wanted)
    return np.array(found, np.int64)[:, None] + np.arange(8)


def _batches(pattern: Pattern, window: int) -> Iterator[tuple[int, bytes]]:
    """Yield the batches of some windows, each with the number of its records."""
    seconds = EPOCH + WINDOW_S * np.arange(window, window + CHUNK_WINDOWS, dtype=np.float64)
    days = (seconds - EPOCH) / DAY_S
    wave = 0.2 * np.sin(2 * math.pi * (days + pattern.phase))
    noise = np.random.default_rng([window, len(pattern.gateway)]).normal(0.0, 0.02, (CHUNK_WINDOWS, len(_LOADS)))
    level = (0.45 + wave + pattern.growth_per_day * days)[:, None] * np.array([1.0, 0.8, 0.6]) + noise
    copies = np.tile(np.frombuffer(pattern.body, np.uint8), (CHUNK_WINDOWS, 1))
    copies[:, pattern.ats] = _big_endian(seconds)[:, None, :]
    copies[:, pattern.loads] = _big_endian(np.clip(level, 0.0, None))
    for index in range(CHUNK_WINDOWS):
        first = 1 + (window + index) * pattern.records
        header = msgspec.msgpack.encode([VERSION, pattern.gateway, EPOCH, first, pattern.records])
        yield pattern.records, b"\x92" + header + copies[index].tobytes()


def _big_endian(values: "np.ndarray[Any, np.dtype[np.float64]]") -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Return the eight bytes of each number, in a last dimension of their own."""
    found: np.ndarray[Any, np.dtype[np.uint8]] = values.astype(">f8")[..., None].view(np.uint8)
    return found
