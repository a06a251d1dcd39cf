"""Which tables a query of SQL names: not which words it has, for columns and texts may be called as a table is."""

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<left>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|--[^\n]*|/\*.*?\*/)|`(?P<quoted>[^`]*)`|(?P<word>\w+)|(?P<sign>[(),])""",
    re.DOTALL,
)
"""Strings and comments, which are left out; names; and what takes a query apart."""

_BEFORE: Final = {"from", "join", "table", "describe", "desc"}
"""Behind these stands a table."""
_BETWEEN: Final = {"extended", "formatted", "lateral", "only", "table"}
"""Or one of these first."""
_ENDING: Final = {
    "select",
    "where",
    "group",
    "having",
    "order",
    "sort",
    "window",
    "limit",
    "union",
    "except",
    "intersect",
}
"""With these a list of tables has ended."""


def relations_in(query: str) -> set[str]:
    """Return what stands where a table does, in small letters; perhaps more, where a query is unusual."""
    found: set[str] = set()
    outer: list[bool] = []
    is_list, is_next = False, False  # whether a list of tables goes on, and whether one comes next
    for match in _TOKEN.finditer(query):
        if match["left"]:
            continue
        sign, word = match["sign"], (match["quoted"] or match["word"] or "").lower()
        if sign == "(":
            outer.append(is_list)
            is_list = False
        elif sign == ")":
            is_list, is_next = bool(outer) and outer.pop(), False
        elif sign == ",":
            is_next = is_list
        elif match["word"] and word in _ENDING:
            is_list = is_next = False
        elif match["word"] and word in (_BETWEEN if is_next else _BEFORE):
            is_list, is_next = is_list or word == "from", True
        elif is_next:
            found.add(word)
            is_next = False
    return found
