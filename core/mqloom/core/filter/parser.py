"""The SQL form of the filter language, by recursive descent.

    filter      = [ either ]                                    nothing at all: everything matches
    either      = both { OR both }
    both        = negatable { AND negatable }
    negatable   = NOT negatable | "(" either ")" | predicate
    predicate   = path operator literal | literal operator path
                | path [NOT] BETWEEN literal AND literal
                | path [NOT] IN "(" literal { "," literal } ")"
                | path [NOT] LIKE string [ ESCAPE string ]
                | path IS [NOT] NULL
    operator    = "=" | "<>" | "<" | "<=" | ">" | ">="          also "==" and "!="
    literal     = string | number | TRUE | FALSE

A text that begins with "[" is in the papers' form: see `mqloom.core.filter.triples`.
"""

from mqloom.core.filter.cursor import OPERATORS, Cursor
from mqloom.core.filter.limits import DEPTH_MAX, VALUES_MAX
from mqloom.core.filter.patterns import EscapeError, Pattern
from mqloom.core.filter.syntax import (
    EVERYTHING,
    MIRRORED,
    Comparison,
    Node,
    Operator,
    Presence,
    Scalar,
    conjunction,
    disjunction,
    kind_of,
    like,
    membership,
    negation,
)
from mqloom.core.filter.tokens import LITERALS, Token, fail, path, short, tokenize
from mqloom.core.filter.triples import parse_triples


def parse(text: str) -> Node:
    """Return the tree of a filter in either form. Raises FilterError."""
    tokens = tokenize(text)
    if tokens[0].kind == "end":
        return EVERYTHING
    if tokens[0].kind == "[":
        return parse_triples(text, tokens)
    return _Parser(text, tokens).whole()


class _Parser(Cursor):
    def __init__(self, text: str, tokens: list[Token]) -> None:
        super().__init__(text, tokens)
        self.depth = 0

    def whole(self) -> Node:
        node = self.either()
        self.expect("end", "AND, OR or the end")
        return node

    def either(self) -> Node:
        parts = [self.both()]
        while self.accept("OR"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else disjunction(parts)

    def both(self) -> Node:
        parts = [self.negatable()]
        while self.accept("AND"):
            parts.append(self.negatable())
        return parts[0] if len(parts) == 1 else conjunction(parts)

    def negatable(self) -> Node:
        kind = self.tokens[self.index].kind
        if kind == "NOT":
            self.descend(self.take())
            node = negation(self.negatable())
        elif kind == "(":
            self.descend(self.take())
            node = self.either()
            self.expect(")", "AND, OR or ')'")
        else:
            return self.predicate()
        self.depth -= 1
        return node

    def predicate(self) -> Node:
        token = self.tokens[self.index]
        if token.kind in LITERALS:
            return self.mirrored()
        name = path(self.expect("path", "an attribute"))
        kind = self.tokens[self.index].kind
        match kind:
            case "IS":
                self.index += 1
                present = self.accept("NOT")
                self.expect("NULL", "NULL" if present else "NULL or NOT NULL")
                return Presence(name, present)
            case "NOT":
                self.index += 1
                return self.listed(name, negated=True)
            case "BETWEEN" | "IN" | "LIKE":
                return self.listed(name, negated=False)
        if kind != "operator":
            alone = kind in ("AND", "OR", ")", "end")
            hint = f"; to ask whether it is true, write {short(token.text)} = TRUE" if alone else ""
            self.unexpected(f"an operator after {token}", hint)
        operator = self.operator()
        return Comparison(name, operator, self.operand(operator))

    def mirrored(self) -> Node:
        """Read a comparison with its literal on the left."""
        token = self.take()
        value = self.value(token)
        if self.tokens[self.index].kind != "operator":
            if token.kind in ("TRUE", "FALSE"):
                self.fail(f"expected an attribute, found {token}; an empty filter matches everything", token)
            self.unexpected(f"a comparison operator after {token}")
        operator = self.operator()
        self.check_order(operator, token)
        if self.tokens[self.index].kind in LITERALS:
            self.unexpected("an attribute", ": one side of a comparison is an attribute")
        return Comparison(path(self.expect("path", "an attribute")), MIRRORED[operator], value)

    def operator(self) -> Operator:
        token = self.take()
        operator = OPERATORS.get(token.text)
        if operator is None:
            self.unknown_operator(token)
        return operator

    def listed(self, name: str, *, negated: bool) -> Node:
        """Read what follows an attribute and a possible NOT."""
        kind = self.tokens[self.index].kind
        if kind == "BETWEEN":
            return self.between(name, negated=negated)
        if kind == "IN":
            return membership(name, self.values(), negated=negated)
        self.expect("LIKE", "BETWEEN, IN or LIKE after NOT")
        return like(name, self.pattern(), negated=negated)

    def between(self, name: str, *, negated: bool) -> Node:
        self.take()
        low = self.operand(">=")
        self.expect("AND", "AND between the two ends of BETWEEN")
        token = self.tokens[self.index]
        high = self.operand("<=")
        if kind_of(low) != kind_of(high):
            self.fail(f"both ends of BETWEEN have to be of one type, and {token} is of another", token)
        inside = conjunction([Comparison(name, ">=", low), Comparison(name, "<=", high)])
        return negation(inside) if negated else inside

    def values(self) -> list[Scalar]:
        self.take()
        self.expect("(", "'(' and the values of IN")
        values = [self.operand("=")]
        while self.accept(","):
            if len(values) == VALUES_MAX:
                self.fail(f"an IN has at most {VALUES_MAX} values", self.tokens[self.index])
            values.append(self.operand("="))
        self.expect(")", "',' or ')'")
        return values

    def pattern(self) -> Pattern:
        token = self.expect("string", "a pattern in single quotes such as 'abc%'")
        text = str(self.value(token))
        escape = None
        if self.accept("ESCAPE"):
            escape_token = self.expect("string", "a character in single quotes")
            escape = str(self.value(escape_token))
            if len(escape) != 1:
                self.fail(f"ESCAPE names a single character, found {escape_token}", escape_token)
        try:
            return Pattern.read(text, escape)
        except EscapeError as error:
            # In the filter's text a ' of the pattern stands twice.
            before = len(text[: error.index].replace("'", "''"))
            problem = f"the escape character {escape} stands only before %, _ or itself"
            fail(problem, self.text, token.position + 1 + before)

    def descend(self, token: Token) -> None:
        """Go one level deeper; the caller comes back by itself."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            self.fail(f"a filter is nested at most {DEPTH_MAX} deep", token)
