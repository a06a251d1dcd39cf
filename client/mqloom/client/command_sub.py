"""Subscribe by topic and content, and print what comes.

Says on stderr what becomes of the subscription, and prints one publication a line on stdout. It ends cleanly on
Ctrl-C, after `--count` publications, or after `--seconds`. It stays at its broker: nobody moves it, for a person
watches it, who starts it again elsewhere. What must not be interrupted is a program with `mqloom.client.Client`.
"""

import argparse
import base64
import secrets
import sys

from msgspec import UNSET, Struct, UnsetType, json

from mqloom.client.connecting import Connection, Drive
from mqloom.client.login import add_connection_options, login_of
from mqloom.client.names import wish_name
from mqloom.client.subscriber import Subscriber
from mqloom.client.vocabulary import Deliver, Note, Tell
from mqloom.core.command_numbers import positive_number, whole_number
from mqloom.core.errors import FilterError, LocalError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import ID_LENGTH_MAX
from mqloom.core.records import Answer, Wish
from mqloom.core.subscription import Subscription


class Line(Struct, frozen=True, kw_only=True):
    """A publication as `--json` prints it; a payload that is no text comes as `payload_base64`."""

    topic: str
    payload: str | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    origin: str
    epoch: int
    sequence: int
    names: tuple[str, ...]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("topics", metavar="TOPICS", help="an MQTT topic filter, for instance 'stocks/#'")
    parser.add_argument(
        "--where", default="", metavar="FILTER", help="on the content: \"symbol = 'YHOO' AND volume > 3\""
    )
    parser.add_argument("--client", default="", metavar="NAME", help="our name at the gateway (default: made up)")
    parser.add_argument(
        "--gateway", default="", metavar="NAME", help="the gateway (default: the one that says it is alive)"
    )
    parser.add_argument(
        "--token", default="", metavar="TOKEN", help="what the gateway's operator gave us, if it asks for one"
    )
    parser.add_argument(
        "--qos", type=int, choices=(0, 1), default=1, help="1: what comes is acknowledged (%(default)s)"
    )
    parser.add_argument("--count", type=whole_number(), metavar="N", help="end after this many publications")
    parser.add_argument("--seconds", type=positive_number(), metavar="S", help="end after this many seconds")
    parser.add_argument("--json", action="store_true", help="print JSON, with ids, instead of topic and payload")
    add_connection_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Subscribe; return 0 if all went as asked."""
    wish = Wish(topics=arguments.topics, where=arguments.where)
    try:
        Subscription.parse(wish.topics, wish.where)  # a mistake is shown at once, broker or no broker
    except FilterError as error:
        _say(f"the filter has a mistake\n{error.pointer()}")
        return 1
    client: str = arguments.client or f"sub-{secrets.token_hex(4)}"
    if len(client) > ID_LENGTH_MAX:
        raise LocalError(f"--client: more than {ID_LENGTH_MAX} characters")
    gateway = GatewayId(arguments.gateway) if arguments.gateway else None
    subscriber = Subscriber(
        ClientId(client), {wish_name(wish): wish}, qos=arguments.qos, gateway=gateway, token=arguments.token
    )
    screen = Screen(wish, count=arguments.count, as_json=arguments.json)
    # A killed client comes back to its session only if it has a name of its own: else it would be left to the broker.
    keep_session = bool(arguments.client) and arguments.qos > 0
    with Connection(login_of(arguments), f"mqloom.{client}", keep_session=keep_session) as connection:
        Drive(subscriber, connection, screen.show, seconds=arguments.seconds).run()
    return screen.exit_code(arguments.seconds)


class Screen:
    """Shows the user what comes, and knows when it is enough."""

    def __init__(self, wish: Wish, *, count: int | None, as_json: bool) -> None:
        self._wish = wish
        self._count = count
        self._as_json = as_json
        self._shown = 0
        self._was_established = False
        self._reader_gone: BrokenPipeError | None = None

    def show(self, effect: Deliver | Tell | Note) -> bool:
        """Show something; return whether there is to be more."""
        match effect:
            case Deliver():
                if not self._is_full():
                    self._print(effect)
            case Tell():
                self._tell(effect.answer)
            case Note():
                _say(effect.text)
        return not self._is_full()

    def exit_code(self, seconds: float | None) -> int:
        """Return the exit code of a run that ended by itself; raises BrokenPipeError if nobody reads any more."""
        if self._reader_gone is not None:
            raise self._reader_gone
        if seconds is not None and not self._was_established:
            _say(f"not established within {seconds:g} seconds")
            return 1
        if seconds is not None and self._count is not None and self._shown < self._count:
            _say(f"{self._shown} of {self._count} publications came within {seconds:g} seconds")
            return 1
        return 0

    def _is_full(self) -> bool:
        return self._reader_gone is not None or (self._count is not None and self._shown >= self._count)

    def _print(self, delivery: Deliver) -> None:
        line = _json_line(delivery) if self._as_json else _plain_line(delivery)
        encoding = sys.stdout.encoding or "utf-8"
        try:
            sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            sys.stdout.flush()
        except BrokenPipeError as error:  # end cleanly first: the record is to be deleted
            self._reader_gone = error
        self._shown += 1

    def _tell(self, answer: Answer) -> None:
        if answer.answer == "established":
            self._was_established = True
            _say("established")
        elif answer.answer == "refused" and isinstance(answer.column, int):
            _say(f"refused\n{FilterError(answer.problem, self._wish.where, answer.column).pointer()}")
        elif answer.answer == "refused":
            _say(f"refused: {answer.problem}")


def _plain_line(delivery: Deliver) -> str:
    """Return one line whatever is in it; `--json` keeps every character."""
    payload = delivery.publication.payload
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = f"base64:{base64.b64encode(payload).decode()}"
    return f"{delivery.publication.topic} {text}".translate(_CONTROLS)


def _json_line(delivery: Deliver) -> str:
    publication = delivery.publication
    payload: str | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    try:
        payload = publication.payload.decode()
    except UnicodeDecodeError:
        payload_base64 = base64.b64encode(publication.payload).decode()
    line = Line(
        topic=publication.topic,
        payload=payload,
        payload_base64=payload_base64,
        origin=publication.origin,
        epoch=publication.epoch,
        sequence=publication.sequence,
        names=delivery.names,
    )
    return json.encode(line).decode()


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {9: "\t", 10: "\\n", 13: "\\r"}
"""Line ends would look like further publications, and a terminal obeys the others."""


def _say(text: str) -> None:
    sys.stderr.write(f"mqloom sub: {text}\n")
    sys.stderr.flush()
