"""Subscribers in processes of their own: plain paho clients that decode what comes, and note what they want of it.

Those behind a bridge get everything and try their interest on it; those of a gateway get what they want. All clients
of a process share one thread, which waits for all their sockets at once: that costs less than a thread for each.
For traffic without filters paho would be the slowest part, so there is a bare reader too.
"""

import json
import selectors
import socket
import struct
import time
from array import array
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.lab.bench_publisher import connected, remaining_length
from mqloom.lab.bench_quotes import FIRST_NUMBER, PREFIX, Came
from mqloom.lab.stocks import Interest

MISC_EVERY_S: Final = 1.0
_HELLO: Final = b"\x10\x12\x00\x04MQTT\x04\x02\x00\x00\x00\x06mqlrdr"
_PREFIX: Final = PREFIX.encode()


class Wish(NamedTuple):
    """What a subscriber asks its broker for, and what it keeps of that: everything, if there is no interest."""

    topics: str
    qos: int
    interest: Interest | None


class Report(NamedTuple):
    """What came to the subscribers of a process since it was told to begin."""

    came: list[Came]
    cpu_s: float


class _Notes:
    """What one subscriber got: numbers it wanted, and when they came."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.numbers: array[int] = array("q")
        self.times: array[float] = array("d")

    def came(self) -> Came:
        return Came(self.numbers, self.times)


class _Process:
    """All subscribers of a process: what they note, and what they are asked."""

    def __init__(self, count: int) -> None:
        self.notes = [_Notes() for _ in range(count)]
        self.first = FIRST_NUMBER
        self.messages = 0
        """All that ever came, wanted or not."""
        self._begun_s = 0.0

    def answer(self, question: tuple[str, int]) -> object:
        what, first = question
        if what == "begin":
            self.first = first
            for notes in self.notes:
                notes.begin()
            self._begun_s = time.process_time()
            return None
        if what == "count":
            return self.messages, sum(len(notes.numbers) for notes in self.notes)
        return Report([notes.came() for notes in self.notes], time.process_time() - self._begun_s)


def subscribe_for(control: Connection, port: int, wishes: Sequence[Wish], *, is_bare: bool) -> None:
    """Be the process: subscribe, say so, and answer questions until the other end of the pipe is closed."""
    process = _Process(len(wishes))
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        clients: list[paho.Client] = []
        if is_bare:
            _Reader(port, wishes[0], process, selector)
        else:
            clients = [_client(port, wish, notes, process) for wish, notes in zip(wishes, process.notes, strict=True)]
            for client in clients:
                selector.register(client.socket(), selectors.EVENT_READ, client.loop_read)  # type: ignore[arg-type]
        control.send("ready")
        try:
            _serve(control, process, selector, clients)
        except (EOFError, KeyboardInterrupt):
            return


def _serve(
    control: Connection, process: _Process, selector: selectors.BaseSelector, clients: Sequence[paho.Client]
) -> None:
    misc_at = time.monotonic() + MISC_EVERY_S
    while True:
        for key, _ in selector.select(MISC_EVERY_S):
            if key.data is not None:
                key.data()
            else:
                control.send(process.answer(control.recv()))
        now = time.monotonic()
        for client in clients:
            if client.want_write():
                client.loop_write()
            if now >= misc_at:
                client.loop_misc()
        if now >= misc_at:
            misc_at = now + MISC_EVERY_S


def _client(port: int, wish: Wish, notes: _Notes, process: _Process) -> paho.Client:
    """Connect a paho client and subscribe; returns when the broker has granted it."""
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
    granted: list[object] = []
    client.on_connect = lambda client, *_: client.subscribe(wish.topics, wish.qos)
    client.on_subscribe = lambda *_: granted.append(None)
    client.on_message = _on_message(wish.interest, notes, process)
    client.connect("127.0.0.1", port, keepalive=3_600)
    deadline = time.monotonic() + 10.0
    while not granted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the broker on port {port} grants no subscription to {wish.topics}")
        client.loop(0.05)
    return client


def _on_message(interest: Interest | None, notes: _Notes, process: _Process) -> Callable[[Any, Any, Any], None]:
    """Return what an application does with a message: decode it, and look whether it wants it."""

    def on_message(_: object, __: object, message: paho.MQTTMessage) -> None:
        process.messages += 1
        quote = json.loads(message.payload)
        if interest is None or interest.wants(quote):
            number = quote["id"]
            if number >= process.first:  # else it is of an earlier run
                notes.numbers.append(number)
                notes.times.append(time.monotonic())

    return on_message


class _Reader:
    """Reads a subscription of QoS 0 with as little as possible: the number of each publication, and when it came."""

    def __init__(self, port: int, wish: Wish, process: _Process, selector: selectors.BaseSelector) -> None:
        self._broker = connected(port, _HELLO)
        self._process = process
        self._notes = process.notes[0]
        self._rest = b""
        topics = wish.topics.encode()
        body = b"\x00\x01" + struct.pack(">H", len(topics)) + topics + b"\x00"
        self._broker.sendall(b"\x82" + remaining_length(len(body)) + body)
        answer = self._broker.recv(5)
        if answer[:1] != b"\x90" or answer[-1] == 0x80:
            raise ConnectionError(f"the broker on port {port} grants no subscription to {wish.topics}")
        self._broker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        selector.register(self._broker, selectors.EVENT_READ, self.read)

    def read(self) -> None:
        """Take what has come."""
        data = self._broker.recv(1 << 18)
        if not data:
            raise ConnectionError("the broker has closed the reader's connection")
        now = time.monotonic()
        data = self._rest + data if self._rest else data
        place, end = 0, len(data)
        numbers = self._notes.numbers
        count = len(numbers)
        while place + 2 < end:
            size, head = data[place + 1], 2
            if size & 0x80:
                size, head = (size & 0x7F) | data[place + 2] << 7, 3
            if place + head + size > end:
                break
            self._process.messages += 1
            digits = place + head + 2 + (data[place + head] << 8 | data[place + head + 1]) + len(_PREFIX)
            number = int(data[digits : digits + 8])
            if number >= self._process.first:
                numbers.append(number)
            place += head + size
        self._rest = data[place:]
        self._notes.times.extend([now] * (len(numbers) - count))
