"""amqtt's broker, with what it does wrong mended where a client would lose, miss or wrongly get something."""

from typing import Any

from amqtt.broker import Broker

from mqloom.plugins.amqtt_sending import Sender


class MendedBroker(Broker):  # type: ignore[misc]  # amqtt has no types that we could check against
    """A broker whose clients may come back quickly, and get their messages in order, and again until they have them."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        super().__init__(configuration)
        # amqtt goes through them while others subscribe, stumbles, and loses what it was about to hand out.
        self._subscriptions = _Steady()

    async def _initialize_client_session(self, *connection: Any) -> tuple[Any, Any]:
        """Return what serves a connection, and its session.

        A session that ends with its connection amqtt goes on with if the client is back within a second, now for one
        that lasts, and then keeps nothing for it after all.
        """
        _, session = await super()._initialize_client_session(*connection)
        if session.parent and session.clean_session:
            await self._del_all_subscriptions(session)
            session.clear_queues()
            session.inflight_out.clear()
            session.inflight_in.clear()
            session.clean_session = False
            session.parent = 0
        return Sender(self.plugins_manager), session

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
