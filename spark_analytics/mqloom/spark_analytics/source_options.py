"""The options of the source `mqloom`: texts, as Spark has them, which are read or refused with what would do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from mqloom.core.errors import LocalError
from mqloom.core.telemetry import KINDS
from mqloom.spark_analytics.place import Place, place_of
from mqloom.spark_analytics.segments import Gap, SpoolError

OPTIONS: Final = {
    "spool": "a folder with a spool, which all executors see under the same path",
    "endpoint": "the address at which a collector serves readers, such as tcp://host:5571",
    "key_file": "a file with the telemetry key, if the collector has one; every executor needs it at this path",
    "kind": "one kind of record, with its fields as columns; without it all kinds are in one table",
    "starting": "where a new streaming query begins: earliest or latest; earliest",
    "max_records": "records in one micro-batch at most, of all kinds; no limit",
    "partition_records": "records that one task reads, about; 250,000",
    "on_missing": "what to do about records that the collector deleted before they were read: fail or skip; fail",
    "on_broken": "what to do about damaged or foreign files, and malformed records: fail or skip; fail",
}
"""Every option, with its meaning and default."""

PARTITION_RECORDS: Final = 250_000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a query asked for."""

    place: Place
    kind: str = ""
    starting: Literal["earliest", "latest"] = "earliest"
    max_records: int = 0
    partition_records: int = PARTITION_RECORDS
    on_missing: Literal["fail", "skip"] = "fail"
    on_broken: Literal["fail", "skip"] = "fail"

    def check(self, gap: Gap) -> None:
        """Raise SpoolError for what could not be read, unless it is to be skipped."""
        if gap.is_gone and self.on_missing == "fail":
            text = f"{self.place}: the records at positions {gap.begin} to {gap.end} are gone: the collector keeps less"
            hint = "to go on without them set the option on_missing to skip; to lose none keep more (mqloom collect)"
            raise SpoolError(f"{text} than this query is behind; {hint}")
        if not gap.is_gone and self.on_broken == "fail":
            hint = "to go on without them set the option on_broken to skip"
            raise SpoolError(f"{gap.problem} (positions {gap.begin} to {gap.end}); {hint}")


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """Return what the options say; raises LocalError for what is none, or unknown."""
    texts = {name.lower(): value for name, value in options.items()}
    unknown = sorted(set(texts) - set(OPTIONS) - {"path"})
    if unknown:
        raise LocalError(f"the source mqloom has no option {unknown[0]!r}; it has {', '.join(OPTIONS)}")
    return SourceOptions(
        place=place_of(texts.get("spool") or texts.get("path"), texts.get("endpoint"), texts.get("key_file")),
        kind=_choice(texts, "kind", ("", *KINDS)),
        starting=cast(Literal["earliest", "latest"], _choice(texts, "starting", ("earliest", "latest"))),
        max_records=_number(texts, "max_records", 0),
        partition_records=_number(texts, "partition_records", PARTITION_RECORDS),
        on_missing=_fail_or_skip(texts, "on_missing"),
        on_broken=_fail_or_skip(texts, "on_broken"),
    )


def _choice(texts: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = texts.get(name, choices[0])
    if value not in choices:
        raise LocalError(
            f"the option {name} of the source mqloom is {value!r}; one of {', '.join(filter(None, choices))}"
        )
    return value


def _fail_or_skip(texts: Mapping[str, str], name: str) -> Literal["fail", "skip"]:
    return cast(Literal["fail", "skip"], _choice(texts, name, ("fail", "skip")))


def _number(texts: Mapping[str, str], name: str, default: int) -> int:
    value = texts.get(name)
    if value is None:
        return default
    if not value.isdecimal() or not 1 <= int(value) <= 10**12:
        raise LocalError(f"the option {name} of the source mqloom is {value!r}; a whole number of 1 or more")
    return int(value)
