"""A set of topic filters that answers which of them cover a given one, and which are covered by it.

The filters stand in a tree, level below level. To find those that cover `a/b` one follows at each level the level
itself and `+`, and takes every `#` on the way; to find those that `a/+` covers one follows `a` and then everything.
"""

from collections.abc import Iterable

from mqloom.core.topics import filter_levels


class _Branch:
    __slots__ = ("below", "topics")

    def __init__(self) -> None:
        self.below: dict[str, _Branch] = {}
        self.topics: dict[str, None] = {}  # several filters can say the same, as # and +/# do


class TopicTree:
    """Topic filters, each once."""

    def __init__(self) -> None:
        self._root = _Branch()

    def add(self, topics: str) -> None:
        """Take in a topic filter; nothing happens if it is there."""
        branch = self._root
        for level in filter_levels(topics):
            branch = branch.below.setdefault(level, _Branch())
        branch.topics[topics] = None

    def remove(self, topics: str) -> None:
        """Remove a topic filter that is there."""
        levels = filter_levels(topics)
        way = [self._root]
        for level in levels:
            way.append(way[-1].below[level])
        del way[-1].topics[topics]
        while levels and not way[-1].topics and not way[-1].below:
            way.pop()
            del way[-1].below[levels.pop()]

    def covering(self, topics: str) -> list[str]:
        """Return the filters that match all topics that `topics` matches."""
        levels = filter_levels(topics)
        ends: list[_Branch] = []
        branches = [self._root]
        for index, level in enumerate(levels):
            ends += _those(branches, ["#"])
            # Wildcards on the first level do not stand for what begins with $.
            plus = ["+"] if index or topics[0] != "$" else []
            branches = _those(branches, plus if level == "+" else [level, *plus]) if level != "#" else []
            if index == 0 and topics[0] == "$":
                ends = []
        return _topics([*ends, *branches, *_those(branches, ["#"])])

    def covered(self, topics: str) -> list[str]:
        """Return the filters all of whose topics `topics` matches."""
        branches = [self._root]
        for index, level in enumerate(filter_levels(topics)):
            if level == "#":
                return _topics(_with_all_below(branches))
            if level == "+":
                branches = [
                    below
                    for branch in branches
                    for name, below in branch.below.items()
                    if name != "#" and (index or name[:1] != "$")
                ]
            else:
                branches = _those(branches, [level])
        return _topics(branches)


def _those(branches: Iterable[_Branch], names: list[str]) -> list[_Branch]:
    return [branch.below[name] for branch in branches for name in names if name in branch.below]


def _with_all_below(branches: list[_Branch]) -> list[_Branch]:
    found = list(branches)
    for branch in found:  # grows meanwhile
        found += branch.below.values()
    return found


def _topics(branches: Iterable[_Branch]) -> list[str]:
    return [topics for branch in branches for topics in branch.topics]
