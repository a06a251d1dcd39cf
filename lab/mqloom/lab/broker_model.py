"""An MQTT broker as a model: sessions, retained messages, QoS 1 redelivery, last wills, with or without a store.

It follows Mosquitto where the specification leaves room. A restart breaks all connections. With
its store it then has its persistent sessions, their messages and the retained ones as before; without, nothing, and
what it had is listed in `losses`. So is what it takes over afterwards for a session that it has forgotten, until the
client has subscribed again: to its publishers nothing tells that from a message that is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mqloom.core.topics import topic_matches
from mqloom.lab.broker_sessions import Loss, Session
from mqloom.lab.capacity import Station
from mqloom.lab.clock import Clock
from mqloom.lab.network import Connection
from mqloom.lab.packets import Connack, Connect, Disconnect, Packet, Puback, Publish, Suback, Subscribe, bytes_of

__all__ = ["Broker", "BrokerSettings"]


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """How a broker is configured: `window` is max_inflight_messages, `queue_max` is max_queued_messages (0: none)."""

    window: int = 20
    queue_max: int = 0


class Broker:
    """One broker. `intake` and `output`, if given, make it take time over messages (`mqloom.lab.capacity`)."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        settings: BrokerSettings | None = None,
        intake: Station | None = None,
        output: Station | None = None,
    ) -> None:
        self.name = name
        self.is_up = True
        self.settings = settings or BrokerSettings()
        self.intake = intake
        self.output = output
        self.sessions: dict[str, Session] = {}
        self.retained: dict[str, Publish] = {}
        self.losses: list[Loss] = []
        self.store_lost_at = 0.0
        """When it was last back without its store."""
        self.trace: Callable[[str, str], None] | None = None
        self._clock = clock
        self._connections: dict[Connection, None] = {}
        self._interested: dict[str, list[tuple[Session, int]]] = {}
        self._forgotten: dict[str, dict[str, None]] = {}  # topic filters of sessions lost with the store

    # ---- connections ---------------------------------------------------------------------------------------------

    def receive(self, connection: Connection, packets: list[Packet]) -> None:
        """Packets have come from a party."""
        if self.intake is None:
            self._take(connection, packets)
        else:
            work = [each for each in packets if self.intake.has_room(bytes_of(each)) or not _is_droppable(each)]
            self.intake.submit(len(work), sum(map(bytes_of, work)), partial(self._take, connection, work))

    def lose(self, connection: Connection) -> None:
        """A connection is found to be broken."""
        self._connections.pop(connection, None)
        session = connection.session
        if isinstance(session, Session) and session.connection is connection:
            self._part(session, with_will=True)

    def _take(self, connection: Connection, packets: list[Packet]) -> None:
        if not self.is_up:
            connection.break_off(0.0, None)
            return
        if connection.is_broken and connection.session is None:
            return
        taken: list[int] = []
        for packet in packets:
            if type(packet) is Publish:
                if packet.qos:
                    taken.append(packet.packet)
                self.publish(packet, connection)
            elif type(packet) is Puback:
                self._acknowledged(connection, packet)
            else:
                self._control(connection, packet)
        if taken:
            self._send(connection, Puback(tuple(taken)))

    def _control(self, connection: Connection, packet: Packet) -> None:
        session = connection.session
        if isinstance(packet, Connect):
            self._connect(connection, packet)
        elif not isinstance(session, Session) or session.connection is not connection:
            return  # the session has been taken over by a later connection
        elif isinstance(packet, Subscribe):
            self._subscribe(session, packet)
        else:
            assert isinstance(packet, Disconnect), packet
            connection.break_off(None, None)
            self._part(session, with_will=False)

    def _connect(self, connection: Connection, packet: Connect) -> None:
        self._connections[connection] = None
        known = self.sessions.get(packet.client_id)
        if known is not None and known.connection is not None:
            known.connection.break_off(0.0, None)
            self._connections.pop(known.connection, None)
            # Mosquitto 2.0 hands out the will of a session that is taken over only if the session ends with it.
            self._part(known, with_will=known.clean or packet.clean)
            known = self.sessions.get(packet.client_id)
        if packet.clean and known is not None:
            self._forget(known)
            known = None
        present = known is not None
        if known is None:
            known = Session(packet.client_id, packet.clean, self.settings.window, self.settings.queue_max)
            self.sessions[packet.client_id] = known
        known.connection, known.will = connection, packet.will
        connection.session = known
        self._send(connection, Connack(present))
        for message in known.resume():
            self._send(connection, message)

    def _subscribe(self, session: Session, packet: Subscribe) -> None:
        assert session.connection is not None
        self._interested.clear()
        for topics, qos in packet.filters:
            session.subscriptions[topics] = qos
            self._forgotten.get(session.client_id, {}).pop(topics, None)
        self._send(session.connection, Suback(packet.number))
        for topics, qos in packet.filters:
            for kept in self._retained_for(topics):
                self._hand(session, Publish(kept.topic, kept.payload, min(qos, kept.qos), True))

    def _retained_for(self, topics: str) -> list[Publish]:
        if topics in self.retained:
            return [self.retained[topics]]
        return [kept for topic, kept in self.retained.items() if topic_matches(topics, topic)]

    def _part(self, session: Session, *, with_will: bool) -> None:
        """A client is gone: a clean session goes with it."""
        will, session.connection, session.will = session.will, None, None
        if session.clean:
            self._forget(session)
        if will is not None and with_will:
            self.publish(will)

    def _forget(self, session: Session) -> None:
        del self.sessions[session.client_id]
        self._interested.clear()

    # ---- messages ------------------------------------------------------------------------------------------------

    def publish(self, message: Publish, source: Connection | None = None) -> None:
        """Keep a message if it is retained, and give it to every session that wants it."""
        if message.retain:
            self.retained.pop(message.topic, None)
            if message.payload:
                self.retained[message.topic] = Publish(message.topic, message.payload, message.qos, True)
        interested = self._interested.get(message.topic)
        if interested is None:
            interested = self._interested[message.topic] = self._find(message.topic)
        missed = self._miss(message) if self._forgotten and message.qos else []
        plain = Publish(message.topic, message.payload, message.qos)
        for session, qos in interested:
            self._hand(session, plain if qos >= plain.qos else Publish(plain.topic, plain.payload, qos))
        if source is not None and source.on_taken is not None:
            source.on_taken(message, [session.client_id for session, _ in interested] + missed)

    def _find(self, topic: str) -> list[tuple[Session, int]]:
        """Return who wants a topic: each session once, at the highest QoS of its filters that match."""
        found = []
        for session in self.sessions.values():
            granted = [qos for topics, qos in session.subscriptions.items() if topic_matches(topics, topic)]
            if granted:
                found.append((session, max(granted)))
        return found

    def _miss(self, message: Publish) -> list[str]:
        """Note a message as lost to the sessions that are forgotten; return whose they were."""
        missed = [
            client_id
            for client_id, filters in self._forgotten.items()
            if any(topic_matches(topics, message.topic) for topics in filters)
        ]
        self.losses += [Loss(self.name, client_id, message, was_held=False) for client_id in missed]
        return missed

    def _hand(self, session: Session, message: Publish) -> None:
        launched = session.put(message)
        if launched is not None and session.connection is not None:
            self._send(session.connection, launched)

    def _acknowledged(self, connection: Connection, packet: Puback) -> None:
        session = connection.session
        if isinstance(session, Session) and session.connection is connection:
            for message in session.acknowledge(packet.packets):
                self._send(connection, message)

    def _send(self, connection: Connection, packet: Packet) -> None:
        if self.output is None:
            connection.to_party.send(packet)
        elif self.output.has_room(bytes_of(packet)) or not _is_droppable(packet):
            self.output.submit(1, bytes_of(packet), partial(connection.to_party.send, packet))

    # ---- restarts ------------------------------------------------------------------------------------------------

    def stop(self, notice_s: Callable[[], float]) -> None:
        """Crash: all connections break, and no last will is handed out."""
        self.is_up = False
        for connection in list(self._connections):
            connection.break_off(notice_s(), None)
        self._connections.clear()
        for session in list(self.sessions.values()):
            session.will = None
            self._part(session, with_will=False)

    def start(self, *, with_store: bool) -> None:
        """Be there again, with what was stored or with nothing."""
        assert not self.is_up
        self.is_up = True
        if with_store:
            return
        self.store_lost_at = self._clock.now
        for session in self.sessions.values():
            self.losses += [Loss(self.name, session.client_id, message) for message in session.held()]
            self._forgotten.setdefault(session.client_id, {}).update(dict.fromkeys(session.subscriptions))
        self.sessions.clear()
        self.retained.clear()
        self._interested.clear()

    def dropped(self) -> int:
        """How many messages were dropped at the limit of a queue."""
        return sum(len(session.dropped) for session in self.sessions.values())

    def check(self) -> None:
        """State the invariants: windows and limits are kept, and nobody who is there waits beside a free window."""
        for session in self.sessions.values():
            assert len(session.in_flight) <= session.window, session
            assert not session.queue_max or len(session.queue) <= session.queue_max, session
            assert session.connection is None or not session.queue or len(session.in_flight) == session.window, session
            assert not session.clean or session.connection is not None, session


def _is_droppable(packet: Packet) -> bool:
    return isinstance(packet, Publish) and not packet.qos
