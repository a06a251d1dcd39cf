"""Who hears of a connection: what `Wired` tells, and asks of, whatever is behind it."""

from typing import Protocol

from paho.mqtt.client import MQTTMessage


class Listener(Protocol):
    """Who is told what happens on a connection."""

    def connected(self, *, resumed: bool) -> None:
        """The broker has accepted us; and had kept our session, or had not."""
        ...

    def lost(self) -> None:
        """The connection is gone."""
        ...

    def referred(self, reference: str) -> None:
        """The broker has refused or ended the connection, and names another place; comes behind `lost`."""
        ...

    def turned_away(self, reason: str) -> None:
        """The broker does not take us, because of our name or password; trying again will hardly help."""
        ...

    def received(self, message: MQTTMessage) -> bool:
        """A message has come on one of MQLoom's topics; return whether the broker may be told so."""
        ...

    def barred(self, topic: str) -> None:
        """The broker does not let us subscribe to this topic."""
        ...

    def turn(self) -> None:
        """Do whatever is due."""
        ...

    def settle(self) -> None:
        """Exchange what may only be exchanged between two packets."""
        ...

    def patience(self, timeout: float) -> float:
        """Return how long the loop may wait for the network, at most this."""
        ...
