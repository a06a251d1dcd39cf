"""What a gateway knows, as telemetry records: window by window, and when something happens. Reads, and changes nothing.

The load is told with each window of the meters; links, groups and refusals with each window of telemetry. Times in
records are Unix times, which whoever calls has.
"""

from collections.abc import Iterable, Mapping, Sequence

from mqloom.core.counters import is_failure
from mqloom.core.errors import TelemetryError
from mqloom.core.load import Load
from mqloom.core.telemetry import (
    KINDS,
    TEXT_MAX,
    BrokerRecord,
    GroupRecord,
    LinkRecord,
    LoadRecord,
    Record,
    RefusalRecord,
    ServiceRecord,
    decode_record,
    encode_record,
)
from mqloom.gateway.tallies import Tallied


def check_records(records: Sequence[Record]) -> Sequence[Record]:
    """Return what a plugin tells; raises TypeError if that is something else than records, or one of them malformed.

    A malformed one could not be read by anybody: whoever made it is told so, and not whoever reads.
    """
    for record in records:
        if type(record) not in KINDS.values():
            raise TypeError(f"{record!r:.100} is no record of telemetry")
        try:
            decode_record(encode_record(record))
        except (TelemetryError, OverflowError, UnicodeEncodeError) as error:
            raise TypeError(f"{record!r:.100} is malformed: {error}") from None
    return records


class Recorder:
    """Writes down one gateway; remembers only what it has told already."""

    def __init__(self) -> None:
        self._told: Mapping[str, int] = {}

    def load(self, load: Load, clients: int, window_s: float, at: float) -> list[Record]:
        """Tell a window of the meters; and what a publication has cost in it, if there was any."""
        records: list[Record] = [
            LoadRecord(
                at=at,
                window_s=window_s,
                input_ratio=load.input_ratio,
                delay_s=load.delay_s,
                output_ratio=load.output_ratio,
                cpu_ratio=load.cpu_ratio,
                memory_ratio=load.memory_ratio,
                input_rate=load.input_rate,
                output_bytes_s=load.output_bytes_s,
                output_bytes_s_max=load.output_bytes_s_max,
                subscriptions=load.subscriptions,
                clients=clients,
                deliveries_s=load.deliveries_s,
            )
        ]
        publications = round(load.input_rate * window_s)
        if publications:
            deliveries = None if load.deliveries_s is None else round(load.deliveries_s * window_s)
            records.append(ServiceRecord(at, load.subscriptions, load.delay_s, publications, deliveries))
        return records

    def traffic(self, tallied: Tallied, window_s: float, at: float) -> list[Record]:
        """Tell what went over each link, and what each group got."""
        links: Iterable[Record] = (
            LinkRecord(
                at=at,
                window_s=window_s,
                peer=link.gateway,
                kind=link.kind,
                is_up=link.up,
                sent=round(tally.sent),
                pure_forwards=round(tally.pure_forwards),
                sent_bytes=round(tally.sent_bytes),
                gain=link.gain,
                distance=link.distance,
                received=tally.received,
                received_unwanted=tally.received_unwanted,
            )
            for link, tally in tallied.links
        )
        groups: Iterable[Record] = (
            GroupRecord(
                at=at,
                window_s=group.window_s,
                topics=group.subscription.topics[:TEXT_MAX],
                where=str(group.subscription.where)[:TEXT_MAX],
                subscribers=group.subscribers,
                publications=round(group.publications),
                payload_bytes=round(group.payload_bytes),
            )
            for group in tallied.groups
        )
        return [*links, *groups]

    def refusals(self, counts: Mapping[str, int], at: float) -> list[Record]:
        """Tell what was refused or dropped since the last time, by counter and reason."""
        records: list[Record] = []
        for key, count in counts.items():
            counter, _, reason = key.partition(".")
            amount = count - self._told.get(key, 0)
            if amount and is_failure(counter):
                records.append(RefusalRecord(at, counter, reason[:TEXT_MAX], amount))
        self._told = counts
        return records

    def broker(self, figures: Mapping[str, float], at: float) -> Sequence[Record]:
        """Tell the broker's own figures, by the names it gives them."""
        return [BrokerRecord(at, name[:TEXT_MAX], value) for name, value in sorted(figures.items())]
