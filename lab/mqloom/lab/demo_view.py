"""How the demonstration looks: a live table of the brokers, and the comparison with flooding."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqloom.lab.demo import Demo

PICTURE = """\
        COAST ── WEST ── HUB ── EAST ── ISLAND"""


def view(demo: Demo, seconds_left: float | None) -> RenderableType:
    """Return what stands on the screen now."""
    table = Table(title="MQLoom: five brokers, one federation", title_justify="left")
    table.add_column("broker")
    for name in ("subscriptions", "in", "from links", "matched", "forwarded", "out"):
        table.add_column(name, justify="right")
    for row in demo.rows():
        counts = (row.subscriptions, row.taken_in, row.received, row.matched, row.forwarded, row.delivered)
        table.add_row(row.id, *(f"{count:,}" for count in counts))
    forwarded, flooded = demo.forwarded(), demo.flooded()
    share = f"{forwarded / flooded:.0%} of" if flooded else "of"
    compared = Text(f"over links: {forwarded:,} publications, {share} the {flooded:,} that flooding would have sent")
    ending = "Ctrl-C ends it" if seconds_left is None else f"{max(0, seconds_left):.0f} s left"
    return Group(Text(PICTURE), table, compared, Text(f"{len(demo.quotes):,} quotes published; {ending}", style="dim"))


def summary(verdict: dict[str, object]) -> str:
    """Return the verdict for people."""
    good = not (verdict["lost"] or verdict["duplicated"] or verdict["unasked"])
    arrived = f"{verdict['delivered']:,} arrived, {verdict['lost']:,} lost, {verdict['duplicated']:,} duplicated"
    return "\n".join(
        (
            f"{verdict['published']:,} quotes published; by trying each against each subscription",
            f"{verdict['expected']:,} deliveries were expected: {arrived}, {verdict['unasked']:,} unasked;",
            f"{verdict['forwarded']:,} went over links, where flooding would have sent {verdict['flooded']:,}.",
            "All is well." if good else "SOMETHING IS WRONG.",
        )
    )
