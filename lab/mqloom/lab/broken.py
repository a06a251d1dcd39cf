"""Gateways broken on purpose: each forgets one thing that custody rests on, so that checkers can be seen to notice.

A variant is a name and a context manager that breaks the production parts while it is entered.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest import mock

from mqloom.core.ids import GatewayId, PublicationId, SubscriptionKey
from mqloom.core.messages import Announce, Withdraw
from mqloom.core.publication import Publication
from mqloom.core.seen import Seen
from mqloom.core.subscription import Subscription
from mqloom.gateway.announcements import Announcements
from mqloom.gateway.custody import Custody, Duty, Source
from mqloom.gateway.flows import Flow
from mqloom.gateway.marks import Marks
from mqloom.gateway.routes import Routes

Variant = Callable[[], AbstractContextManager[object]]


def _no_duplicate_removal() -> AbstractContextManager[object]:
    """Everything is new, to gateways and clients."""

    def earlier(self: Seen, publication: Publication) -> None:
        return None

    return mock.patch.object(Seen, "earlier", earlier)


def _acknowledges_on_receipt() -> AbstractContextManager[object]:
    """Whoever sent a publication is told at once that it is taken care of."""
    begin = Custody.begin

    def begin_and_tell(self: Custody, source: Source, id_: PublicationId | None = None) -> Duty:
        duty = begin(self, source, id_)
        self._met.append(source)
        duty.sources.clear()
        return duty

    return mock.patch.object(Custody, "begin", begin_and_tell)


def _forgets_what_is_parked() -> AbstractContextManager[object]:
    """What waits for a neighbour that is away is acknowledged, and not put anywhere."""

    def park(self: Flow) -> None:
        for entry in self._queue:
            if entry.duty is not None:
                self._deliveries.met(entry.duty)
        self._queue.clear()

    return mock.patch.object(Flow, "_park", park)


def _mark_runs_ahead() -> AbstractContextManager[object]:
    """The low-water mark is that of the newest publication, whatever became of those before."""
    return mock.patch.object(Marks, "low_water", property(lambda self: self._next))


def _mark_does_not_wait_for_the_broker() -> AbstractContextManager[object]:
    """The mark passes a publication when its acknowledgement is sent, not when the broker has read it."""
    acknowledge = Marks.acknowledge

    def acknowledge_and_close(self: Marks, sequences: Any) -> None:
        known = list(sequences)
        acknowledge(self, known)
        closed = {each for each in known if each in self._acknowledged}
        self._acknowledged -= closed
        self._closed |= closed

    return mock.patch.object(Marks, "acknowledge", acknowledge_and_close)


@contextlib.contextmanager
def _covers_without_anchors() -> Iterator[None]:
    """A subscription is withheld under whatever covers it, even if that came from the neighbour itself."""
    add = Routes.add

    def add_covered(self: Routes, key: SubscriptionKey, subscription: Subscription, source: GatewayId | None) -> bool:
        covering = [entry.source for entry in self._entries.values() if entry.subscription.covers(subscription)]
        hidden = {name: self._announcements[name] for name in covering if name is not None and name != source}
        for name, announcements in hidden.items():
            self._announcements[name] = _Withholding(announcements)
        try:
            return add(self, key, subscription, source)
        finally:
            self._announcements.update(hidden)

    with mock.patch.object(Routes, "add", add_covered):
        yield


class _Withholding(Announcements):
    """Takes a wish in without a word, as if it were answered."""

    def __init__(self, real: Announcements) -> None:
        self.__dict__ = real.__dict__

    def add(self, key: SubscriptionKey, wish: Subscription) -> list[Announce | Withdraw]:
        """Say nothing."""
        said: Sequence[Announce | Withdraw] = super().add(key, wish)
        for message in said:
            self._established[message.key] = True
        return []


VARIANTS: Final[dict[str, Variant]] = {
    "no duplicate removal": _no_duplicate_removal,
    "acknowledging on receipt": _acknowledges_on_receipt,
    "forgetting parked publications": _forgets_what_is_parked,
    "a low-water mark that runs ahead": _mark_runs_ahead,
    "a low-water mark that does not wait for the broker": _mark_does_not_wait_for_the_broker,
    "covering without anchors": _covers_without_anchors,
}
"""Each with its name."""
