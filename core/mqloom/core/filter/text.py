r"""The canonical text of a tree: one text for one tree, with no parentheses but those that are needed.

It parses into the very same tree. Strings are in single quotes, names in double quotes only where they must be,
keywords in capitals, and patterns with a literal %, _ or \ are written with ESCAPE '\'.
"""

from typing import Final

from mqloom.core.filter.syntax import And, Comparison, Like, Membership, Node, Or, Presence, Scalar
from mqloom.core.filter.tokens import is_plain, keyword

_DIGITS_READABLE: Final = 24
"""An integer of more digits is written like 1e+300 if that is exactly the same number."""


def text_of(node: Node) -> str:
    """Return the canonical text; for the tree that is always true it is empty."""
    match node:
        case Or():
            return " OR ".join(text_of(part) for part in node.parts)
        case And():
            return " AND ".join(f"({text_of(part)})" if isinstance(part, Or) else text_of(part) for part in node.parts)
        case Comparison():
            return f"{path_text(node.path)} {node.operator} {literal_text(node.value)}"
        case Membership():
            values = ", ".join(literal_text(value) for value in node.values)
            return f"{path_text(node.path)} {'NOT ' if node.negated else ''}IN ({values})"
        case Like():
            pattern, escaped = node.pattern.source()
            escape = r" ESCAPE '\'" if escaped else ""
            return f"{path_text(node.path)} {'NOT ' if node.negated else ''}LIKE {literal_text(pattern)}{escape}"
        case Presence():
            return f"{path_text(node.path)} IS {'NOT ' if node.present else ''}NULL"


def path_text(path: str) -> str:
    """Return a path as it is written in a filter."""
    if keyword(path):
        return f'"{path}"'
    steps = path.split(".")
    return ".".join(step if is_plain(step) else '"' + step.replace('"', '""') + '"' for step in steps)


def literal_text(value: Scalar) -> str:
    """Return a literal as it is written in a filter."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        return repr(value)
    digits = str(value)
    return digits if len(digits) <= _DIGITS_READABLE else _shorter(value, digits)


def _shorter(value: int, digits: str) -> str:
    try:
        nearest = float(value)
    except OverflowError:
        return digits
    return repr(nearest) if nearest == value else digits
