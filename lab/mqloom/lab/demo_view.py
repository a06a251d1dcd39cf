"""How the demonstration looks: a live table of the brokers, and the comparison with flooding."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqloom.lab.demo import Demo
from mqloom.lab.demo_trading import last_word, told

PICTURE = """\
        COAST ── WEST ── HUB ── EAST ── ISLAND"""


def view(demo: Demo, seconds_left: float | None) -> RenderableType:
    """Return what stands on the screen now."""
    table = Table(title="MQLoom: five brokers, one federation", title_justify="left")
    table.add_column("broker")
    third = "relayed" if demo.part else "matched"  # all of it would be wider than a terminal
    for name in ("subscriptions", "in", "from links", third, "forwarded", "out"):
        table.add_column(name, justify="right")
    for row in demo.rows():
        shown = row.relayed if demo.part else row.matched
        counts = (row.subscriptions, row.taken_in, row.received, shown, row.forwarded, row.delivered)
        table.add_row(row.id, *(f"{count:,}" for count in counts))
    forwarded, flooded = demo.forwarded(), demo.flooded()
    share = f"{forwarded / flooded:.0%} of" if flooded else "of"
    compared = Text(f"over links: {forwarded:,} publications, {share} the {flooded:,} that flooding would have sent")
    lines = [compared]
    if demo.part:
        forwards = _woven(demo.part, *(demo.compared() or (None, None)))
        lines.append(Text(f"over soft links: {demo.softly():,} of them; {forwards}"))
    ending = "Ctrl-C ends it" if seconds_left is None else f"{max(0, seconds_left):.0f} s left"
    return Group(Text(PICTURE), table, *lines, Text(f"{len(demo.quotes):,} quotes published; {ending}", style="dim"))


def _woven(part: object, first: object, last: object) -> str:
    """Say what soft links have changed, by the pure forwards of the first and of the last part of so many quotes."""
    if first is None:
        return f"pure forwards are compared after {part} quotes, and {part} more"
    return f"pure forwards: {first} in the first {part} quotes, {last} in the last {part}"


def summary(verdict: dict[str, object]) -> str:
    """Return the verdict for people."""
    woven: tuple[str, ...] = ()
    if verdict["part"]:
        forwards = _woven(verdict["part"], verdict["relayed_first"], verdict["relayed_last"])
        woven = (f"{verdict['softly']:,} of these over soft links; {forwards}.",)
    return "\n".join(
        (
            f"{told(verdict)};",
            f"{verdict['forwarded']:,} went over links, where flooding would have sent {verdict['flooded']:,}.",
            *woven,
            last_word(verdict),
        )
    )
