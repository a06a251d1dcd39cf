"""The papers' form of a filter: `[class,eq,'STOCK'],[volume,>,300000]`, all of which have to hold.

A triple is an attribute, an operator and a value (paper 000, section 3). `[x,isPresent,0]` asks for any value of x,
whatever stands in the third place; so does `[x,=,*]`. The operators' names are read in any case.
"""

from typing import Final

from mqloom.core.filter.cursor import OPERATORS, Cursor
from mqloom.core.filter.patterns import Pattern
from mqloom.core.filter.syntax import Comparison, Node, Operator, Predicate, Presence, conjunction, like
from mqloom.core.filter.tokens import Token, path

_COMPARISONS: Final[dict[str, Operator]] = OPERATORS | {"eq": "=", "neq": "<>"}

_PATTERNS: Final = {
    "str-prefix": Pattern.prefix,
    "str-suffix": Pattern.suffix,
    "str-postfix": Pattern.suffix,
    "str-contains": Pattern.containing,
}

_KNOWN: Final = "eq, neq, =, <>, <, <=, >, >=, isPresent, str-prefix, str-suffix, str-contains"


def parse_triples(text: str, tokens: list[Token]) -> Node:
    """Return the tree of a filter in triples. Raises FilterError."""
    reader = _Reader(text, tokens)
    parts = [reader.triple()]
    while reader.accept(","):
        parts.append(reader.triple())
    reader.expect("end", "',' and a triple, or the end")
    return conjunction(parts)


class _Reader(Cursor):
    def triple(self) -> Predicate:
        self.expect("[", "'[' and a triple such as [volume,>,300000]")
        name = path(self.expect("path", "an attribute"))
        self.expect(",", "',' and an operator")
        word = self.tokens[self.index].text.lower()
        if word == "ispresent":
            predicate = self.presence(name)
        elif word in _COMPARISONS:
            predicate = self.comparison(name, _COMPARISONS[word])
        elif word in _PATTERNS:
            predicate = self.pattern(name, word)
        else:
            self.unexpected(f"one of the operators {_KNOWN}")
        self.expect("]", "']'")
        return predicate

    def presence(self, name: str) -> Predicate:
        self.take()
        if self.accept(",") and not self.accept_star():
            self.operand("=")
        return Presence(name)

    def comparison(self, name: str, operator: Operator) -> Predicate:
        self.take()
        self.expect(",", "',' and a value")
        if operator == "=" and self.accept_star():
            return Presence(name)
        return Comparison(name, operator, self.operand(operator))

    def pattern(self, name: str, word: str) -> Predicate:
        self.take()
        self.expect(",", "',' and a text")
        token = self.expect("string", "a text in single quotes")
        return like(name, _PATTERNS[word](str(self.value(token))))

    def accept_star(self) -> bool:
        found = self.tokens[self.index].text == "*"
        self.index += found
        return found
