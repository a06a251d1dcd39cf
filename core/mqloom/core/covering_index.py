"""A set of subscriptions that finds one that covers another, and all that another covers.

Most of them are ruled out without being looked at: by their topics (`TopicTree`), by the forms of their filters, by
the values of those attributes that have to have one value, and by the bounds of the others (`Dominance`). Only what is
left is compared in full.
"""

from collections.abc import Iterator
from typing import Final

from mqloom.core.dominance import Dominance
from mqloom.core.filter import Form, Outline, Scalar
from mqloom.core.subscription import Subscription
from mqloom.core.topic_tree import TopicTree

FORMS_REMEMBERED_MAX: Final = 1_000
"""For how many forms it is remembered which others can hold them; then it is found out anew."""

_Values = tuple[Scalar | None, ...]


class CoveringIndex:
    """Subscriptions, each once."""

    def __init__(self) -> None:
        self._topics = TopicTree()
        self._topics_used: dict[str, int] = {}
        self._cells = _Shelves()
        self._witnesses = _Shelves()
        self._numbers: dict[Subscription, int] = {}
        self._last_number = 0

    def add(self, subscription: Subscription) -> None:
        """Take in a subscription that is not there."""
        assert subscription not in self._numbers
        self._last_number += 1
        self._numbers[subscription] = self._last_number
        topics = subscription.topics
        used = self._topics_used[topics] = self._topics_used.get(topics, 0) + 1
        if used == 1:
            self._topics.add(topics)
        for cell in subscription.where.cells:
            self._cells.add(cell, self._last_number, subscription)
        self._witnesses.add(subscription.where.witness, self._last_number, subscription)

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription that is there."""
        number = self._numbers.pop(subscription)
        topics = subscription.topics
        self._topics_used[topics] -= 1
        if not self._topics_used[topics]:
            del self._topics_used[topics]
            self._topics.remove(topics)
        for cell in subscription.where.cells:
            self._cells.remove(cell, number, topics)
        self._witnesses.remove(subscription.where.witness, number, topics)

    def find_covering(self, subscription: Subscription) -> Subscription | None:
        """Return one that covers the subscription, or None."""
        where = subscription.where
        covering = self._topics.covering(subscription.topics)
        for shelf in self._cells.wider(where.witness.form) if covering else ():
            for topics in covering:
                for candidate in shelf.around(topics, where.witness):
                    if candidate.where.covers(where):
                        return candidate
        return None

    def find_covered(self, subscription: Subscription) -> list[Subscription]:
        """Return all that the subscription covers."""
        where = subscription.where
        covered = self._topics.covered(subscription.topics)
        found: dict[Subscription, None] = {}
        for cell in where.cells if covered else ():
            for shelf in self._witnesses.narrower(cell.form):
                for topics in shelf.of(covered):
                    candidates = shelf.within(topics, cell)
                    found.update((candidate, None) for candidate in candidates if where.covers(candidate.where))
        return list(found)

    def __len__(self) -> int:
        return len(self._numbers)


class _Shelves:
    """Outlines by their forms."""

    def __init__(self) -> None:
        self._shelves: dict[Form, _Shelf] = {}
        self._leading: dict[str | None, dict[_Shelf, None]] = {}  # by one path of the form, the rarest; None: no path
        self._mentioning: dict[str | None, dict[_Shelf, None]] = {}  # by every path of it
        self._wider: dict[Form, list[_Shelf]] = {}
        self._narrower: dict[Form, list[_Shelf]] = {}

    def add(self, outline: Outline, number: int, subscription: Subscription) -> None:
        shelf = self._shelves.get(outline.form) or self._put_up(outline.form)
        shelf.add(outline, number, subscription)

    def remove(self, outline: Outline, number: int, topics: str) -> None:
        shelf = self._shelves[outline.form]
        shelf.remove(outline, number, topics)
        if not shelf.by_topics:
            self._take_down(shelf)

    def wider(self, form: Form) -> "list[_Shelf]":
        """Return the shelves of those forms that may hold the given one."""
        known = self._wider.get(form)
        if known is None:
            if form.empty:
                candidates = list(self._shelves.values())
            else:
                candidates = [shelf for path in (None, *form.by_path) for shelf in self._leading.get(path, ())]
            # Those that ask least come first: they cover most.
            candidates.sort(key=lambda shelf: len(shelf.form.traits))
            known = [shelf for shelf in candidates if shelf.form.may_hold(form)]
            _remember(self._wider, form, known)
        return known

    def narrower(self, form: Form) -> "list[_Shelf]":
        """Return the shelves of those forms that the given one may hold."""
        known = self._narrower.get(form)
        if known is None:
            if form.traits:
                rarest = min((self._mentioning.get(path, {}) for path in form.by_path), key=len)
                # What nothing matches mentions nothing.
                candidates = [*rarest, *self._leading.get(None, ())]
            else:
                candidates = list(self._shelves.values())
            known = [shelf for shelf in candidates if form.may_hold(shelf.form)]
            _remember(self._narrower, form, known)
        return known

    def _put_up(self, form: Form) -> "_Shelf":
        paths = form.by_path
        lead = min(paths, key=lambda path: len(self._mentioning.get(path, ())), default=None)
        shelf = self._shelves[form] = _Shelf(form, lead)
        self._leading.setdefault(lead, {})[shelf] = None
        for path in paths:
            self._mentioning.setdefault(path, {})[shelf] = None
        self._forget()
        return shelf

    def _take_down(self, shelf: "_Shelf") -> None:
        del self._shelves[shelf.form]
        for table, paths in ((self._leading, [shelf.lead]), (self._mentioning, [*shelf.form.by_path])):
            for path in paths:
                del table[path][shelf]
                if not table[path]:
                    del table[path]
        self._forget()

    def _forget(self) -> None:
        self._wider.clear()
        self._narrower.clear()


class _Shelf:
    """The outlines of one form, by topics, then by the values of the attributes with one, then by bounds."""

    def __init__(self, form: Form, lead: str | None) -> None:
        self.form = form
        self.lead = lead
        self.by_topics: dict[str, dict[_Values, Dominance[Subscription]]] = {}

    def add(self, outline: Outline, number: int, subscription: Subscription) -> None:
        groups = self.by_topics.setdefault(subscription.topics, {})
        values = self.form.key(outline.spans)
        group = groups.get(values)
        if group is None:
            group = groups[values] = Dominance()
        group.add(self.form.point(outline.spans), number, subscription)

    def remove(self, outline: Outline, number: int, topics: str) -> None:
        groups = self.by_topics[topics]
        values = self.form.key(outline.spans)
        groups[values].remove(self.form.point(outline.spans), number)
        if not groups[values]:
            del groups[values]
            if not groups:
                del self.by_topics[topics]

    def of(self, topics: list[str]) -> list[str]:
        """Return those of the topic filters that are in use here."""
        if len(topics) <= len(self.by_topics):
            return [each for each in topics if each in self.by_topics]
        wanted = set(topics)
        return [each for each in self.by_topics if each in wanted]

    def around(self, topics: str, outline: Outline) -> Iterator[Subscription]:
        """Yield those whose outlines hold the given one, of a form that this form may hold."""
        groups = self.by_topics.get(topics)
        if groups is None:
            return
        if outline.form.empty:
            yield next(iter(groups.values())).any()
            return
        group = groups.get(self.form.key(outline.spans))
        if group is not None:
            yield from group.not_above(self.form.point(outline.spans))

    def within(self, topics: str, outline: Outline) -> Iterator[Subscription]:
        """Yield those whose witnesses, which stand here, lie in the outline; its form may hold this form."""
        groups, wide = self.by_topics[topics], outline.form
        if self.form.empty:
            chosen = list(groups.values())
        elif wide.values == self.form.values:
            group = groups.get(self.form.key(outline.spans))
            chosen = [] if group is None else [group]
        else:
            places = [self.form.values.index(path) for path in wide.values]
            wanted = [outline.spans[path].value for path in wide.values]
            chosen = [group for values, group in groups.items() if [values[place] for place in places] == wanted]
            for path in wide.bounds:
                if path in self.form.values:
                    low, high = outline.spans[path][3:5]
                    chosen = [group for group in chosen if _has_value_in(group, path, low, high)]
        point = self.form.point(outline.spans)
        for group in chosen:
            yield from group.not_below(point)


def _has_value_in(group: Dominance[Subscription], path: str, low: float, high: float) -> bool:
    span = group.any().where.witness.spans[path]
    return low <= span.low and span.high <= high


def _remember(table: dict[Form, list[_Shelf]], form: Form, shelves: list[_Shelf]) -> None:
    if len(table) >= FORMS_REMEMBERED_MAX:
        table.clear()
    table[form] = shelves
