"""What `mqloom sub` prints: one publication a line, whatever is in it."""

import base64
import sys

from msgspec import UNSET, Struct, UnsetType, json

from mqloom.client.messages import FederationMessage


class Line(Struct, frozen=True, kw_only=True):
    """A publication as `--json` prints it; a payload that is no text comes as `payload_base64`."""

    topic: str
    payload: str | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    origin: str
    epoch: int
    sequence: int
    names: tuple[str, ...]


class Screen:
    """Shows the user what comes, and knows when it is enough: after `count`, or when nobody reads any more."""

    def __init__(self, *, count: int | None, as_json: bool) -> None:
        self._count = count
        self._as_json = as_json
        self._shown = 0
        self._was_established = False
        self._reader_gone: BrokenPipeError | None = None

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be shown."""
        return self._reader_gone is not None or (self._count is not None and self._shown >= self._count)

    def print(self, message: FederationMessage) -> None:
        """Show a publication."""
        line = _json_line(message) if self._as_json else _plain_line(message)
        encoding = sys.stdout.encoding or "utf-8"
        try:
            sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            sys.stdout.flush()
        except BrokenPipeError as error:  # end cleanly first: the record is to be deleted
            self._reader_gone = error
        self._shown += 1

    def tell_established(self, *, partly: bool) -> None:
        """Show that what is published from now on comes, at gateways in reach or everywhere."""
        self._was_established = True
        say("established, but some gateways are out of reach" if partly else "established")

    def exit_code(self, seconds: float | None) -> int:
        """Return the exit code of a run that ended by itself; raises BrokenPipeError if nobody reads any more."""
        if self._reader_gone is not None:
            raise self._reader_gone
        if seconds is not None and not self._was_established:
            say(f"not established within {seconds:g} seconds")
            return 1
        if seconds is not None and self._count is not None and self._shown < self._count:
            say(f"{self._shown} of {self._count} publications came within {seconds:g} seconds")
            return 1
        return 0


def say(text: str) -> None:
    """Show something that is no publication."""
    sys.stderr.write(f"mqloom sub: {text}\n")
    sys.stderr.flush()


def _plain_line(message: FederationMessage) -> str:
    """Return one line whatever is in it; `--json` keeps every character."""
    try:
        text = message.payload.decode()
    except UnicodeDecodeError:
        text = f"base64:{base64.b64encode(message.payload).decode()}"
    return f"{message.topic} {text}".translate(_CONTROLS)


def _json_line(message: FederationMessage) -> str:
    payload: str | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    try:
        payload = message.payload.decode()
    except UnicodeDecodeError:
        payload_base64 = base64.b64encode(message.payload).decode()
    origin, epoch, sequence = message.publication_id
    line = Line(
        topic=message.topic,
        payload=payload,
        payload_base64=payload_base64,
        origin=origin,
        epoch=epoch,
        sequence=sequence,
        names=message.names,
    )
    return json.encode(line).decode()


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {9: "\t", 10: "\\n", 13: "\\r"}
"""Line ends would look like further publications, and a terminal obeys the others."""
