"""The client around the shim, as the shim sees it: what it can ask of paho, and what it tells the application."""

from dataclasses import dataclass
from typing import Protocol

from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion

from mqloom.client.farewells import Farewells
from mqloom.client.legs import Migrated, Stayed
from mqloom.client.vocabulary import Note, Publish, Tell, Unserved
from mqloom.client.ways import Movable
from mqloom.core.records import Wish


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What has come to a client from the federation since it was made.

    `gaps` counts the times when publications may have passed it by: its broker had forgotten its session, or a gateway
    had ended a subscription that it still wants. `refused` counts orders, rosters and server references that it did
    not obey; `dropped` what came in the background with QoS 0 while the loop was busy and there was no room for it;
    `memory_faults` the times when its memory file (`state_folder`) could not be read or written.
    """

    received: int
    duplicates: int
    gaps: int
    dropped: int
    migrations: int
    refused: int
    memory_faults: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """A subscription is wanted again before it has ended: that it has nobody else tells these calls."""

    name: str
    calls: tuple[int, ...]


Tidings = Tell | Note | Unserved | Migrated | Stayed | Renewed
"""What is for the application."""


class Told(Protocol):
    """Whoever is told what has become of subscriptions and moves."""

    def tell_established(self, wish: Wish, *, partly: bool) -> None:
        """Call on_established."""
        ...

    def tell_refused(self, wish: Wish, problem: str) -> None:
        """Call on_refused."""
        ...

    def tell_migrated(self, source: str, to: str) -> None:
        """Call on_migrated."""
        ...

    def pretend_suback(self, mid: int, codes: list[int]) -> None:
        """Call on_subscribe."""
        ...

    def pretend_unsuback(self, mid: int, count: int) -> None:
        """Call on_unsubscribe."""
        ...


class Application(Movable, Told, Protocol):
    """The client around this: paho's, with what the application set."""

    def publish_ours(self, effect: Publish) -> bool:
        """Send something to the broker, before all that was ordered."""
        ...

    def forget_orders(self) -> None:
        """Leave out what was ordered and not sent."""
        ...

    def wake(self, *, from_background: bool = False) -> None:
        """Let the loop take a turn."""
        ...

    def deliver(self, message: MQTTMessage) -> None:
        """Call on_message, or the callbacks for its topic."""
        ...

    def acknowledge(self, packet: int) -> MQTTErrorCode:
        """Tell the broker that a message of QoS 1 has arrived."""
        ...

    @property
    def farewells(self) -> Farewells:
        """What it is leaving, in whichever of its lives."""
        ...

    @property
    def protocol(self) -> MQTTProtocolVersion:
        """The version of MQTT."""
        ...

    @property
    def transport(self) -> str:
        """How the broker is reached; moves are for TCP."""
        ...
