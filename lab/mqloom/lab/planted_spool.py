"""Writes telemetry that never travelled into a spool: records of made-up or simulated gateways."""

from collections.abc import Mapping, Sequence
from heapq import merge
from pathlib import Path
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import VERSION, BatchHeader, Record, encode_batch, encode_record
from mqloom.spark_analytics.spool import SpoolWriter

BATCH: Final = 500
"""Records of one batch; those of different gateways alternate, as they would on the wire."""


def write_spool(folder: Path, records: Mapping[GatewayId, Sequence[Record]], epoch: int = 1) -> int:
    """Write the records of each gateway, which are in the order of time; return how many there are."""
    writer = SpoolWriter(folder)
    batches = merge(*(_batches(gateway, found) for gateway, found in sorted(records.items())))
    for _, gateway, first, chosen in batches:
        header = BatchHeader(VERSION, GatewayId(gateway), epoch, first, len(chosen))
        data = encode_batch(header, [encode_record(each) for each in chosen])
        writer.append(len(chosen), data, gateway, epoch, first + len(chosen) - 1)
    end = writer.commit()
    writer.close()
    return end


def _batches(gateway: GatewayId, records: Sequence[Record]) -> list[tuple[float, str, int, Sequence[Record]]]:
    found = []
    for first in range(0, len(records), BATCH):
        chosen = records[first : first + BATCH]
        found.append((chosen[0].at, str(gateway), first + 1, chosen))
    return found
