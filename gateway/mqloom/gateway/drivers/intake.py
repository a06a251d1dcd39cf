"""The connection by which a gateway takes in publications of its own broker, and republishes those of others.

Both go by one connection, so that the broker need not hand back what we republish: on MQTT 5 its subscriptions say
no-local. They also keep the retain flag as it was published, and ask for no replay of retained messages, so that a
retain flag is a live publication's. On MQTT 3.1.1 it is the other way round: a retain flag is a replay.

The broker keeps the session, with its subscriptions, for longer than a configuration holds, and does not tell what they
are. Left there, one that overlaps with what is data now would bring each publication twice. So what the session may
have is kept beside it, on `layout.intake`: what comes is in it before it is subscribed to (see `acquaintance`), and
what is gone until the broker has confirmed that it is not any more.
"""

import itertools
import logging
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.events import Event, FencePassed, IntakeLost, IntakeOpened, PublishesReceived
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Incoming
from mqloom.core.topics import topic_matches
from mqloom.gateway.drivers.acquaintance import union
from mqloom.gateway.drivers.mqtt import (
    ConnectionPlan,
    Received,
    Refused,
    RetainedMessages,
    Then,
    Token,
    TopicSubscription,
)
from mqloom.gateway.drivers.mqtt_clients import MakeConnection
from mqloom.gateway.drivers.protocols import MQTT_5
from mqloom.gateway.interfaces import BrokerAddress


class IntakeDriver:
    """The intake of one gateway; held until it is released."""

    def __init__(  # noqa: PLR0913 - what a connection is made of, and whom to tell
        self,
        gateway: GatewayId,
        address: BrokerAddress,
        data: Sequence[str],
        former: Sequence[str] | None,
        *,
        connect: MakeConnection,
        keep: Callable[[str, bytes, Then | None], None],
        handle: Callable[[Event], None],
        on_up: Callable[[], None],
        on_broken: Callable[[], None],
        on_drop: Callable[[str], None],
        on_room: Callable[[], None],
        log: logging.LoggerAdapter[logging.Logger],
    ) -> None:
        self._gateway = gateway
        self._data = self._wanted = data
        self._keep = keep
        self._had = union(former or (), data)  # the session has no others
        self._handle = handle
        self._on_up = on_up
        self._on_broken = on_broken
        self._receipts: dict[int, Token] = {}
        self._next_receipt = itertools.count(1)
        self.is_held = True
        """Whether the node wants nothing handed over."""
        plan = ConnectionPlan(
            address=address,
            client_id=address.session(f"mqloom-{gateway}"),
            clean_session=False,
            subscriptions=_subscriptions(data),
            on_messages=self._taken_in,
            on_up=self._opened,
            on_down=lambda problem: None,
            on_broken=self._lost,
            acknowledges=False,
            gathers=True,
            former=[topics for topics in former or () if topics not in data],
            on_pruned=self._pruned,
            on_drop=on_drop,
            on_room=on_room,
        )
        self.connection = connect(plan, log)
        self.connection.pause()
        if former is not None:  # else what is kept says more than we know
            self._remember()
        self.connection.open()

    def _remember(self, then: Then | None = None) -> None:
        self._keep(layout.intake(self._gateway), msgspec.json.encode(self._had), then)

    def change(self, data: Sequence[str]) -> None:
        """Other topics are data now. What the broker has still sent of those that are not is acknowledged unread."""
        self._wanted = data
        self._had = union(self._had, data)
        self._remember(partial(self._resubscribe, data))

    def _resubscribe(self, data: Sequence[str]) -> None:
        self._data = data
        self.connection.resubscribe(_subscriptions(data))

    def _pruned(self) -> None:
        if self._data == self._wanted:  # else the next is under way
            self._had = list(self._data)
            self._remember()

    def hold(self) -> None:
        """Hand nothing over."""
        self.is_held = True
        self.connection.pause()

    def acknowledge(self, receipts: Sequence[int]) -> None:
        """Acknowledge publications; those of an earlier connection are passed over."""
        tokens = [self._receipts.pop(receipt, None) for receipt in receipts]
        self.connection.acknowledge([token for token in tokens if token is not None])

    def fence(self, number: int) -> None:
        """Publish a fence behind all acknowledgements."""
        passed = partial(self._handle, FencePassed(number=number))
        # In order with what was handed over: nothing is, while we hold; then it must wait too.
        then = partial(self.connection.in_order, passed)
        self.connection.publish(layout.fence(self._gateway), b"", 1, then=then)

    def republish(self, effect: PublishLocally, then: Then | None, refused: Refused | None) -> None:
        """Publish what came from another gateway under its own topic."""
        self.connection.publish(
            effect.topic,
            effect.payload,
            effect.qos,
            retain=effect.retain,
            content_type=effect.content_type,
            user_properties=effect.user_properties,
            then=then,
            refused=refused,
        )

    def _opened(self) -> None:
        self._handle(IntakeOpened(echoes=self.connection.protocol != MQTT_5, resumed=self.connection.is_resumed))
        self._on_up()

    @property
    def owes(self) -> bool:
        """Whether the broker waits for acknowledgements of ours."""
        return bool(self._receipts)

    def _lost(self) -> None:
        self._on_broken()
        self._receipts.clear()
        self._handle(IntakeLost())

    def _taken_in(self, batch: Sequence[Received]) -> None:
        """Hand publications to the node; what is no data any more it only acknowledges in its turn."""
        is_as_published = self.connection.protocol == MQTT_5
        incoming = []
        for each in batch:
            is_data = self._is_ours(each.topic)
            if not is_data and not each.qos:
                continue
            receipt = 0
            if each.qos:
                receipt = next(self._next_receipt)
                self._receipts[receipt] = each.token
            incoming.append(
                Incoming(
                    topic=each.topic,
                    payload=each.payload,
                    qos=each.qos,
                    retain=each.retain and is_as_published,
                    replayed=each.retain and not is_as_published,
                    receipt=receipt,
                    packet=each.token[1] if each.qos else 0,
                    again=each.again,
                    content_type=each.content_type,
                    user_properties=each.user_properties,
                    is_data=is_data,
                )
            )
        if incoming:
            self._handle(PublishesReceived(publications=tuple(incoming)))

    def _is_ours(self, topic: str) -> bool:
        """Whether it is data still: the broker may remember a subscription of an earlier configuration."""
        for topics in self._data:  # noqa: SIM110 - for each publication; `any` takes three times as long
            if topic_matches(topics, topic):
                return True
        return False


def _subscriptions(data: Sequence[str]) -> list[TopicSubscription]:
    return [
        TopicSubscription(topics, 1, no_local=True, retain_as_published=True, retained=RetainedMessages.NEVER)
        for topics in data
    ]
