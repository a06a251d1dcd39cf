"""What a subscriber wants, by name, and what the gateway has said of each."""

from collections.abc import Mapping
from enum import Enum, auto

from mqloom.core.records import Answer, Record, Wish, encode_record


class WishState(Enum):
    """What the gateway has said of one subscription."""

    OPEN = auto()
    ESTABLISHED = auto()
    REFUSED = auto()
    ENDED = auto()


class Wishes:
    """The subscriptions of one client; what was refused is not asked for again."""

    def __init__(self, wishes: Mapping[str, Wish], token: str = "") -> None:
        self._token = token
        assert wishes
        self._wishes = dict(wishes)
        self._standings = dict.fromkeys(wishes, WishState.OPEN)

    def __contains__(self, name: str) -> bool:
        return name in self._wishes

    def knows(self, answer: Answer) -> bool:
        """Whether an answer can be about these: one without a name refuses the whole record."""
        return answer.name in self._wishes if answer.name else answer.answer == "refused"

    def record(self, *, qos: int, lease_s: float) -> bytes:
        """Return the record that asks for all that was not refused."""
        wishes = {name: wish for name, wish in self._wishes.items() if self._standings[name] is not WishState.REFUSED}
        return encode_record(Record(subscriptions=wishes, format="frame", qos=qos, lease_s=lease_s, token=self._token))

    def reopen(self) -> None:
        """All answers are to be given anew."""
        for name, standing in self._standings.items():
            if standing is not WishState.REFUSED:
                self._standings[name] = WishState.OPEN

    def obey(self, answer: Answer, standing: WishState) -> bool:
        """Note a known answer as this standing; return whether that changes anything."""
        names = [answer.name] if answer.name else [n for n, s in self._standings.items() if s is WishState.OPEN]
        changed = [name for name in names if self._standings[name] not in (standing, WishState.REFUSED)]
        self._standings.update(dict.fromkeys(changed, standing))
        return bool(changed)

    def are_answered(self) -> bool:
        """Whether nothing is open."""
        return WishState.OPEN not in self._standings.values()

    def are_refused(self) -> bool:
        """Whether nothing was granted."""
        return set(self._standings.values()) == {WishState.REFUSED}

    def are_ended(self) -> bool:
        """Whether all that was not refused has ended."""
        return set(self._standings.values()) <= {WishState.ENDED, WishState.REFUSED}
