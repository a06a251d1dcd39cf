"""amqtt's broker, with what it does wrong mended where a client would lose, miss or wrongly get something."""

import asyncio
import weakref
from typing import Any

from amqtt.broker import Broker, RetainedApplicationMessage


class MendedBroker(Broker):  # type: ignore[misc]  # amqtt has no types that we could check against
    """A broker whose clients may come back quickly, and get their messages in order."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        super().__init__(configuration)
        # amqtt goes through them while others subscribe, stumbles, and loses what it was about to hand out.
        self._subscriptions = _Steady()
        self._begun: weakref.WeakSet[Any] = weakref.WeakSet()

    async def _publish_session_retained_messages(self, session: Any) -> None:
        """Send what was kept for a client that has just connected.

        If amqtt has not been done with its earlier connection then, it takes the end of that, before or later, for the
        end of the session, and from then on keeps for another time whatever comes for a client that is connected.
        Nor does it read anything from the client before all of this is acknowledged, and says of it that it is
        retained.
        """
        if not session.transitions.is_connected():
            session.transitions.connect()
        handler = super()._get_handler(session)
        if handler is None:
            return
        self._begun.add(handler)
        while not session.retained_messages.empty():
            kept = session.retained_messages.get_nowait()
            sending = handler.mqtt_publish(kept.topic, kept.data, kept.qos, retain=False)
            self._tasks_queue.append(asyncio.ensure_future(sending))

    def _get_handler(self, session: Any) -> Any:
        """Return what sends to a client: as long as what was kept for it has not gone out, that keeps more.

        amqtt hands to a connection what arrives while it begins, before what was kept.
        """
        handler = super()._get_handler(session)
        return handler if handler is None or handler in self._begun else _Keeper(session)

    async def _publish_retained_messages_for_subscription(self, subscription: tuple[str, int], session: Any) -> None:
        """Send the retained messages of a subscription to a client that has it.

        amqtt sends those of everybody's subscriptions to each client that connects: what gateways write for each other,
        and the records of other clients, with their tokens.
        """
        holders = self._subscriptions.get(subscription[0], ())
        if any(each.client_id == session.client_id for each, _ in holders):
            await super()._publish_retained_messages_for_subscription(subscription, session)

    async def _handle_disconnect(self, session: Any, handler: Any, disconnected: Any) -> None:
        """End a connection; but if the client is back already, its session is not over."""
        await super()._handle_disconnect(session, handler, disconnected)
        if super()._get_handler(session) in self._begun - {handler}:
            await self._publish_session_retained_messages(session)


class _Keeper:
    """Keeps for a client what comes while its connection begins."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def mqtt_publish(self, topic: str, data: bytes, qos: int | None, retain: bool) -> asyncio.Future[None]:
        """Keep a message at once: what was kept may be sent before anybody awaits this."""
        self._session.retained_messages.put_nowait(RetainedApplicationMessage(None, topic, data, qos))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class _Steady(dict[str, Any]):
    """A dict that can be changed while somebody goes through it."""

    def items(self) -> Any:
        """Return what is there now, the lists in it too."""
        return [(topics, list(sessions)) for topics, sessions in super().items()]

    def __iter__(self) -> Any:
        """Go through what is there now."""
        return iter(list(super().__iter__()))
