"""Reading TOML tables into typed structures, with every mistake explained and not only the first.

Places are written as people count: `brokers#2.port` is the key `port` of the second `[[brokers]]`.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Struct

from mqloom.core.errors import ConfigurationError

Kind = TypeVar("Kind", bound=Struct)


class ReadTable(NamedTuple, Generic[Kind]):
    """One table of an array: where it stands, what could be read of it, and whether all of it could."""

    place: str
    table: Kind | None
    sound: bool


def read_toml(path: Path) -> dict[str, object]:
    """Return the document in a file; raises ConfigurationError if there is none, or it is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        problem = "there is no such file; `mqloom init` writes a commented starter"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text (byte {error.start + 1})"
    except tomllib.TOMLDecodeError as error:
        problem = f"the file is not TOML: {error}"
    raise ConfigurationError(str(path), (problem,))


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint at the known word nearest to a mistaken one, or at all of them."""
    names = sorted(set(known))
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(map(repr, names))}" if names else "none is known"


def read_table(kind: type[Kind], table: object, place: str, problems: list[str]) -> Kind | None:
    """Return the structure in a table, adding every mistake to `problems`.

    What can be used is returned in spite of mistakes, so that the rest can be checked too: an optional value that is
    wrong has its default then. Without a required value there is nothing to return but None.
    """
    if not isinstance(table, Mapping):
        problems.append(f"{place}: must be a table, written [{place}], not {_toml_type(table)}")
        return None
    known = msgspec.structs.fields(kind)
    hints = get_type_hints(kind, include_extras=True)
    names = [field.encode_name for field in known]
    problems += [_say(place, f"unknown key {key!r}; {nearest(key, names)}") for key in table if key not in names]
    values: dict[str, object] = {}
    usable = True
    for field in known:
        key = field.encode_name
        required = field.default is NODEFAULT and field.default_factory is NODEFAULT
        if key in table:
            try:
                values[field.name] = msgspec.convert(table[key], hints[field.name])
                continue
            except msgspec.ValidationError as error:
                problems.append(_explain(key_place(place, key), error, hints[field.name]))
        elif required:
            problems.append(_say(place, f"key {key!r} is missing"))
        usable = usable and not required
    return kind(**values) if usable else None


def read_tables(kind: type[Kind], tables: object, name: str, problems: list[str]) -> list[ReadTable[Kind]]:
    """Return an entry for each table of an array, also for those with mistakes."""
    if not isinstance(tables, list):
        problems.append(f"{name}: must be an array of tables, each written [[{name}]], not {_toml_type(tables)}")
        return [ReadTable(name, None, sound=False)]
    entries = []
    for number, table in enumerate(tables, 1):
        found: list[str] = []
        place = f"{name}#{number}"
        entries.append(ReadTable(place, read_table(kind, table, place, found), not found))
        problems += found
    return entries


def explain_settings(kind: type[Struct], settings: Mapping[str, object]) -> list[str]:
    """Return every mistake in a plugin's settings: what a plugin answers to the hook `mqloom_check`."""
    problems: list[str] = []
    read_table(kind, settings, "", problems)
    return problems


def key_place(place: str, key: str) -> str:
    """Return the place of a key in a table."""
    return f"{place}.{key}" if place else key


def _say(place: str, problem: str) -> str:
    return f"{place}: {problem}" if place else problem


_COMPLAINT = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)

_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "text",
    "datetime": "a date and time",
    "date": "a date",
    "time": "a time",
}


def _explain(place: str, error: msgspec.ValidationError, kind: object) -> str:
    """Say msgspec's complaint in the configuration's words, for instance `data#2: expected text, got a number`."""
    complaint = _COMPLAINT.fullmatch(str(error))
    assert complaint is not None
    what = re.sub(r"`(\w+(?: \| \w+)*)`", _in_words, complaint["what"])
    what = re.sub(r"of length >= 1$", "that is not empty", what)
    for theirs, ours in (("of length >=", "of at least"), ("of length <=", "of at most")):
        unit = "characters" if "text" in what else "items"
        what = re.sub(rf"{theirs} (\d+)", rf"{ours} \1 {unit}", what)
    if what.startswith("Invalid enum value"):
        wrong = what.removeprefix("Invalid enum value ")
        what = f"there is no {wrong}; it is one of {', '.join(repr(each) for each in _choices(kind))}"
    # An index counts from 0 there; `[...]` is some value of a table.
    path = re.sub(r"\[(\d+)\]", lambda index: f"#{int(index[1]) + 1}", complaint["path"] or "").replace("[...]", ".*")
    return f"{place}{path}: {what[0].lower()}{what[1:]}"


def _choices(kind: object) -> list[object]:
    """Return the values that a type lists, wherever in it."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [each for part in get_args(kind) for each in _choices(part)]


def _in_words(kinds: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds[1].split(" | "))


def _toml_type(value: object) -> str:
    names = {bool: "bool", int: "float", float: "float", str: "str", list: "array", dict: "object"}
    return _WORDS[names.get(type(value), type(value).__name__)]
