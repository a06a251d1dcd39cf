"""amqtt's broker, with what it does wrong mended where a client would lose, miss or wrongly get something."""

from typing import Any, Final

from amqtt.broker import Broker

from mqloom.core.errors import TopicError
from mqloom.core.topics import check_topic
from mqloom.plugins.amqtt_sending import QOS, Drops, Sender, lost, stop_all

REFUSED: Final = 0x80
"""What a client is told of a subscription that it does not get."""


class MendedBroker(Broker):  # type: ignore[misc]  # amqtt has no types that we could check against
    """A broker whose clients may come back quickly, and get their messages in order, and again until they have them."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        super().__init__(configuration)
        # amqtt goes through them while others subscribe, stumbles, and loses what it was about to hand out.
        self._subscriptions = _Steady()
        self._drops = Drops()

    async def shutdown(self) -> None:
        """Stop; amqtt ends one connection after the other."""
        await stop_all([sender for _, sender in self._sessions.values()])
        await super().shutdown()

    async def _initialize_client_session(self, *connection: Any) -> tuple[Any, Any]:
        """Return what serves a connection, and its session.

        A session that ends with its connection amqtt goes on with if the client is back within a second, now for one
        that lasts, and then keeps nothing for it after all.
        """
        _, session = await super()._initialize_client_session(*connection)
        if session.parent and session.clean_session:
            await self._del_all_subscriptions(session)
            while not session.retained_messages.empty():  # and no more: what it has sent, others wait for
                session.retained_messages.get_nowait()
            session.inflight_out.clear()
            session.inflight_in.clear()
            session.clean_session = False
            session.parent = 0
        return Sender(self.plugins_manager, self._drops), session

    async def add_subscription(self, subscription: tuple[str, int], session: Any) -> int:
        """Return the QoS that a client gets; amqtt gives it any, and then sends what no client can read."""
        if subscription[1] not in QOS:
            return REFUSED
        answer: int = await super().add_subscription(subscription, session)
        return answer

    async def _broadcast_message(self, session: Any, topic: Any, data: Any, force_qos: int | None = None) -> None:
        """Let all have a message, if it can be sent: amqtt does not look at wills, nor at all of a topic."""
        if self._can_be_sent(session, topic, force_qos):
            await super()._broadcast_message(session, topic, data, force_qos)

    async def retain_message(self, source_session: Any, topic_name: Any, data: Any, qos: int | None = None) -> None:
        """Keep a message for whoever subscribes, likewise."""
        if self._can_be_sent(source_session, topic_name, qos):
            await super().retain_message(source_session, topic_name, data, qos)

    def _can_be_sent(self, session: Any, topic: Any, qos: int | None) -> bool:
        try:
            check_topic(topic or "")
            if qos not in (None, *QOS):
                raise TopicError(f"there is no QoS {qos}", topic)
        except TopicError as error:
            self._drops.tell("refuses a publication", session and session.client_id, error)
            return False
        return True

    async def _publish_session_retained_messages(self, session: Any) -> None:
        """Let a client that has just connected have what was kept for it.

        If amqtt has not been done with its earlier connection then, it takes the end of that, before or later, for the
        end of the session, and from then on keeps for another time whatever comes for a client that is connected.
        """
        of_now, sender = self._sessions.get(session.client_id, (None, None))
        if of_now is session:
            if not session.transitions.is_connected():
                session.transitions.connect()
            sender.open()

    async def _publish_retained_messages_for_subscription(self, subscription: tuple[str, int], session: Any) -> None:
        """Send the retained messages of a subscription to a client that has it.

        amqtt sends those of everybody's subscriptions to each client that connects: what gateways write for each other,
        and the records of other clients, with their tokens.
        """
        holders = self._subscriptions.get(subscription[0], ())
        if any(each.client_id == session.client_id for each, _ in holders):
            await super()._publish_retained_messages_for_subscription(subscription, session)

    async def _client_message_loop(self, session: Any, handler: Any) -> None:
        """Serve a connection; one that amqtt drops, as for a topic that begins with $, it takes to stand for ever."""
        try:
            await super()._client_message_loop(session, handler)
        finally:
            if session.transitions.is_connected() and self._sessions.get(session.client_id) == (session, handler):
                await self._handle_disconnect(session, handler, lost())

    async def _handle_disconnect(self, session: Any, handler: Any, disconnected: Any) -> None:
        """End a connection; but if the client is back already, its session is not over."""
        await super()._handle_disconnect(session, handler, disconnected)
        _, sender = self._sessions.get(session.client_id, (None, None))
        if sender is not None and sender is not handler and sender.is_open:
            await self._publish_session_retained_messages(session)


class _Steady(dict[str, Any]):
    """A dict that can be changed while somebody goes through it."""

    def items(self) -> Any:
        """Return what is there now, the lists in it too."""
        return [(topics, list(sessions)) for topics, sessions in super().items()]

    def __iter__(self) -> Any:
        """Go through what is there now."""
        return iter(list(super().__iter__()))
