"""Without a federation the client is paho's: the same bytes to a broker, and the same face to a program."""

import inspect
import socket
import threading
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

import mqloom.client

WAIT_S_MAX = 10.0
V311, V5 = MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5


class Recorder:
    """A broker in miniature: it accepts one client, answers what must be answered, and keeps all that it is sent."""

    def __init__(self, protocol: MQTTProtocolVersion) -> None:
        self.packets: list[bytes] = []
        self._no_properties = b"\0" if protocol == V5 else b""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def join(self) -> list[bytes]:
        self._thread.join(WAIT_S_MAX)
        self._server.close()
        return self.packets

    def _serve(self) -> None:
        self._server.settimeout(WAIT_S_MAX)
        connection, _ = self._server.accept()
        with connection, connection.makefile("rb") as stream:
            connection.settimeout(WAIT_S_MAX)
            while (first := stream.read(1)) != b"":
                length, header = 0, first
                for shift in range(0, 28, 7):
                    digit = stream.read(1)
                    header += digit
                    length += (digit[0] & 127) << shift
                    if digit[0] < 128:
                        break
                body = stream.read(length)
                self.packets.append(header + body)
                for answer in self._answers(first[0], body):
                    connection.sendall(bytes([answer[0], len(answer) - 1]) + answer[1:])

    def _answers(self, first: int, body: bytes) -> list[bytes]:
        match first & 0xF0:
            case 0x10:
                return [b"\x20\0\0" + self._no_properties]
            case 0x80:
                message = b"\x32\0\1t" + b"\0\7" + self._no_properties + b"payload"
                return [b"\x90" + body[:2] + self._no_properties + b"\1", message]
            case 0xA0:
                return [b"\xb0" + body[:2] + (b"\0\0" if self._no_properties else b"")]
            case 0x30 if first & 0x06:
                start = 2 + int.from_bytes(body[:2], "big")
                return [(b"\x40" if first & 0x02 else b"\x50") + body[start : start + 2]]
            case 0x60:
                return [b"\x70" + body[:2]]
            case 0xC0:
                return [b"\xd0"]
        return []


def program(make: Callable[..., paho.Client], protocol: MQTTProtocolVersion) -> list[bytes]:
    """Do a little of everything; return what the broker was sent."""
    recorder = Recorder(protocol)
    done: dict[str, threading.Event] = {name: threading.Event() for name in ("connect", "subscribe", "message", "gone")}
    client = make(CallbackAPIVersion.VERSION2, "the-same", userdata=done, protocol=protocol)
    client.username_pw_set("somebody", "secret")
    client.will_set("will/topic", b"gone", 1, retain=True)
    client.on_connect = lambda _c, data, *_: data["connect"].set()
    client.on_subscribe = lambda _c, data, *_: data["subscribe"].set()
    client.on_message = lambda _c, data, _m: data["message"].set()
    client.on_unsubscribe = lambda _c, data, *_: data["gone"].set()
    client.connect("127.0.0.1", recorder.port, keepalive=33)
    client.loop_start()
    assert done["connect"].wait(WAIT_S_MAX)
    client.subscribe("stocks/#", qos=1) if protocol == V311 else client.subscribe("t", options=SubscribeOptions(qos=1))
    assert done["subscribe"].wait(WAIT_S_MAX)
    assert done["message"].wait(WAIT_S_MAX)
    properties = None
    if protocol == V5:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho has no types there
        properties.ContentType = "text/plain"
    for qos in (0, 1, 2):
        client.publish("mqloom/v1/is/nothing/special", f"payload {qos}", qos, properties=properties).wait_for_publish(5)
    client.unsubscribe("stocks/#")
    assert done["gone"].wait(WAIT_S_MAX)
    client.disconnect()
    client.loop_stop()
    return recorder.join()


@pytest.mark.parametrize("protocol", [V311, V5])
def test_a_broker_sees_no_difference(protocol: MQTTProtocolVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MQLOOM_FEDERATION", raising=False)
    theirs = program(paho.Client, protocol)
    assert len(theirs) > 7
    assert program(mqloom.client.Client, protocol) == theirs


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_nothing_of_paho_is_missing() -> None:
    assert public(paho.Client) <= public(mqloom.client.Client)
    assert issubclass(mqloom.client.Client, paho.Client)


@pytest.mark.parametrize("name", [*sorted(public(paho.Client)), "__init__"])
def test_every_method_takes_what_paho_takes(name: str) -> None:
    theirs, ours = getattr(paho.Client, name), getattr(mqloom.client.Client, name)
    if not callable(theirs):
        return
    expected: list[Any] = [(each.name, each.kind, each.default) for each in parameters(theirs)]
    found = [(each.name, each.kind, each.default) for each in parameters(ours)]
    assert found[: len(expected)] == expected
    assert all(kind is inspect.Parameter.KEYWORD_ONLY for _, kind, _ in found[len(expected) :])


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def test_a_filter_on_the_content_needs_a_federation() -> None:
    client = mqloom.client.Client(CallbackAPIVersion.VERSION2, federation=False)
    with pytest.raises(mqloom.core.errors.LocalError, match="federation=True"):
        client.subscribe("stocks/#", where="volume > 3")
    with pytest.raises(mqloom.core.errors.LocalError, match="federation=True"):
        client.stats()
    with pytest.raises(mqloom.core.errors.LocalError, match="federation=True"):
        client.unsubscribe("stocks/#", where="volume > 3")
