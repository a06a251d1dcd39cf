"""The driver around the client's cores: paho-mqtt (MQTT 3.1.1) on one side, events and effects on the other.

paho's thread reads and writes; what it reads becomes events in a queue. The calling thread takes them out one by one,
so that a core sees one event at a time and a signal handler can add its own.
"""

import argparse
import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from paho.mqtt.client import Client, MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from mqloom.client.limits import BACKLOG_MAX, CONFIRM_S, CONNECT_S, LEAVE_S, RECONNECT_S_MAX
from mqloom.client.subscriber import Subscriber
from mqloom.client.vocabulary import (
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Event,
    Failed,
    Finished,
    MessageReceived,
    Note,
    Publish,
    Subscribe,
    Tell,
    WakeAt,
    Woke,
)
from mqloom.core.errors import ConnectionFailed, LocalError

Show = Callable[[Deliver | Tell | Note], bool]
"""Shows the user something; returns whether the user wants more."""


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """Where a broker listens, and as whom we go there."""

    host: str
    port: int
    username: str = ""
    password: str = ""

    @property
    def address(self) -> str:
        """The address, for people."""
        return f"{self.host}:{self.port}"


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which broker; `login_of` reads them."""
    group = parser.add_argument_group("the broker")
    group.add_argument("--host", default="127.0.0.1", help="where the broker listens (%(default)s)")
    group.add_argument("--port", type=_port, default=1883, help="and on which port (%(default)s)")
    group.add_argument("--username", default="", metavar="NAME", help="log in under this name")
    group.add_argument("--password-env", default="", metavar="VARIABLE", help="take the password from this variable")


def login_of(arguments: argparse.Namespace) -> BrokerLogin:
    """Return what the connection options say; raises LocalError if the password's variable is not set."""
    variable: str = arguments.password_env
    if variable and variable not in os.environ:
        raise LocalError(f"--password-env: there is no variable {variable} in the environment")
    if variable and not arguments.username:
        raise LocalError("--password-env: a password needs a --username")
    password = os.environ[variable] if variable else ""
    return BrokerLogin(arguments.host, arguments.port, arguments.username, password)


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65_536:
        raise ValueError
    return port


class Connection:
    """A connection to one broker, gone back to when it is lost; a context manager that opens and closes it.

    With `keep_session` the broker keeps what comes at QoS 1 while the connection is away, until it is closed here.
    Entering raises ConnectionFailed if the broker cannot be reached, does not answer, or refuses us.
    """

    def __init__(self, login: BrokerLogin, mqtt_client_id: str, *, keep_session: bool = False) -> None:
        self.login = login
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._room = threading.Semaphore(BACKLOG_MAX)
        self._accepted: queue.SimpleQueue[str] = queue.SimpleQueue()  # the first answers: a problem, or none
        self._confirmed: queue.SimpleQueue[tuple[int, bool]] = queue.SimpleQueue()
        self._sent: list[MQTTMessageInfo] = []
        self._mqtt_client_id = mqtt_client_id
        self._keep_session = keep_session
        self._client = _paho_client(login, mqtt_client_id, clean_session=not keep_session)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message

    def __enter__(self) -> "Connection":
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + LEAVE_S
        for info in self._sent:
            with contextlib.suppress(RuntimeError, ValueError):  # it will never be sent
                info.wait_for_publish(max(0.01, deadline - time.monotonic()))
        self._leave()
        if self._keep_session:
            with contextlib.suppress(ConnectionFailed), Connection(self.login, self._mqtt_client_id):
                pass  # connecting without keep_session makes the broker forget the session

    def next_event(self, timeout_s: float | None) -> Event | None:
        """Return the next event, or None if there is none in this time."""
        try:
            event = self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(event, MessageReceived):
            self._room.release()
        return event

    def request_close(self) -> None:
        """Add CloseRequested to the events; may be called from any thread and from signal handlers."""
        self._events.put(CloseRequested())

    def subscribe(self, topic: str, qos: int) -> None:
        """Subscribe and wait for the broker's word; raises ConnectionFailed if that is no, or does not come."""
        _, wanted = self._client.subscribe(topic, qos)
        deadline = time.monotonic() + CONFIRM_S
        while self._client.is_connected():
            try:
                mid, granted = self._confirmed.get(timeout=min(0.2, max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    raise ConnectionFailed(self.login.address, f"it does not confirm {topic}") from None
                continue
            if mid == wanted:
                if not granted:
                    raise ConnectionFailed(self.login.address, f"it does not let us subscribe to {topic}")
                return

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool) -> MQTTMessageInfo:
        """Publish; what is returned tells when the broker has acknowledged it."""
        info = self._client.publish(topic, payload, qos, retain)
        self._sent = [each for each in self._sent if not _is_done(each)] + [info]
        return info

    def _open(self) -> None:
        address = self.login.address
        try:
            self._client.connect(self.login.host, self.login.port)
        except (OSError, ValueError) as error:
            self._leave()
            raise ConnectionFailed(address, f"cannot be reached ({error})") from error
        self._client.loop_start()
        try:
            problem = self._accepted.get(timeout=CONNECT_S)
        except queue.Empty:
            problem = f"accepts connections, but says no MQTT within {CONNECT_S:g} s"
        if problem:
            self._leave()
            raise ConnectionFailed(address, problem)

    def _leave(self) -> None:
        self._room.release(BACKLOG_MAX)  # paho's thread may wait there
        self._client.disconnect()
        self._client.loop_stop()

    # ---- called by paho's thread ---------------------------------------------------------------------------------

    def _on_connect(self, _client: Client, _data: object, _flags: object, reason: Any, _properties: object) -> None:
        if reason.is_failure:
            hint = "; see --username and --password-env" if reason.getName() in _LOGIN_REASONS else ""
            self._accepted.put(f"refuses us: {reason}{hint}")
        else:
            self._accepted.put("")
            self._events.put(Connected())

    def _on_disconnect(self, _client: Client, _data: object, _flags: object, reason: Any, _properties: object) -> None:
        self._accepted.put(f"hangs up instead of answering ({reason})")
        self._events.put(ConnectionLost(problem=str(reason)))

    def _on_subscribe(
        self, _client: Client, _data: object, mid: int, reasons: Sequence[Any], _properties: object
    ) -> None:
        self._confirmed.put((mid, not any(reason.is_failure for reason in reasons)))

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self._room.acquire()
        self._events.put(
            MessageReceived(topic=message.topic, payload=message.payload, qos=message.qos, retain=message.retain)
        )


_LOGIN_REASONS = ("Not authorized", "Bad user name or password")


def _paho_client(login: BrokerLogin, mqtt_client_id: str, *, clean_session: bool) -> Client:
    client = Client(
        CallbackAPIVersion.VERSION2, mqtt_client_id, clean_session=clean_session, protocol=MQTTProtocolVersion.MQTTv311
    )
    client.connect_timeout = CONNECT_S
    client.reconnect_delay_set(1, RECONNECT_S_MAX)
    if login.username:
        client.username_pw_set(login.username, login.password or None)
    return client


def _is_done(info: MQTTMessageInfo) -> bool:
    try:
        return info.is_published()
    except (RuntimeError, ValueError):  # it will never be sent
        return True


@contextlib.contextmanager
def closing_on_signals(connection: Connection) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM ask for a clean close; the second does what it always does."""
    if threading.current_thread() is not threading.main_thread():  # no signals there
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def close(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        connection.request_close()

    try:
        for number in before:
            signal.signal(number, close)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def drive(subscriber: Subscriber, connection: Connection, show: Show, *, seconds: float | None = None) -> None:
    """Run a subscriber until it has finished: by `show`, by a signal, or after `seconds`.

    Raises ConnectionFailed if it fails, or the broker does.
    """
    close_at = None if seconds is None else time.monotonic() + seconds
    wake_at: float | None = None
    while True:
        now = time.monotonic()
        event: Event | None
        if close_at is not None and now >= close_at:
            event, close_at = CloseRequested(), None
        elif wake_at is not None and now >= wake_at:
            event, wake_at = Woke(), None
        else:
            times = [at for at in (close_at, wake_at) if at is not None]
            event = connection.next_event(min(times) - now if times else None)
        if event is None:
            continue
        for effect in subscriber.handle(event, time.monotonic()):
            match effect:
                case Deliver() | Tell() | Note():
                    if not show(effect):
                        connection.request_close()
                case Subscribe():
                    connection.subscribe(effect.topic, effect.qos)
                case Publish():
                    connection.publish(effect.topic, effect.payload, effect.qos, retain=effect.retain)
                case WakeAt():
                    wake_at = effect.at
                case Failed():
                    raise ConnectionFailed(connection.login.address, effect.problem)
                case Finished():
                    return
