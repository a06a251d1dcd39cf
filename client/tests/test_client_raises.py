"""Callbacks that raise on what has come in the background: that connection stays and its broker sends nothing again."""

import contextlib
from collections.abc import Iterator

import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from mqloom.client import Client
from mqloom.client.shim import Shim
from mqloom.client.vocabulary import MessageReceived, WishAdded
from mqloom.client.ways import StrayReceived
from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.core.records import Delivered, Wish, encode_envelope

A = GatewayId("A")


class Program:
    """A program whose callback raises at some of its calls; no loop runs, and nothing goes to a broker."""

    def __init__(self, *, acknowledges_itself: bool) -> None:
        self.client = Client(CallbackAPIVersion.VERSION2, "c", manual_ack=acknowledges_itself, federation=True)
        self.came: list[bytes | bytearray] = []
        self.raises_at: set[int] = set()
        self.acknowledged: list[tuple[int, int, int]] = []
        self._acknowledges_itself = acknowledges_itself
        self.client.on_message = self._on_message
        assert self.client._shim is not None
        self.shim: Shim = self.client._shim
        self.shim._ways.acknowledge = self._acknowledge  # type: ignore[method-assign]
        self.shim.connected(resumed=True)
        self.shim.request(WishAdded(name="n", wish=Wish(topics="t")))
        self.shim._up.add(1)

    def turns(self) -> int:
        """Let the loop take turns until nothing is due; return how many of them a callback has ended."""
        number = 0
        while True:
            try:
                self.shim.turn()
            except RuntimeError:
                number += 1
            else:
                return number

    def _acknowledge(self, number: int, packet: int, qos: int = 1) -> MQTTErrorCode:
        self.acknowledged.append((number, packet, qos))
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _on_message(self, _client: object, _data: object, message: MQTTMessage) -> None:
        self.came.append(message.payload)
        if len(self.came) in self.raises_at:
            raise RuntimeError("not now")
        if self._acknowledges_itself:
            self.client.ack(message.mid, message.qos)


@pytest.fixture(params=[False, True], ids=["paho acknowledges", "the program does"])
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    program = Program(acknowledges_itself=request.param)
    yield program
    with contextlib.suppress(RuntimeError):
        program.client.disconnect()


def test_what_an_envelope_still_holds_is_given_out_when_the_loop_runs_again(program: Program) -> None:
    publications = [Publication(A, 1, number, 0, 0, "t", b"%d" % number, 1) for number in (1, 2, 3)]
    payload = encode_envelope([Delivered(each, ("n",)) for each in publications])
    envelope = MessageReceived(topic=layout.out(A, program.shim.client), payload=payload, qos=1, retain=False)
    program.shim._ways._tell(1, envelope, 7)
    program.raises_at = {1, 3}
    assert program.turns() == 2
    assert program.came == [b"1", b"1", b"2", b"2", b"3"]
    assert program.acknowledged == [(1, 7, 1)]


def test_what_was_for_a_subscription_of_its_own_is_given_out_again(program: Program) -> None:
    message = MQTTMessage(9, b"t")
    message.qos, message.payload = 1, b"stray"
    program.shim._ways._tell(1, StrayReceived(message), 7)
    program.raises_at = {1}
    assert program.turns() == 1
    assert program.came == [b"stray", b"stray"]
    assert program.acknowledged == [(1, 7, 1)]
