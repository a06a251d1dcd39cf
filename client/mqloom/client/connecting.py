"""The driver around the client's cores: paho-mqtt (MQTT 3.1.1) on one side, events and effects on the other.

paho's thread reads and writes; what it reads becomes events in a queue. The calling thread takes them out one by one,
so that a core sees one event at a time and a signal handler can add its own.
"""

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Final

from paho.mqtt.client import Client, MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from mqloom.client.limits import BACKLOG_MAX, CONFIRM_S, CONNECT_S, LEAVE_S, RECONNECT_S_MAX, TRY_AGAIN_S
from mqloom.client.login import BrokerLogin
from mqloom.client.subscriber import Subscriber
from mqloom.client.vocabulary import (
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Effect,
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
from mqloom.core.errors import BrokerError
from mqloom.core.tls import tls_context, tls_problem

Show = Callable[[Deliver | Tell | Note], bool]
"""Shows the user something; returns whether the user wants more."""

_LOGIN_REASONS: Final = ("Not authorized", "Bad user name or password")


class Connection:
    """A connection to one broker, gone back to when it is lost; a context manager that opens and closes it.

    With `keep_session` the broker keeps what comes at QoS 1 while the connection is away, until it is closed here.
    Entering raises BrokerError if the broker cannot be reached, does not answer, or refuses us.
    """

    def __init__(self, login: BrokerLogin, mqtt_client_id: str, *, keep_session: bool = False) -> None:
        self.login = login
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._room = threading.Semaphore(BACKLOG_MAX)
        self._accepted: queue.Queue[str] = queue.Queue(maxsize=1)  # the first answer: a problem, or none
        self._is_up = False  # as the events tell it
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
            with contextlib.suppress(BrokerError), Connection(self.login, self._mqtt_client_id):
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
        """Subscribe and wait for the broker's word; raises BrokerError if that is no, or does not come."""
        _, wanted = self._client.subscribe(topic, qos)
        deadline = time.monotonic() + CONFIRM_S
        while self._client.is_connected():
            try:
                mid, granted = self._confirmed.get(timeout=min(0.2, max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    raise BrokerError(self.login.address, f"it does not confirm {topic}") from None
                continue
            if mid == wanted:
                if not granted:
                    raise BrokerError(self.login.address, f"it does not let us subscribe to {topic}")
                return

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool) -> MQTTMessageInfo:
        """Publish; what is returned tells when the broker has acknowledged it."""
        info = self._client.publish(topic, payload, qos, retain)
        self._sent = [each for each in self._sent if not _is_done(each)] + [info]
        return info

    def _open(self) -> None:
        address = self.login.address
        self._reach()
        self._client.loop_start()
        try:
            problem = self._accepted.get(timeout=CONNECT_S)
        except queue.Empty:
            problem = f"accepts connections, but says no MQTT within {CONNECT_S:g} s"
        if problem:
            self._leave()
            raise BrokerError(address, problem)

    def _reach(self) -> None:
        """Connect; a broker that is not there yet may just be starting, and is tried for CONNECT_S."""
        deadline = time.monotonic() + CONNECT_S
        while True:
            try:
                self._client.connect(self.login.host, self.login.port)
            except ConnectionRefusedError as error:
                if time.monotonic() >= deadline:
                    self._leave()
                    problem = f"cannot be reached ({error}), for {CONNECT_S:g} s now; is it running?"
                    raise BrokerError(self.login.address, problem) from error
            except (OSError, ValueError) as error:
                self._leave()
                problem = tls_problem(error) if isinstance(error, OSError) else ""
                raise BrokerError(self.login.address, problem or f"cannot be reached ({error})") from error
            else:
                return
            time.sleep(TRY_AGAIN_S)

    def _leave(self) -> None:
        self._room.release(BACKLOG_MAX)  # paho's thread may wait there
        self._client.disconnect()
        self._client.loop_stop()

    # ---- called by paho's thread ---------------------------------------------------------------------------------

    def _on_connect(self, _client: Client, _data: object, flags: Any, reason: Any, _properties: object) -> None:
        if reason.is_failure:
            hint = "; see --username and --password-env" if reason.getName() in _LOGIN_REASONS else ""
            self._answer_first(f"refuses us: {reason}{hint}")
        else:
            self._answer_first("")
            self._is_up = True
            self._events.put(Connected(resumed=flags.session_present))

    def _on_disconnect(self, _client: Client, _data: object, _flags: object, reason: Any, _properties: object) -> None:
        self._answer_first(f"hangs up instead of answering ({reason})")
        if self._is_up:
            self._is_up = False
            self._events.put(ConnectionLost(problem=str(reason)))

    def _answer_first(self, problem: str) -> None:
        with contextlib.suppress(queue.Full):  # only the first answer matters
            self._accepted.put_nowait(problem)

    def _on_subscribe(
        self, _client: Client, _data: object, mid: int, reasons: Sequence[Any], _properties: object
    ) -> None:
        self._confirmed.put((mid, not any(reason.is_failure for reason in reasons)))

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self._room.acquire()
        payload = bytes(message.payload)
        self._events.put(MessageReceived(topic=message.topic, payload=payload, qos=message.qos, retain=message.retain))


def _paho_client(login: BrokerLogin, mqtt_client_id: str, *, clean_session: bool) -> Client:
    client = Client(
        CallbackAPIVersion.VERSION2, mqtt_client_id, clean_session=clean_session, protocol=MQTTProtocolVersion.MQTTv311
    )
    client.connect_timeout = CONNECT_S
    client.reconnect_delay_set(1, RECONNECT_S_MAX)
    if login.username:
        client.username_pw_set(login.username, login.password or None)
    if login.tls is not None:
        client.tls_set_context(tls_context(login.tls))
        client.tls_insecure_set(not login.tls.check_hostname)
    return client


def _is_done(info: MQTTMessageInfo) -> bool:
    try:
        return info.is_published()
    except (RuntimeError, ValueError):  # it will never be sent
        return True


class Drive:
    """One run of a subscriber: until `show` has had enough, until a signal comes, or for `seconds`."""

    def __init__(
        self, subscriber: Subscriber, connection: Connection, show: Show, *, seconds: float | None = None
    ) -> None:
        self._subscriber = subscriber
        self._connection = connection
        self._show = show
        self._close_at = None if seconds is None else time.monotonic() + seconds
        self._wake_at: float | None = None
        self._has_enough = False

    def run(self) -> None:
        """Return when the subscriber has finished; raises BrokerError if it fails, or the broker does."""
        finished = False
        with _closing_on_signals(self._connection):
            while not finished:
                event = self._next_event()
                effects = [] if event is None else self._subscriber.handle(event, time.monotonic())
                for effect in effects:
                    self._carry_out(effect)
                    finished = finished or isinstance(effect, Finished)

    def _next_event(self) -> Event | None:
        """Return what happens next; None: look again."""
        now = time.monotonic()
        if self._close_at is not None and now >= self._close_at:
            self._close_at = None
            return CloseRequested()
        if self._wake_at is not None and now >= self._wake_at:
            self._wake_at = None
            return Woke()
        times = [at for at in (self._close_at, self._wake_at) if at is not None]
        return self._connection.next_event(min(times) - now if times else None)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Deliver() | Tell() | Note():
                if not self._show(effect) and not self._has_enough:
                    self._has_enough = True
                    self._connection.request_close()
            case Subscribe():
                self._connection.subscribe(effect.topic, effect.qos)
            case Publish():
                self._connection.publish(effect.topic, effect.payload, effect.qos, retain=effect.retain)
            case WakeAt():
                self._wake_at = effect.at
            case Failed():
                raise BrokerError(self._connection.login.address, effect.problem)
            case Finished():
                pass


@contextlib.contextmanager
def _closing_on_signals(connection: Connection) -> Iterator[None]:
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
