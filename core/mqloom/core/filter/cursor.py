"""A position in the tokens of a filter, and the errors that both forms of the language have in common."""

from typing import Final, NoReturn

from mqloom.core.filter.syntax import Operator, Scalar
from mqloom.core.filter.tokens import LITERALS, Token, fail, literal, path, short

OPERATORS: Final[dict[str, Operator]] = {
    "=": "=",
    "==": "=",
    "<>": "<>",
    "!=": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
"""As they may be written, and as they are meant."""

_INSTEAD: Final = {
    "=>": ">=",
    "=<": "<=",
    "><": "<>",
    "=!": "<>",
    "===": "=",
    "!==": "<>",
    "&&": "AND",
    "&": "AND",
    "||": "OR",
    "|": "OR",
    "!": "NOT",
    "~": "LIKE",
    "=~": "LIKE",
}
"""What others write, and what is written here."""


class Cursor:
    """Reads tokens one by one. The last token is the end, and is never passed."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.index = 0

    def take(self) -> Token:
        """Return the next token and pass it."""
        token = self.tokens[self.index]
        self.index += token.kind != "end"
        return token

    def accept(self, kind: str) -> bool:
        """Pass the next token if it is of that kind; say whether it was."""
        found = self.tokens[self.index].kind == kind
        self.index += found
        return found

    def expect(self, kind: str, wanted: str) -> Token:
        """Return the next token, which has to be of that kind, and pass it. Raises FilterError."""
        if self.tokens[self.index].kind != kind:
            self.unexpected(wanted)
        return self.take()

    def operand(self, operator: Operator) -> Scalar:
        """Read the literal on the right of an operator. Raises FilterError."""
        token = self.tokens[self.index]
        if token.kind not in LITERALS:
            if token.kind == "NULL":
                self.fail("nothing is equal to NULL; write IS NULL or IS NOT NULL", token)
            if token.kind == "path":
                self.unexpected("a literal", f"; a text is written in single quotes: '{short(path(token))}'")
            self.unexpected("a literal")
        self.check_order(operator, token)
        self.index += 1
        return self.value(token)

    def check_order(self, operator: Operator, token: Token) -> None:
        """Raise FilterError if the operator asks for the order of a boolean."""
        if token.kind in ("TRUE", "FALSE") and operator not in ("=", "<>"):
            self.fail(f"{token} has no order: only = and <> compare with it", token)

    def value(self, token: Token) -> Scalar:
        """Return the value of a literal."""
        return literal(token, self.text)

    def fail(self, problem: str, token: Token) -> NoReturn:
        """Raise FilterError at a token."""
        fail(problem, self.text, token.position)

    def unexpected(self, wanted: str, hint: str = "") -> NoReturn:
        """Raise FilterError at the next token: something else was wanted."""
        token = self.tokens[self.index]
        if token.kind == "hyphenated":
            hint = f'; a name with a hyphen is written in double quotes: "{short(token.text)}"'
        elif token.kind == "operator" and token.text in _INSTEAD:
            hint = f"; write {_INSTEAD[token.text]}"
        self.fail(f"expected {wanted}, found {token}{hint}", token)

    def unknown_operator(self, token: Token) -> NoReturn:
        """Raise FilterError at an operator that there is not."""
        hint = f"; write {_INSTEAD[token.text]}" if token.text in _INSTEAD else ""
        self.fail(f"unknown operator {token}{hint}", token)
