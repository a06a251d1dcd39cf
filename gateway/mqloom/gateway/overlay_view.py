"""A federation's links as its gateways show them: what was read, what is missing and why, and a table of it."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayId
from mqloom.core.records import Portrait, decode_portrait
from mqloom.gateway.portraits import KINDS
from mqloom.gateway.status_reading import running_status

HEADINGS: Final = ("FROM", "TO", "KIND", "STATE", "HOPS", "PUBLICATIONS", "GAIN")


class Gallery(NamedTuple):
    """The portraits of a federation's gateways, and for those that are missing a sentence that says why."""

    portraits: Mapping[GatewayId, Portrait]
    problems: Mapping[GatewayId, str]


def read_portrait(gateway: GatewayId, status: bytes | None, portrait: bytes | None) -> Portrait | str:
    """Return what a gateway shows, or why that is not to be believed, from what its broker keeps."""
    said = running_status(status)
    if isinstance(said, str):
        return said
    if not portrait:
        return f"the gateway runs but shows no links; is it, with version {said.version}, older than this command?"
    try:
        shown = decode_portrait(portrait)
    except RecordError as error:
        return f"what it shows of its links cannot be read: {error.problem}; is it of another version?"
    if (shown.gateway, shown.epoch) != (gateway, said.epoch):
        return "what its broker keeps of its links is of an earlier run; try again in some seconds"
    return shown


def as_table(name: str, gallery: Gallery) -> str:
    """Return a line for every link, and what there is of each kind."""
    rows = [HEADINGS]
    for gateway, portrait in gallery.portraits.items():
        for link in portrait.links:
            state = "-" if link.kind == "candidate" else "up" if link.up else "down"
            gain = "-" if link.kind == "primary" else f"{link.gain:.1f}"
            figures = (str(link.distance), f"{link.publications:,}", gain)
            rows.append((gateway, link.gateway, link.kind, state, *figures))
    lines = [*_aligned(rows), "", f"federation {name}: {_counts(gallery)}"]
    left_out = sum(portrait.left_out for portrait in gallery.portraits.values())
    if left_out:
        lines.append(f"{left_out:,} more links are not shown: there are too many")
    return "\n".join(lines)


def as_rows(gallery: Gallery) -> dict[str, object]:
    """Return the same for programs."""
    return {
        "links": [
            {
                "from": gateway,
                "to": link.gateway,
                "kind": link.kind,
                "up": link.up,
                "hops": link.distance,
                "publications": link.publications,
                "gain": link.gain,
            }
            for gateway, portrait in gallery.portraits.items()
            for link in portrait.links
        ],
        "strategies": {gateway: portrait.strategy for gateway, portrait in gallery.portraits.items()},
        "left_out": {gateway: portrait.left_out for gateway, portrait in gallery.portraits.items()},
        "problems": dict(gallery.problems),
    }


def _counts(gallery: Gallery) -> str:
    links = [link for portrait in gallery.portraits.values() for link in portrait.links]
    counted = ", ".join(f"{sum(link.kind == kind for link in links):,} {kind}" for kind in KINDS)
    strategies = sorted({portrait.strategy or "none" for portrait in gallery.portraits.values()})
    gateways = "1 gateway" if len(gallery.portraits) == 1 else f"{len(gallery.portraits):,} gateways"
    return f"{gateways}, strategy {' and '.join(strategies)}; links {counted} (each from one end)"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = []
    for row in rows:
        words = [text.ljust(width) for text, width in zip(row[:4], widths[:4], strict=True)]
        numbers = [text.rjust(width) for text, width in zip(row[4:], widths[4:], strict=True)]
        lines.append("  ".join((*words, *numbers)).rstrip())
    return lines
