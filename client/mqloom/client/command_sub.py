"""Subscribe by topic and content, and print what comes.

Says on stderr what becomes of the subscription, and prints one publication a line on stdout. It ends cleanly on
Ctrl-C, after `--count` publications, or after `--seconds`. It is a program with `mqloom.client.Client` as any other:
with a public order key it is moved between brokers.
"""

import argparse
import contextlib
import logging
import queue
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from mqloom.client.asking import is_of_one_broker
from mqloom.client.client import Client
from mqloom.client.connecting import Hello
from mqloom.client.farewells import await_farewells
from mqloom.client.federation import Federation
from mqloom.client.limits import CLOSE_S, LEASE_S
from mqloom.client.messages import FederationMessage
from mqloom.client.names import wish_name
from mqloom.client.screen import Screen, say
from mqloom.core.broker_login import BrokerLogin, add_connection_options, login_of
from mqloom.core.command_numbers import positive_number, whole_number
from mqloom.core.errors import BrokerError, FilterError, LocalError
from mqloom.core.limits import ID_LENGTH_MAX
from mqloom.core.records import Wish
from mqloom.core.subscription import Subscription


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("topics", metavar="TOPICS", help="an MQTT topic filter, for instance 'stocks/#'")
    add("--where", default="", metavar="FILTER", help="on the content: \"symbol = 'YHOO' AND volume > 3\"")
    add("--client", default="", metavar="NAME", help="our name at the gateway (default: made up)")
    add("--gateway", default="", metavar="NAME", help="the gateway (default: the one that says it is alive)")
    add("--token", default="", metavar="TOKEN", help="what the gateway's operator gave us, if it asks for one")
    add(
        "--public-key",
        action="append",
        default=[],
        metavar="KEY",
        help="be moved by orders of this key, see `mqloom keys public`; may be given again",
    )
    add("--qos", type=int, choices=(0, 1), default=1, help="1: with --client nothing is missed (%(default)s)")
    add("--count", type=whole_number(), metavar="N", help="end after this many publications")
    add("--seconds", type=positive_number(), metavar="S", help="end after this many seconds")
    add("--json", action="store_true", help="print JSON, with ids, instead of topic and payload")
    add_connection_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Subscribe; return 0 if all went as asked."""
    wish = Wish(topics=arguments.topics, where=arguments.where)
    try:
        Subscription.parse(wish.topics, wish.where)  # a mistake is shown at once, broker or no broker
    except FilterError as error:
        say(f"the filter has a mistake\n{error.pointer()}")
        return 1
    if is_of_one_broker(wish.topics):
        raise LocalError(f"{wish.topics!r} is the broker's own, and not in the federation: any MQTT client reads it")
    name: str = arguments.client or f"sub-{secrets.token_hex(4)}"
    if len(name) > ID_LENGTH_MAX:
        raise LocalError(f"--client: more than {ID_LENGTH_MAX} characters")
    settings = Federation(
        client=name,
        gateway=arguments.gateway,
        token=arguments.token,
        order_keys=tuple(arguments.public_key),
        lease_s=LEASE_S,  # whoever kills it may have forgotten it in a minute
    )
    # A killed client comes back to its session only if it has a name of its own: else it would be left to the broker.
    keep_session = bool(arguments.client) and arguments.qos > 0
    client = Watcher(CallbackAPIVersion.VERSION2, f"mqloom.{name}", clean_session=not keep_session, federation=settings)
    screen = Screen(count=arguments.count, as_json=arguments.json)
    Watch(client, login_of(arguments), wish, arguments.qos, screen).run(arguments.seconds)
    return screen.exit_code(arguments.seconds)


class Watcher(Client):
    """A client that wants nothing any more when it leaves, though its session was kept while it ran."""

    def leave(self) -> None:
        """Disconnect for good: the record is deleted, and every broker forgets us."""
        if self._is_kept():
            self._own_clean_session = True
        self.disconnect()
        self.loop_stop()
        await_farewells()


class Watch:
    """One subscription, shown on a screen. Callbacks come from the client's thread; the calling one waits."""

    def __init__(self, client: Watcher, login: BrokerLogin, wish: Wish, qos: int, screen: Screen) -> None:
        self._client = client
        self._login = login
        self._wish = wish
        self._qos = qos
        self._screen = screen
        self._ends: queue.SimpleQueue[str] = queue.SimpleQueue()  # why it ends: a problem, or none
        self._ended = threading.Event()
        self._hello = Hello(client, login)
        client.on_connect = self._on_connect
        client.on_disconnect = lambda _client, _data, _flags, reason, _properties: self._hello.hung_up(reason)
        client.on_established = self._on_established
        client.on_refused = self._on_refused
        client.on_unsubscribe = lambda *_: self._ended.set()
        client.on_message = self._on_message

    def run(self, seconds: float | None) -> None:
        """Return when it is enough, or after `seconds`; raises BrokerError if the broker or the gateway fails."""
        with _telling(), _closing_on_signals(lambda: self._ends.put("")):
            self._hello.open()
            try:
                problem = self._ends.get(timeout=seconds)
            except queue.Empty:
                problem = ""
            finally:
                self._unsubscribe()
                self._client.leave()
        if problem:
            raise BrokerError(self._login.address, problem)

    def _unsubscribe(self) -> None:
        """Take the subscription back, and wait for CLOSE_S at most until it has ended.

        Some brokers do not get to read what is published right before a DISCONNECT.
        """
        self._ended.clear()
        result, _ = self._client.unsubscribe(self._wish.topics, where=self._wish.where)
        if result == MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._ended.wait(CLOSE_S)

    def _on_connect(self, _client: object, _data: object, _flags: object, reason: Any, _properties: object) -> None:
        if self._hello.answered(reason):
            self._client.subscribe(self._wish.topics, self._qos, where=self._wish.where)

    def _on_established(self, client: Client, _data: object, wish: Wish, partly: bool) -> None:
        if wish != self._wish:  # an earlier one of our name was killed, and wanted something else
            client.unsubscribe(wish.topics, where=wish.where)
        else:
            self._screen.tell_established(partly=partly)

    def _on_refused(self, _client: object, _data: object, wish: Wish, problem: str) -> None:
        if wish == self._wish:
            self._ends.put(f"subscription to {wish.topics!r}: {problem}")

    def _on_message(self, _client: object, _data: object, message: MQTTMessage) -> None:
        assert isinstance(message, FederationMessage)
        if wish_name(self._wish) in message.names and not self._screen.is_full:
            self._screen.print(message)
        if self._screen.is_full:
            self._ends.put("")


class _Teller(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.ERROR:  # errors end it, and are said then
            say(record.getMessage())


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """Show what the client says of its connection, its gateway and its moves."""
    logger, handler = logging.getLogger("mqloom.client"), _Teller()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextlib.contextmanager
def _closing_on_signals(close: Callable[[], None]) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM ask for a clean close; the second does what it always does."""
    if threading.current_thread() is not threading.main_thread():  # no signals there
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        close()

    try:
        for number in before:
            signal.signal(number, ask)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
