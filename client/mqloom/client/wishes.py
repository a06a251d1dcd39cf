"""What a subscriber wants, by name, and what the gateway has said of each."""

from collections.abc import Mapping
from enum import Enum, auto

from mqloom.client.limits import GONE_MAX
from mqloom.core.limits import RECORD_SUBSCRIPTIONS_MAX
from mqloom.core.records import Answer, Wish


class WishState(Enum):
    """What the gateway has said of one subscription; one that is ENDING is no longer wanted, and still delivers."""

    OPEN = auto()
    ESTABLISHED = auto()
    REFUSED = auto()
    ENDING = auto()


class Wishes:
    """The subscriptions of one client; what was refused is not asked for again unless it is added again.

    A lasting client gets its wishes only when it runs. What its session has kept for it since an earlier life comes
    before it has named them again; so everything is wanted that was not removed in this life.
    """

    def __init__(self, wishes: Mapping[str, Wish], *, lasting: bool = False) -> None:
        self._wishes = dict(wishes)
        self._standings = dict.fromkeys(wishes, WishState.OPEN)
        self._end_by: dict[str, float] = {}  # those that are ENDING
        self._partly: set[str] = set()  # ESTABLISHED, but not with every gateway
        self._lasting = lasting
        self._gone: dict[str, None] = {}  # the newest that were removed and have ended

    def wants(self, name: str) -> bool:
        """Whether what comes by this name is to be delivered."""
        return name in self._wishes or (self._lasting and name not in self._gone)

    def __bool__(self) -> bool:
        return bool(self._wishes)

    def knows(self, answer: Answer) -> bool:
        """Whether an answer can be about these: one without a name is about the whole record."""
        return answer.name in self._wishes if answer.name else answer.answer != "established"

    def asked(self) -> dict[str, Wish]:
        """Return what a record is to ask for: all that is wanted and was not refused."""
        unwanted = (WishState.REFUSED, WishState.ENDING)
        return {name: wish for name, wish in self._wishes.items() if self._standings[name] not in unwanted}

    def has(self, name: str) -> bool:
        """Whether this one is wanted, or is ending."""
        return name in self._wishes

    def copy(self) -> dict[str, Wish]:
        """Return what is wanted, by name."""
        return {name: wish for name, wish in self._wishes.items() if not self.is_ending(name)}

    def add(self, name: str, wish: Wish) -> None:
        """One more is wanted, or another under this name, or the same once more: it is asked for, and answered."""
        self.forget(name)
        self._gone.pop(name, None)
        self._wishes[name] = wish
        self._standings[name] = WishState.OPEN

    def adopt(self, wishes: Mapping[str, Wish]) -> dict[str, Wish]:
        """Take in what an earlier life wanted; return that. Of topics that this one has named it says itself what."""
        named = {wish.topics for wish in self._wishes.values()}
        room = max(0, RECORD_SUBSCRIPTIONS_MAX - len(self._wishes))
        new = [name for name, wish in wishes.items() if wish.topics not in named and name not in self._gone][:room]
        for name in new:
            self.add(name, wishes[name])
        return {name: wishes[name] for name in new}

    def remove(self, name: str, by: float) -> bool:
        """One is no longer wanted; return whether the gateway may have been asked for it, and can say when it ends."""
        if self._standings.get(name, WishState.REFUSED) is WishState.REFUSED:
            self.forget(name)
            return False
        self._standings[name] = WishState.ENDING
        self._end_by.setdefault(name, by)
        return True

    def remove_all(self, by: float) -> None:
        """Nothing is wanted any more."""
        for name in list(self._wishes):
            self.remove(name, by)

    def forget(self, name: str) -> None:
        """One has ended."""
        for each in (self._wishes, self._standings, self._end_by):
            each.pop(name, None)
        self._partly.discard(name)
        self._gone[name] = None
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def reopen(self) -> None:
        """All answers are to be given anew."""
        for name, standing in self._standings.items():
            if standing is WishState.ESTABLISHED:
                self._standings[name] = WishState.OPEN

    @property
    def end_by(self) -> float | None:
        """When the first end is overdue."""
        return min(self._end_by.values(), default=None)

    def overdue(self, now: float) -> list[str]:
        """Return the names whose end has not been answered in time."""
        return [name for name, by in self._end_by.items() if now >= by]

    def obey(self, answer: Answer, standing: WishState) -> list[str]:
        """Note a known answer as this standing; return the names for which that changes anything."""
        names = [answer.name] if answer.name else self.named(WishState.OPEN)
        settled = (standing, WishState.REFUSED, WishState.ENDING)
        changed = [name for name in names if self._standings[name] not in settled or self._is_completed(answer, name)]
        self._standings.update(dict.fromkeys(changed, standing))
        (self._partly.update if answer.partly else self._partly.difference_update)(changed)
        return changed

    def _is_completed(self, answer: Answer, name: str) -> bool:
        """Whether this says of one that was established partly that now it is so everywhere."""
        return answer.answer == "established" and not answer.partly and name in self._partly

    def is_ending(self, name: str) -> bool:
        """Whether this one is no longer wanted."""
        return self._standings.get(name) is WishState.ENDING

    def named(self, standing: WishState) -> list[str]:
        """Return the names of which the gateway has said this."""
        return [name for name, each in self._standings.items() if each is standing]

    def are_complete(self) -> bool:
        """Whether every one is established with every gateway, but for those that were refused, or are ending."""
        return not self._partly and self.are_answered()

    def are_answered(self) -> bool:
        """Whether nothing is open."""
        return WishState.OPEN not in self._standings.values()

    def are_refused(self) -> bool:
        """Whether nothing was granted."""
        return set(self._standings.values()) == {WishState.REFUSED}

    def are_ended(self) -> bool:
        """Whether nothing is there any more but what was refused."""
        return set(self._standings.values()) <= {WishState.REFUSED}
