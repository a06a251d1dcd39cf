from datetime import date
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from mqloom.core.errors import ConfigurationError
from mqloom.gateway.tables import ReadTable, explain_settings, nearest, read_table, read_tables, read_toml


class Shelf(Struct, frozen=True, kw_only=True):
    label: Annotated[str, Meta(min_length=1)]
    books: list[str] = []
    boards: Annotated[int, Meta(ge=1, le=9)] = 3
    height_m: float = 2.0
    lent: dict[str, dict[str, object]] = {}


def read(table: object) -> tuple[Shelf | None, list[str]]:
    problems: list[str] = []
    return read_table(Shelf, table, "shelf", problems), problems


def test_a_table_without_mistakes_is_read_with_its_defaults() -> None:
    assert read({"label": "a", "height_m": 3}) == (Shelf(label="a", height_m=3.0), [])


def test_an_unknown_key_is_told_with_the_nearest_known_one() -> None:
    assert read({"label": "a", "bords": 2})[1] == ["shelf: unknown key 'bords'; did you mean 'boards'?"]


def test_an_unknown_key_like_no_other_is_told_with_all_known_ones() -> None:
    (problem,) = read({"label": "a", "zzz": 2})[1]
    assert problem == "shelf: unknown key 'zzz'; known are 'boards', 'books', 'height_m', 'label', 'lent'"


def test_a_missing_key_leaves_nothing_to_use() -> None:
    assert read({}) == (None, ["shelf: key 'label' is missing"])


def test_a_wrong_required_value_leaves_nothing_to_use() -> None:
    assert read({"label": ""}) == (None, ["shelf.label: expected text that is not empty"])


def test_a_wrong_optional_value_is_told_and_has_its_default() -> None:
    assert read({"label": "a", "boards": "b"}) == (
        Shelf(label="a"),
        ["shelf.boards: expected a whole number, got text"],
    )


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"boards": True}, "shelf.boards: expected a whole number, got true or false"),
        ({"boards": 0}, "shelf.boards: expected a whole number >= 1"),
        ({"boards": 10}, "shelf.boards: expected a whole number <= 9"),
        ({"height_m": "tall"}, "shelf.height_m: expected a number, got text"),
        ({"books": "one"}, "shelf.books: expected a list, got text"),
        ({"books": ["one", 2]}, "shelf.books#2: expected text, got a whole number"),
        ({"books": [date(2026, 1, 1)]}, "shelf.books#1: expected text, got a date"),
        ({"lent": {"ann": 1}}, "shelf.lent.*: expected a table, got a whole number"),
    ],
)
def test_a_wrong_value_is_told_in_plain_words_with_its_place(table: dict[str, object], problem: str) -> None:
    assert read({"label": "a", **table})[1] == [problem]


def test_every_mistake_of_a_table_is_told() -> None:
    assert len(read({"boards": 0, "books": 1, "bok": 2})[1]) == 4


@pytest.mark.parametrize(
    ("value", "called"),
    [("x", "text"), (1, "a number"), (1.5, "a number"), (True, "true or false"), ([], "a list")],
)
def test_something_else_than_a_table_is_told(value: object, called: str) -> None:
    assert read(value) == (None, [f"shelf: must be a table, written [shelf], not {called}"])


def test_tables_are_numbered_from_one_and_keep_their_places() -> None:
    problems: list[str] = []
    entries = read_tables(Shelf, [{"label": "a"}, {}, {"label": "c", "x": 1}], "shelves", problems)
    assert entries == [
        ReadTable("shelves#1", Shelf(label="a"), sound=True),
        ReadTable("shelves#2", None, sound=False),
        ReadTable("shelves#3", Shelf(label="c"), sound=False),
    ]
    assert [problem.partition(":")[0] for problem in problems] == ["shelves#2", "shelves#3"]


def test_one_table_where_an_array_is_meant_is_told() -> None:
    problems: list[str] = []
    (entry,) = read_tables(Shelf, {"label": "a"}, "shelves", problems)
    assert entry.table is None
    assert problems == ["shelves: must be an array of tables, each written [[shelves]], not a table"]


def test_settings_are_explained_without_a_place() -> None:
    assert explain_settings(Shelf, {"label": "a"}) == []
    assert explain_settings(Shelf, {"label": 1, "book": []}) == [
        "unknown key 'book'; did you mean 'books'?",
        "label: expected text, got a whole number",
    ]


def test_the_nearest_word_among_none_is_none() -> None:
    assert nearest("a", []) == "none is known"


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_toml(path) == {"a": 1}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "there is no such file; `mqloom init` writes a commented starter"),
        (b"a = \n", "the file is not TOML: Invalid value (at line 1, column 5)"),
        (b"a = '\xff'\n", "is not UTF-8 text (byte 6)"),
    ],
)
def test_a_file_that_is_no_toml_is_told(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "a.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        read_toml(path)
    assert caught.value.source == str(path)
    assert caught.value.problems == (problem,)


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)
