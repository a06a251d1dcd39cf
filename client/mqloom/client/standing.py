"""How a subscriber stands, for whoever drives it or has several: what it knows, and what may be asked of it."""

from collections import Counter
from collections.abc import Mapping

from mqloom.client.inbox import Inbox
from mqloom.client.journal import Journal
from mqloom.client.lookout import Lookout
from mqloom.client.states import State
from mqloom.client.wishes import Wishes, WishState
from mqloom.core.ids import GatewayId
from mqloom.core.records import Wish
from mqloom.core.seen import Seen


class Standing:
    """What a subscriber wants, has heard and has written; `Subscriber` is what changes it."""

    _record: Journal

    def __init__(
        self, wishes: Mapping[str, Wish], *, gateway: GatewayId | None, lasting: bool, seen: Seen | None
    ) -> None:
        self.state = State.OFFLINE
        self._lasting = lasting
        self._wishes = Wishes(wishes, lasting=lasting)
        self._inbox = Inbox(self._wishes, seen)
        self._lookout = Lookout(self._inbox, gateway)
        self._answered = False

    @property
    def counts(self) -> Counter[str]:
        """What was dropped or ignored, by the names in COUNTS."""
        return self._inbox.counts

    @property
    def gateway(self) -> GatewayId | None:
        """The gateway that we asked last."""
        return self._lookout.gateway

    @property
    def wishes(self) -> Mapping[str, Wish]:
        """What is wanted, by name."""
        return self._wishes.copy()

    def is_served(self, *, partly: bool = False) -> bool:
        """Whether all that is wanted is established, with every gateway or at least with those in reach."""
        if self.state is State.IDLE:
            return True
        return self.state is State.SERVED and (partly or self._wishes.are_complete())

    def has(self, name: str) -> bool:
        """Whether something still comes, or may come, for this subscription."""
        return self._wishes.has(name)

    @property
    def nearest(self) -> GatewayId | None:
        """The gateway of this broker, alive or not, as far as we have heard of one."""
        return self._lookout.nearest

    @property
    def is_answered(self) -> bool:
        """Whether the gateway that is alive here answers us, though not for everything yet."""
        return self.state is State.ASKING and self._answered

    @property
    def has_read(self) -> bool:
        """Whether it is known what an earlier life has left."""
        return not self._record.reads

    @property
    def refused(self) -> list[str]:
        """The names that the gateway has refused."""
        return self._wishes.named(WishState.REFUSED)
