r"""Patterns of LIKE: `%` stands for any run of characters, `_` for any one.

Inside, a pattern is one string, its `code`, in which two surrogates stand for the wildcards. The text of a filter
never contains a surrogate, so nothing needs escaping, and a pattern can be held against another pattern
as it can against a text: that is how one is known to cover the other.

Matching never backtracks: a hostile pattern such as '%a%a%a%a%a%a%' costs no more than its length times the text's.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

ANY: Final = "\ud800"
"""In a code: `%`."""

ONE: Final = "\ud801"
"""In a code: `_`."""

_WILDCARDS: Final = ANY + ONE
_RUN: Final = re.compile(f"[{_WILDCARDS}]+")
_SPECIAL: Final = re.compile(r"[%_\\]")


class EscapeError(ValueError):
    """An escape character before something that needs none; `index` is where it stands in the pattern."""

    def __init__(self, index: int) -> None:
        self.index = index
        super().__init__(f"misplaced escape character at {index}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern in its one form: in a run of wildcards every `_` stands before a single `%`."""

    code: str

    @classmethod
    def read(cls, text: str, escape: str | None = None) -> "Pattern":
        """Read what is written after LIKE, and after ESCAPE. Raises EscapeError."""
        code: list[str] = []
        index = 0
        while index < len(text):
            char = text[index]
            if char == escape:
                index += 1
                if text[index : index + 1] not in ("%", "_", escape):
                    raise EscapeError(index - 1)
                code.append(text[index])
            else:
                code.append({"%": ANY, "_": ONE}.get(char, char))
            index += 1
        return cls(_RUN.sub(_ordered_run, "".join(code)))

    @classmethod
    def prefix(cls, text: str) -> "Pattern":
        """Return the pattern of everything that begins with `text`."""
        return cls(text + ANY)

    @classmethod
    def suffix(cls, text: str) -> "Pattern":
        """Return the pattern of everything that ends with `text`."""
        return cls(ANY + text)

    @classmethod
    def containing(cls, text: str) -> "Pattern":
        """Return the pattern of everything that has `text` in it."""
        return cls(ANY + text + ANY if text else ANY)

    @property
    def exact(self) -> str | None:
        """The one text that matches, if the pattern has no wildcard."""
        return None if _RUN.search(self.code) else self.code

    @property
    def head(self) -> str:
        """What every match begins with: all before the first wildcard."""
        return _RUN.split(self.code, maxsplit=1)[0]

    @property
    def tail(self) -> str:
        """What every match ends with: all after the last wildcard."""
        return _RUN.split(self.code)[-1]

    @property
    def is_prefix(self) -> bool:
        """Whether beginning with `head` is all that is asked."""
        return self.code == self.head + ANY

    @property
    def length_min(self) -> int:
        """The length of the shortest match."""
        return len(self.code) - self.code.count(ANY)

    @property
    def length_max(self) -> int | None:
        """The length of the longest match, or None if there is none."""
        return None if ANY in self.code else len(self.code)

    def source(self) -> tuple[str, bool]:
        r"""Return the pattern as it is written, and whether that needs ESCAPE '\'."""
        written = _SPECIAL.sub(r"\\\g<0>", self.code)
        return written.replace(ANY, "%").replace(ONE, "_"), len(written) > len(self.code)

    def test(self) -> Callable[[str], bool]:
        """Return the function that says whether a text matches."""
        first, *rest = pieces = self.code.split(ANY)
        if ONE not in self.code:
            if len(pieces) == 2 and not rest[0]:
                return lambda text: text.startswith(first)
            if len(pieces) == 2 and not first:
                return lambda text: text.endswith(rest[0])
            if len(pieces) == 3 and not first and not rest[1]:
                return lambda text: rest[0] in text
        return _glob(self.code, ".")

    def matches(self, text: str) -> bool:
        """Say whether a text matches."""
        return self.test()(text)

    def covers(self, other: "Pattern") -> bool:
        """Say whether every match of `other` is surely a match of this one."""
        if not self.code.strip(_WILDCARDS) and self.length_max is None:
            return other.length_min >= self.length_min
        if ONE not in self.code:
            return _has_in_order(other.code, self.code.split(ANY))
        # `%` takes in whatever stands in the other, wildcards as well; `_` takes in one character or one `_`.
        return _glob(self.code, f"[^{ANY}]")(other.code)

    def excludes(self, other: "Pattern") -> bool:
        """Say whether surely nothing matches both."""
        if self.length_max is not None and other.length_min > self.length_max:
            return True
        if other.length_max is not None and self.length_min > other.length_max:
            return True
        heads = zip(self.code.split(ANY)[0], other.code.split(ANY)[0], strict=False)
        tails = zip(reversed(self.code.split(ANY)[-1]), reversed(other.code.split(ANY)[-1]), strict=False)
        return any(ONE not in pair and pair[0] != pair[1] for pairs in (heads, tails) for pair in pairs)


def _ordered_run(run: re.Match[str]) -> str:
    ones = ONE * run[0].count(ONE)
    return ones + ANY if ANY in run[0] else ones


def _has_in_order(text: str, pieces: list[str]) -> bool:
    """Say whether a text is these pieces with anything between them. The same as `_glob`, for pieces without `_`."""
    if len(pieces) == 1:
        return text == pieces[0]
    first, *middle, last = pieces
    position, end = len(first), len(text) - len(last)
    if position > end or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in middle:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


@lru_cache(maxsize=1024)
def _glob(code: str, one: str) -> Callable[[str], bool]:
    """Return the test for a code; `one` is the regular expression for `_`.

    The pieces between the `%` have a fixed length each. The first has to stand at the start and the last at the end;
    for those between, the leftmost place after the one before is never worse than a later one.
    """
    pieces = code.split(ANY)
    first, *middle, last = [
        re.compile("".join(one if char == ONE else re.escape(char) for char in piece), re.DOTALL)
        for piece in (pieces if len(pieces) > 1 else [*pieces, ""])
    ]
    if len(pieces) == 1:
        return lambda text: first.fullmatch(text) is not None
    length_of_last = len(pieces[-1])

    def test(text: str) -> bool:
        end = len(text) - length_of_last
        found = first.match(text)
        if found is None or found.end() > end or last.match(text, end) is None:
            return False
        position = found.end()
        for piece in middle:
            found = piece.search(text, position, end)
            if found is None:
                return False
            position = found.end()
        return True

    return test
