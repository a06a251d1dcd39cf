"""What dicts are asked for: values as keys, and signatures.

A signature is the sorted tuple of the parts that a group of conjunctions tests for equality. A part is the whole value
of an attribute, or the first or last characters of it: `LIKE 'ab%'` is an equality too.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

from mqloom.core.filter import Pattern
from mqloom.core.filter.patterns import ANY

N = TypeVar("N")

Get = Callable[[str], object]
"""Returns the value at a path, or None."""

Part = tuple[str, int]
"""A path; and how many characters count: 0 all, else the first so many, or if negative the last."""

Signature = tuple[Part, ...]

SCALARS: Final = frozenset((str, int, float))
"""The types whose values are their own keys. Python takes 1 for 1.0, as filters do, but also for True."""

_OWN_KEYS: Final = SCALARS | {type(None)}
_TRUE: Final = object()
_FALSE: Final = object()
_NO_KEY: Final = object()
_LENGTHS: Final = (64, 48, 32, 24, 16, 12, 8)


def key_of(value: object) -> Hashable:
    """Return what stands for a value in a dict: equal for two values just if the filter language calls them equal."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    # An IntEnum is equal to its number, but has another hash.
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return _NO_KEY


def pattern_part(path: str, pattern: Pattern) -> tuple[Part, str, bool] | None:
    """Return the part by which matches of a pattern can be found, its key, and whether that says it all; or None."""
    head, tail = pattern.head, pattern.tail
    length = _kept(max(len(head), len(tail)))
    if not length:
        return None
    if len(head) >= len(tail):
        return (path, length), head[:length], pattern.code == head[:length] + ANY
    return (path, -length), tail[-length:], pattern.code == ANY + tail[-length:]


def _kept(length: int) -> int:
    """Return how many characters make the key: few different lengths mean few lookups."""
    return next((kept for kept in _LENGTHS if kept <= length), length)


def finder(signature: Signature, find: Callable[[Hashable], N | None]) -> Callable[[Get], N | None]:
    """Return the function that finds what is kept for a publication. `find` takes one key, or a tuple of several."""
    if any(length for _, length in signature) or len(signature) > 2:
        return _by_parts(signature, find)
    paths = [path for path, _ in signature]
    return _by_one(paths[0], find) if len(paths) == 1 else _by_two(paths[0], paths[1], find)


def _by_one(path: str, find: Callable[[Hashable], N | None]) -> Callable[[Get], N | None]:
    def found(get: Get) -> N | None:
        value = get(path)
        return find(value if value.__class__ in SCALARS else key_of(value))

    return found


def _by_two(one: str, two: str, find: Callable[[Hashable], N | None]) -> Callable[[Get], N | None]:
    def found(get: Get) -> N | None:
        first, second = get(one), get(two)
        if first.__class__ in SCALARS and second.__class__ in SCALARS:
            return find((first, second))
        return find((key_of(first), key_of(second)))

    return found


def _by_parts(signature: Signature, find: Callable[[Hashable], N | None]) -> Callable[[Get], N | None]:
    def found(get: Get) -> N | None:
        keys: list[Hashable] = []
        for path, length in signature:
            value: Any = get(path)
            if value is None:
                return None
            if length:
                if not isinstance(value, str) or len(value) < abs(length):
                    return None
                keys.append(value[:length] if length > 0 else value[length:])
            else:
                keys.append(value if value.__class__ in SCALARS else key_of(value))
        return find(tuple(keys) if len(keys) > 1 else keys[0])

    return found


def values_key(paths: Sequence[str]) -> Callable[[Get], Hashable]:
    """Return the function that makes one key of a publication's values: equal if no predicate tells them apart."""
    if not paths:
        return _no_key
    if len(paths) == 1:
        return _value_key(paths[0])
    if len(paths) == 2:
        return _pair_key(*paths)
    if len(paths) == 3:
        return _triple_key(*paths)

    def key(get: Get) -> Hashable:
        values = [get(path) for path in paths]
        for value in values:
            if value.__class__ not in _OWN_KEYS:
                return tuple([value if value.__class__ in _OWN_KEYS else key_of(value) for value in values])
        return tuple(values)

    return key


def _no_key(_get: Get) -> Hashable:
    return ()


def _value_key(path: str) -> Callable[[Get], Hashable]:
    def key(get: Get) -> Hashable:
        value: Any = get(path)
        return value if value.__class__ in _OWN_KEYS else key_of(value)

    return key


def _pair_key(one: str, two: str) -> Callable[[Get], Hashable]:
    def key(get: Get) -> Hashable:
        first: Any = get(one)
        second: Any = get(two)
        if first.__class__ in _OWN_KEYS and second.__class__ in _OWN_KEYS:
            return first, second
        return tuple([value if value.__class__ in _OWN_KEYS else key_of(value) for value in (first, second)])

    return key


def _triple_key(one: str, two: str, three: str) -> Callable[[Get], Hashable]:
    def key(get: Get) -> Hashable:
        first: Any = get(one)
        second: Any = get(two)
        third: Any = get(three)
        if first.__class__ in _OWN_KEYS and second.__class__ in _OWN_KEYS and third.__class__ in _OWN_KEYS:
            return first, second, third
        return tuple([value if value.__class__ in _OWN_KEYS else key_of(value) for value in (first, second, third)])

    return key
