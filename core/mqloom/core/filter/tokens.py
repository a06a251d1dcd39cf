"""The text of a filter in tokens, with positions; shared by the SQL form and the papers' triples.

The tokenizer and the parsers are written by hand: every error knows its column and what would have been right there,
parsing costs little beside what a generic parser takes, and the plain install needs no parser library.
"""

import math
import re
from typing import Final, NamedTuple, NoReturn

from mqloom.core.errors import FilterError
from mqloom.core.filter.limits import DIGITS_MAX, TEXT_MAX
from mqloom.core.filter.syntax import Scalar, canonical_value

KEYWORDS: Final = frozenset({"AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"})
LITERALS: Final = frozenset({"number", "string", "TRUE", "FALSE"})
"""The kinds of tokens that `literal` reads."""

_NAME = r"[^\W\d]\w*+"
_QUOTED = r'"(?:[^"]|"")*+"'
_STEP = re.compile(f"{_NAME}|{_QUOTED}")

# The order matters: 5abc is not a number and a name.
_TOKEN = re.compile(
    rf"""\s*+(?:
    (?P<path>       (?:{_NAME}|{_QUOTED})(?:\.(?:{_NAME}|{_QUOTED}))*+(?!-\w))
  | (?P<hyphenated> (?:{_NAME}|{_QUOTED})(?:\.(?:{_NAME}|{_QUOTED}))*+(?:-[\w."]+)+)
  | (?P<number>     [+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
  | (?P<malformed>  [+-]?\.?[0-9][\w.]*)
  | (?P<string>     '(?:[^']|'')*+')
  | (?P<operator>   [=<>!~&|^*/%]+)
  | (?P<mark>       [()\[\],])
  | (?P<stray>      \S)
  )""",
    re.VERBOSE,
)

_STRAY: Final = {
    "'": "this text never ends: there is no closing ' (a ' inside is written twice)",
    '"': 'this name never ends: there is no closing "',
    **dict.fromkeys("\u2018\u2019\u201c\u201d", "write texts in straight single quotes: 'like this'"),
    ".": "a path is written without spaces around its dots, and neither begins nor ends with one",
    "-": "a minus stands directly before its number, and there is no arithmetic",
    "+": "a plus stands directly before its number, and there is no arithmetic",
    ";": "a filter ends without a semicolon",
}


class Token(NamedTuple):
    """A piece of the text. `kind` is a group of the pattern, a keyword in capitals, a mark itself, or "end"."""

    kind: str
    text: str
    position: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end"
        return short(self.text) if self.kind == "string" else f"'{short(self.text)}'"


def short(text: str) -> str:
    """Return as much of a text as an error shows."""
    return text if len(text) <= 40 else text[:37] + "..."


def keyword(word: str) -> str | None:
    """Return the keyword in capitals, or None if the word is none."""
    capitals = word.upper()
    return capitals if capitals in KEYWORDS and word.isascii() else None


def is_plain(step: str) -> bool:
    """Say whether a step of a path is written without double quotes, by everybody.

    Which characters are letters depends on the version of Unicode; gateways of all versions read ASCII alike.
    """
    return step.isascii() and re.fullmatch(_NAME, step) is not None


def fail(problem: str, text: str, position: int) -> NoReturn:
    """Raise a FilterError at a position that counts from 0."""
    raise FilterError(problem, text, position + 1)


def tokenize(text: str) -> list[Token]:
    """Split the text; the last token is the end. Raises FilterError at what can be no token."""
    if len(text) > TEXT_MAX:
        fail(f"a filter has at most {TEXT_MAX} characters, this one has {len(text)}", text, TEXT_MAX)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fail("a filter is Unicode text without lone surrogates", text, error.start)
    tokens = []
    # Blanks at the end would be tried once for each of them, to no avail.
    end = len(text.rstrip())
    for match in _TOKEN.finditer(text, 0, end):
        kind = match.lastgroup
        assert kind is not None
        word = match[kind]
        position = match.start(kind)
        if kind == "path":
            kind = keyword(word) or kind
        elif kind == "mark":
            kind = word
        elif kind == "stray":
            fail(_STRAY.get(word, f"no filter contains the character {word!r} here"), text, position)
        elif kind == "malformed":
            word = short(word)
            fail(f"'{word}' is no number; as a name it would be written \"{word}\"", text, position)
        tokens.append(Token(kind, word, position))
    tokens.append(Token("end", "", end))
    return tokens


def literal(token: Token, text: str) -> Scalar:
    """Return the value of a token of one of the kinds in LITERALS. Raises FilterError for a number out of bounds."""
    if token.kind == "string":
        return token.text[1:-1].replace("''", "'")
    if token.kind == "number":
        return _number(token, text)
    return token.kind == "TRUE"


def path(token: Token) -> str:
    """Return the path of a token of kind "path", without the quotes it was written in."""
    if '"' not in token.text:
        return token.text
    steps = _STEP.findall(token.text)
    return ".".join(step[1:-1].replace('""', '"') if step[0] == '"' else step for step in steps)


def _number(token: Token, text: str) -> Scalar:
    if token.text.lstrip("+-").isdecimal():
        if len(token.text) > DIGITS_MAX:
            fail(f"an integer has at most {DIGITS_MAX} digits", text, token.position)
        return int(token.text)
    value = float(token.text)
    if math.isinf(value):
        fail(f"the number {short(token.text)} is too large: a decimal is at most about 1.8e308", text, token.position)
    return canonical_value(value)
