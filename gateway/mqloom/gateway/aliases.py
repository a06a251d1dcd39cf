"""Other names for subscriptions on a link that was moved, so that two ways to one subscriber can stand side by side.

Theory of operation. A gateway that moves is for a while linked to its old neighbour and to its new one. Whatever is
wanted on its side is then announced both ways, and in the tables of everybody else these must be two subscriptions: a
new way that is there before the old one goes, each to be withdrawn by itself, whoever crashes. So over the new link
the gateway that moves uses other keys: one alias for what it announces there, another for what it hears there (its own
announcements come round to it). Both follow from its name and the number of its move, so that it uses the same ones
after a restart; and an alias of an alias is the name itself. The other side need not know.

Whoever hears its own subscription by an alias must take it as that of a neighbour: it may be all that the neighbour
says, for it covers others there. By its own key it has come round in a cycle, and is refused.
"""

from hashlib import blake2b
from typing import Final

from msgspec.structs import replace

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Announce, Established, Message, Withdraw

BITS: Final = 62
"""Of a number that are changed: it stays within its bounds."""


ALIASES_FROM: Final = 1 << 40
"""Numbers that a gateway gives are smaller, aliases larger; an alias of an alias too, but for one in a million."""


def has_given(gateway: GatewayId, key: SubscriptionKey) -> bool:
    """Whether a gateway can have given a key, and it is no alias."""
    return key.gateway == gateway and key.number < ALIASES_FROM


class Aliases:
    """The keys on one moved link, as they are told there and as they are called here."""

    def __init__(self, mover: GatewayId, number: int) -> None:
        digest = blake2b(f"{number} {mover}".encode(), digest_size=16).digest()
        highest = 1 << (BITS - 1)  # so that none of them looks like a number that was given
        self._ours = highest | int.from_bytes(digest[:8]) >> (64 - BITS)
        self._theirs = highest | int.from_bytes(digest[8:]) >> (64 - BITS)

    def outgoing(self, message: Message) -> Message:
        """Return a message as it is told there."""
        match message:
            case Announce():
                return replace(message, key=_other(message.key, self._ours))
            case Withdraw():
                return Withdraw(_other(message.key, self._ours))
            case Established():
                return Established(_other(message.key, self._theirs), message.complete)
            case _:
                return message

    def incoming(self, message: Message) -> Message:
        """Return a message from there as it is meant here."""
        match message:
            case Announce():
                return replace(message, key=_other(message.key, self._theirs))
            case Withdraw():
                return Withdraw(_other(message.key, self._theirs))
            case Established():
                return Established(_other(message.key, self._ours), message.complete)
            case _:
                return message


def _other(key: SubscriptionKey, change: int) -> SubscriptionKey:
    return SubscriptionKey(key.gateway, key.epoch, key.number ^ change)
