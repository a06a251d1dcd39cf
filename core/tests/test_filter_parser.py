"""What parses, into what, and what does not, with the column and the words of the error."""

import pytest

from mqloom.core.errors import FilterError
from mqloom.core.filter import And, Comparison, Filter, Like, Membership, Node, Or, Pattern, Presence
from mqloom.core.filter.limits import DEPTH_MAX, DIGITS_MAX, TEXT_MAX, VALUES_MAX


def tree(text: str) -> Node:
    return Filter.parse(text).tree


@pytest.mark.parametrize("text", ["", " ", "\t\n  "])
def test_nothing_at_all_matches_everything(text: str) -> None:
    assert Filter.parse(text) is not None
    assert Filter.parse(text) == Filter.ALL
    assert str(Filter.parse(text)) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", Comparison("a", "=", 1)),
        ("a == 1", Comparison("a", "=", 1)),
        ("a <> 1", Comparison("a", "<>", 1)),
        ("a != 1", Comparison("a", "<>", 1)),
        ("a<1", Comparison("a", "<", 1)),
        ("a<=-1", Comparison("a", "<=", -1)),
        ("a>+1", Comparison("a", ">", 1)),
        ("a >= .5", Comparison("a", ">=", 0.5)),
        ("a = 1e3", Comparison("a", "=", 1000)),
        ("a = 1.", Comparison("a", "=", 1)),
        ("a = -0.0", Comparison("a", "=", 0)),
        ("a = 12345678901234567890123", Comparison("a", "=", 12345678901234567890123)),
        ("a = 'it''s'", Comparison("a", "=", "it's")),
        ("a = ''", Comparison("a", "=", "")),
        ("a = true", Comparison("a", "=", True)),
        ("a <> False", Comparison("a", "<>", False)),
        ("a.b.c = 1", Comparison("a.b.c", "=", 1)),
        ('"weird name" = 1', Comparison("weird name", "=", 1)),
        ('a."weird name".c = 1', Comparison("a.weird name.c", "=", 1)),
        ('"say ""hi""" = 1', Comparison('say "hi"', "=", 1)),
        ('"" = 1', Comparison("", "=", 1)),
        ('"and" = 1', Comparison("and", "=", 1)),
        ("größe = 1", Comparison("größe", "=", 1)),
        ("A = 1", Comparison("A", "=", 1)),
        ("in.x = 1", Comparison("in.x", "=", 1)),
        ("_a1 = 1", Comparison("_a1", "=", 1)),
    ],
)
def test_a_comparison_is_read(text: str, expected: Node) -> None:
    assert tree(text) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("5 < x", "x > 5"),
        ("5 <= x", "x >= 5"),
        ("5 > x", "x < 5"),
        ("5 >= x", "x <= 5"),
        ("5 = x", "x = 5"),
        ("5 <> x", "x <> 5"),
        ("TRUE = x", "x = TRUE"),
        ("'a' < x AND x < 'b'", "x > 'a' AND x < 'b'"),
        ("x BETWEEN 1 AND 5", "x >= 1 AND x <= 5"),
        ("x between 1 and 5 and y = 1", "x >= 1 AND x <= 5 AND y = 1"),
        ("x NOT BETWEEN 'a' AND 'b'", "x < 'a' OR x > 'b'"),
        ("x NOT BETWEEN 1 AND 5 AND y = 1", "(x < 1 OR x > 5) AND y = 1"),
        ("x IN (7)", "x = 7"),
        ("x NOT IN (7, 7.0)", "x <> 7"),
        ("x IN (1, 1.0, 2, TRUE, '1', 2)", "x IN (1, 2, TRUE, '1')"),
        ("x LIKE 'abc'", "x = 'abc'"),
        ("x NOT LIKE 'abc'", "x <> 'abc'"),
        ("x LIKE '%%_%a'", "x LIKE '_%a'"),
        (r"x LIKE 'a!%b' ESCAPE '!'", "x = 'a%b'"),
        (r"x LIKE 'a!!%' ESCAPE '!'", "x LIKE 'a!%'"),
        (r"x LIKE 'a\%'", r"x LIKE 'a\\%' ESCAPE '\'"),
        ("NOT x = 5", "x <> 5"),
        ("NOT NOT x = 5", "x = 5"),
        ("NOT x IN (1, 2)", "x NOT IN (1, 2)"),
        ("NOT x LIKE 'a%'", "x NOT LIKE 'a%'"),
        ("NOT x IS NULL", "x IS NOT NULL"),
        ("NOT (a = 1 AND b < 2)", "a <> 1 OR b >= 2"),
        ("NOT (a = 1 OR b < 2 AND c = 3)", "a <> 1 AND (b >= 2 OR c <> 3)"),
        ("((a = 1))", "a = 1"),
        ("a = 1 AND (b = 2 AND c = 3)", "a = 1 AND b = 2 AND c = 3"),
        ("a = 1 OR (b = 2 OR c = 3)", "a = 1 OR b = 2 OR c = 3"),
        ("a = 1 AND a = 1", "a = 1"),
        ("a = 1 OR a = 1 OR b = 2 OR a = 1", "a = 1 OR b = 2"),
        ("a = 1 OR b = 2 AND c = 3", "a = 1 OR (b = 2 AND c = 3)"),
        ("NOT a = 1 AND b = 2", "(NOT a = 1) AND b = 2"),
    ],
)
def test_what_says_the_same_becomes_the_same_tree(text: str, same: str) -> None:
    assert Filter.parse(text) == Filter.parse(same)
    assert hash(Filter.parse(text)) == hash(Filter.parse(same))


def test_and_binds_tighter_than_or() -> None:
    a, b, c = (Comparison(name, "=", 1) for name in "abc")
    assert tree("a = 1 OR b = 1 AND c = 1") == Or((a, And((b, c))))
    assert tree("(a = 1 OR b = 1) AND c = 1") == And((Or((a, b)), c))


def test_lists_patterns_and_presence_are_read() -> None:
    assert tree("x IN ('a', 2, TRUE)") == Membership("x", ("a", 2, True))
    assert tree("x NOT IN (1, 2)") == Membership("x", (1, 2), negated=True)
    assert tree("x LIKE 'a%'") == Like("x", Pattern.prefix("a"))
    assert tree("x NOT LIKE '%a'") == Like("x", Pattern.suffix("a"), negated=True)
    assert tree("x LIKE '%a%'") == Like("x", Pattern.containing("a"))
    assert tree("x IS NULL") == Presence("x", present=False)
    assert tree("x is not null") == Presence("x")


def test_true_is_not_one() -> None:
    assert Filter.parse("x = 1") != Filter.parse("x = TRUE")
    assert Filter.parse("x IN (1, 2)") != Filter.parse("x IN (TRUE, 2)")
    assert Filter.parse("x = 1") == Filter.parse("x = 1.0")


def test_a_filter_is_unequal_to_anything_else() -> None:
    other: object = "x = 1"
    assert Filter.parse("x = 1") != other
    assert Filter.parse("x = 1") != Filter.parse("x = '1'")


BROKEN = [
    # an operand that is none
    ("active", 7, "expected an operator after 'active', found the end; to ask whether it is true, write active = TRUE"),
    ("active AND x = 1", 8, "found 'AND'; to ask whether it is true, write active = TRUE"),
    ("(active)", 8, "found ')'; to ask whether it is true, write active = TRUE"),
    ("NOT active", 11, "write active = TRUE"),
    ("TRUE", 1, "expected an attribute, found 'TRUE'; an empty filter matches everything"),
    ("5", 2, "expected a comparison operator after '5', found the end"),
    ("5 IN (5)", 3, "expected a comparison operator after '5', found 'IN'"),
    ("1 = 1", 5, "expected an attribute, found '1': one side of a comparison is an attribute"),
    ("1 = AND", 5, "expected an attribute, found 'AND'"),
    ("a = b", 5, "expected a literal, found 'b'; a text is written in single quotes: 'b'"),
    ('symbol = "YHOO"', 10, "a text is written in single quotes: 'YHOO'"),
    ("a =", 4, "expected a literal, found the end"),
    ("a =  \n", 4, "expected a literal, found the end"),
    ("a = AND b = 1", 5, "expected a literal, found 'AND'"),
    ("a = NULL", 5, "nothing is equal to NULL; write IS NULL or IS NOT NULL"),
    ("a IN (1, NULL)", 10, "write IS NULL"),
    ("flag > TRUE", 8, "'TRUE' has no order: only = and <> compare with it"),
    ("FALSE <= flag", 1, "'FALSE' has no order"),
    ("flag BETWEEN FALSE AND TRUE", 14, "'FALSE' has no order"),
    # operators
    ("a => 1", 3, "unknown operator '=>'; write >="),
    ("a =< 1", 3, "unknown operator '=<'; write <="),
    ("a === 1", 3, "unknown operator '==='; write ="),
    ("a ^ 1", 3, "unknown operator '^'"),
    ("a = 1 && b = 2", 7, "expected AND, OR or the end, found '&&'; write AND"),
    ("a = 1 || b = 2", 7, "write OR"),
    ("!a = 1", 1, "expected an attribute, found '!'; write NOT"),
    ("a 5", 3, "expected an operator after 'a', found '5'"),
    ("a b = 1", 3, "expected an operator after 'a', found 'b'"),
    ("a NOT = 1", 7, "expected BETWEEN, IN or LIKE after NOT, found '='"),
    ("a IS 5", 6, "expected NULL or NOT NULL, found '5'"),
    ("a IS NOT 5", 10, "expected NULL, found '5'"),
    ("1 < x < 5", 7, "expected AND, OR or the end, found '<'"),
    # structure
    ("a = 1 b = 2", 7, "expected AND, OR or the end, found 'b'"),
    ("(a = 1", 7, "expected AND, OR or ')', found the end"),
    ("a = 1)", 6, "expected AND, OR or the end, found ')'"),
    ("a = 1 AND", 10, "expected an attribute, found the end"),
    ("a = 1 OR AND", 10, "expected an attribute, found 'AND'"),
    ("()", 2, "expected an attribute, found ')'"),
    ("AND", 1, "expected an attribute, found 'AND'"),
    # BETWEEN, IN, LIKE
    ("a BETWEEN 1", 12, "expected AND between the two ends of BETWEEN, found the end"),
    ("a BETWEEN 1 OR 2", 13, "expected AND between the two ends of BETWEEN, found 'OR'"),
    ("a BETWEEN 1 AND 'b'", 17, "both ends of BETWEEN have to be of one type, and 'b' is of another"),
    ("a IN 1", 6, "expected '(' and the values of IN, found '1'"),
    ("a IN ()", 7, "expected a literal, found ')'"),
    ("a IN (1,)", 9, "expected a literal, found ')'"),
    ("a IN (1 2)", 9, "expected ',' or ')', found '2'"),
    ("a LIKE 5", 8, "expected a pattern in single quotes such as 'abc%', found '5'"),
    ("a LIKE 'x' ESCAPE 5", 19, "expected a character in single quotes, found '5'"),
    ("a LIKE 'x' ESCAPE '!!'", 19, "ESCAPE names a single character, found '!!'"),
    ("a LIKE 'x!y' ESCAPE '!'", 10, "the escape character ! stands only before %, _ or itself"),
    ("a LIKE '''!' ESCAPE '!'", 11, "the escape character ! stands only before %, _ or itself"),
    # tokens
    ("a = 'abc", 5, "this text never ends: there is no closing '"),
    ("a = 'abc''", 5, "this text never ends"),
    ('"abc = 1', 1, 'this name never ends: there is no closing "'),
    ("a = \u2018b\u2019", 5, "write texts in straight single quotes"),
    ("a . b = 1", 3, "a path is written without spaces around its dots"),
    ("a = 1;", 6, "a filter ends without a semicolon"),
    ("a = - 5", 5, "a minus stands directly before its number"),
    ("a = 5abc", 5, "'5abc' is no number; as a name it would be written \"5abc\""),
    ("a = 1.2.3", 5, "'1.2.3' is no number"),
    ("a # 1", 3, "no filter contains the character '#' here"),
    (f"{'a-' * 50}a = 1", 1, f"found '{'a-' * 18}a...'; a name with"),
    ("my-name = 1", 1, 'a name with a hyphen is written in double quotes: "my-name"'),
    ("a = 1 AND my-name = 1", 11, '"my-name"'),
    ("a = 1e999", 5, "the number 1e999 is too large"),
    ("a = '\ud800'", 6, "lone surrogates"),
    ("a = " + "9" * (DIGITS_MAX + 1), 5, f"an integer has at most {DIGITS_MAX} digits"),
]


@pytest.mark.parametrize(("text", "column", "words"), BROKEN)
def test_a_broken_filter_is_refused_at_its_mistake(text: str, column: int, words: str) -> None:
    with pytest.raises(FilterError) as caught:
        Filter.parse(text)
    assert (words in caught.value.problem, caught.value.column) == (True, column), str(caught.value)
    assert caught.value.text == text


def refusal(text: str) -> FilterError:
    with pytest.raises(FilterError) as caught:
        Filter.parse(text)
    return caught.value


def test_a_long_text_is_refused() -> None:
    fits = "a = '" + "x" * (TEXT_MAX - 6) + "'"
    assert str(Filter.parse(fits)) == fits
    error = refusal(fits + " ")
    assert error.column == TEXT_MAX + 1
    assert f"at most {TEXT_MAX} characters" in error.problem


def test_a_text_that_grows_too_long_in_canonical_form_is_refused() -> None:
    error = refusal("x" * (TEXT_MAX // 2) + " BETWEEN 1 AND 5")
    assert "in its canonical form" in error.problem
    values = ",".join(f"1.{number}e22" for number in range(100, 900))
    error = refusal(f"a IN ({values})")
    assert "in its canonical form" in error.problem


def test_deep_nesting_is_refused() -> None:
    assert Filter.parse("(" * DEPTH_MAX + "a = 1" + ")" * DEPTH_MAX) == Filter.parse("a = 1")
    error = refusal("(" * (DEPTH_MAX + 1) + "a = 1" + ")" * (DEPTH_MAX + 1))
    assert error.column == DEPTH_MAX + 1
    assert f"at most {DEPTH_MAX} deep" in error.problem
    assert "deep" in refusal("NOT " * (DEPTH_MAX + 1) + "a = 1").problem
    assert "deep" in refusal("(" * 4000 + "a = 1").problem


def test_the_deepest_filter_parses_again_from_its_canonical_text() -> None:
    # Every second level is an OR in an AND, which is where the canonical text needs its parentheses.
    text = deepest = "x NOT BETWEEN 1 AND 2"
    for level in range(DEPTH_MAX):
        text = f"a{level} = 1 AND ({text})" if level % 2 else f"a{level} = 1 OR ({text})"
        if level == 39:
            assert "multiplied out" in refusal(text).problem
            break
        deep = Filter.parse(text)
        deepest = str(deep)
        assert Filter.parse(deepest) == deep
    assert 10 < deepest.count("(") < DEPTH_MAX // 2


def test_nesting_side_by_side_is_not_deep() -> None:
    text = " AND ".join(["(a = 1)", "NOT b = 1", "c BETWEEN 1 AND 2"] * (DEPTH_MAX + 1))
    assert len(Filter.parse(text).conjunctions) == 1


def test_a_long_list_is_refused() -> None:
    values = [str(number) for number in range(VALUES_MAX + 1)]
    assert Filter.parse(f"a IN ({','.join(values[:-1])})").matches({"a": VALUES_MAX - 1})
    error = refusal(f"a IN ({','.join(values)})")
    assert f"at most {VALUES_MAX} values" in error.problem


def test_not_explodes_as_its_opposite_does() -> None:
    pairs = [f"a{number} = 1 AND b{number} = 1" for number in range(7)]
    assert len(Filter.parse(" OR ".join(pairs)).conjunctions) == 7
    error = refusal(f"NOT ({' OR '.join(pairs)})")
    assert "multiplied out, this filter has 128 alternatives, at most 64 may be" in error.problem
    error = refusal(f"NOT ({' OR '.join(pairs[:6])})")
    assert "multiplied out, this filter has 384 predicates, at most 256 may be" in error.problem
    assert len(Filter.parse(f"NOT ({' OR '.join(pairs[:5])})").conjunctions) == 32


def test_a_list_is_one_predicate_negated_or_not() -> None:
    values = ",".join(str(number) for number in range(VALUES_MAX))
    assert len(Filter.parse(f"NOT a IN ({values})").conjunctions) == 1
    assert len(Filter.parse(f"NOT (a IN ({values}) AND b NOT IN (1, 2))").conjunctions) == 2


def test_an_exploding_filter_is_refused_with_advice() -> None:
    text = " AND ".join(f"(a{number} = 1 OR b{number} = 1)" for number in range(7))
    error = refusal(text)
    assert "multiplied out, this filter has 128 alternatives, at most 64 may be" in error.problem
    assert "write IN (...)" in error.problem
    assert (
        "over a million"
        in refusal(
            text
            + " AND "
            + text.replace("a", "c").replace("b", "d") * 1
            + " AND "
            + text.replace("a", "e").replace("b", "f")
        ).problem
    )
    six = " AND ".join(f"(a{number} = 1 OR b{number} = 1)" for number in range(6))
    assert "384 predicates, at most 256 may be" in refusal(six).problem


@pytest.mark.parametrize(
    ("triples", "same"),
    [
        (
            "[class,eq,'STOCK'],[symbol,eq,'YHOO'],[volume,>,300000]",
            "class = 'STOCK' AND symbol = 'YHOO' AND volume > 300000",
        ),
        (
            "[class,=,'LOCAL_PIE'],[cluster,=,'C1'],[input,<,0.5]",
            "class = 'LOCAL_PIE' AND cluster = 'C1' AND input < 0.5",
        ),
        ("[a,neq,1]", "a <> 1"),
        ("[a,<>,1]", "a <> 1"),
        ("[a,!=,1]", "a <> 1"),
        ("[a,<=,1],[a,>=,-1]", "a <= 1 AND a >= -1"),
        (
            "[open,isPresent,0],[date,ISPRESENT,'00-00-00'],[x,isPresent],[y,isPresent,*]",
            "open IS NOT NULL AND date IS NOT NULL AND x IS NOT NULL AND y IS NOT NULL",
        ),
        ("[class,=,*]", "class IS NOT NULL"),
        ("[a,str-prefix,'ab']", "a LIKE 'ab%'"),
        ("[a,str-suffix,'ab']", "a LIKE '%ab'"),
        ("[a,str-postfix,'ab']", "a LIKE '%ab'"),
        ("[a,str-contains,'ab']", "a LIKE '%ab%'"),
        ("[a,str-contains,'']", "a LIKE '%'"),
        ("[a,str-prefix,'50%_']", r"a LIKE '50\%\_%' ESCAPE '\'"),
        ("[a,=,TRUE]", "a = TRUE"),
        (' [ "weird name" , eq , 5 ] , \n [a.b,<,5] ', '"weird name" = 5 AND a.b < 5'),
    ],
)
def test_the_triples_of_the_papers_are_read(triples: str, same: str) -> None:
    assert Filter.parse(triples) == Filter.parse(same)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("[class,'STOCK']", 8, "expected one of the operators eq, neq, ="),
        ("[a,str-infix,'x']", 4, "str-contains, found 'str-infix'"),
        ("[a]", 3, "expected ',' and an operator, found ']'"),
        ("[a,eq]", 6, "expected ',' and a value, found ']'"),
        ("[a,eq,STOCK]", 7, "a text is written in single quotes: 'STOCK'"),
        ("[a,eq,NULL]", 7, "write IS NULL"),
        ("[a,<,*]", 6, "expected a literal, found '*'"),
        ("[a,>,TRUE]", 6, "has no order"),
        ("[a,str-prefix,5]", 15, "expected a text in single quotes, found '5'"),
        ("[a,str-prefix]", 14, "expected ',' and a text, found ']'"),
        ("[a,isPresent,b]", 14, "expected a literal"),
        ("[a,eq,1", 8, "expected ']', found the end"),
        ("[a,eq,1],", 10, "expected '[' and a triple such as [volume,>,300000], found the end"),
        ("[a,eq,1] [b,eq,1]", 10, "expected ',' and a triple, or the end, found '['"),
        ("[a,eq,1] AND b = 1", 10, "expected ',' and a triple, or the end, found 'AND'"),
        ("[5,eq,1]", 2, "expected an attribute, found '5'"),
        ("[a,", 4, "found the end"),
    ],
)
def test_a_broken_triple_is_refused_at_its_mistake(text: str, column: int, words: str) -> None:
    error = refusal(text)
    assert (words in error.problem, error.column) == (True, column), str(error)
