"""The parts a page is made of: text that is safe, tables, bars in cells. All are strings of HTML."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from mqloom.spark_analytics.capacity.thresholds import FULL

ROWS_SHOWN: Final = 40
"""Rows of a table on the page; how many there are beyond them is said below it."""

DASH: Final = "\N{EN DASH}"


class Head(NamedTuple):
    """The head of a column."""

    name: str
    is_number: bool = False


class Section(NamedTuple):
    """A chapter of the report."""

    anchor: str
    title: str
    lead: str
    """What it answers, in a sentence or two."""
    body: str


def text(value: object) -> str:
    """Return anything as text that is no markup."""
    return escape(str(value))


def shorten(words: str, length_max: int) -> str:
    """Return words that fit, their middle left out if need be."""
    half = (length_max - 1) // 2
    return words if len(words) <= length_max else f"{words[:half]}\N{HORIZONTAL ELLIPSIS}{words[-half:]}"


def percent(value: float | None, digits: int = 0) -> str:
    """Return a share as people read it."""
    return DASH if value is None or not math.isfinite(value) else f"{value * 100:,.{digits}f}%"


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with separators."""
    return DASH if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def milliseconds(value_s: float | None) -> str:
    """Return a short time in milliseconds, with as many digits as say something."""
    if value_s is None or not math.isfinite(value_s):
        return DASH
    value = value_s * 1000
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def microseconds(value_s: float | None) -> str:
    """Return a very short time in microseconds."""
    return DASH if value_s is None or not math.isfinite(value_s) else f"{value_s * 1e6:.3g} \N{MICRO SIGN}s"


def size(value: float | None) -> str:
    """Return bytes in the unit that fits."""
    if value is None or not math.isfinite(value):
        return DASH
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} TB"


def bar(value: float | None, full: float = FULL) -> str:
    """Return a share with a bar behind it, which says by its colour whether there is room left."""
    if value is None or not math.isfinite(value):
        return DASH
    kind = "over" if value > full else "high" if value > 0.75 * full else "fine"
    return f'<span class="bar {kind}" style="--v:{min(max(value, 0.0), 1.0):.3f}">{percent(value)}</span>'


def heat(value: float | None, label: str, full: float = FULL) -> str:
    """Return a cell of a heat map."""
    if value is None or not math.isfinite(value):
        return '<td class="heat"></td>'
    kind = " over" if value > full else ""
    shown = min(max(value, 0.0), 1.0)
    return f'<td class="heat{kind}" style="--v:{shown:.3f}" title="{text(label)}">{value * 100:.0f}</td>'


def table(heads: Sequence[Head], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return a table of cells that are HTML already; of many rows the first."""
    shown = rows[:ROWS_SHOWN]
    classes = [' class="number"' if head.is_number else "" for head in heads]
    top = "".join(f"<th{kind} scope=col>{text(head.name)}</th>" for head, kind in zip(heads, classes, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, classes, strict=True)) + "</tr>"
        for row in shown
    )
    name = f"<caption>{text(caption)}</caption>" if caption else ""
    more = f'<p class="note">{len(rows) - len(shown):,} more are not shown.</p>' if len(rows) > len(shown) else ""
    return f'<div class="scroll"><table>{name}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>{more}'


def plot(svg: str, caption: str) -> str:
    """Return a picture with what it shows."""
    return f'<figure><div class="scroll">{svg}</div><figcaption>{text(caption)}</figcaption></figure>'


def paragraph(words: str) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{text(words)}</p>"


def nothing(words: str) -> str:
    """Return what is said where there is nothing to show."""
    return f'<p class="nothing">{text(words)}</p>'


def heading(words: str) -> str:
    """Return the title of a part of a section."""
    return f"<h3>{text(words)}</h3>"


def items(words: Iterable[str]) -> str:
    """Return a list of plain texts."""
    return "<ul>" + "".join(f"<li>{text(each)}</li>" for each in words) + "</ul>"
