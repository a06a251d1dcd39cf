"""Which MQTT is spoken, what the broker allows, how long is waited."""

import asyncio
import random

import pytest

from mqloom.core.limits import RECONNECT_S_MAX, RECONNECT_S_MIN
from mqloom.gateway.drivers.mqtt import TOO_LARGE
from mqloom.gateway.drivers.protocols import MQTT_3, MQTT_5, QUESTION, Backoff, BrokerLimits, SpokenProtocol
from mqloom.gateway.interfaces import BrokerAddress


def asked(*answers: bytes) -> list[object]:
    """Ask a broker as often as it has answers, each on a connection of its own; return what is found each time."""

    async def whole() -> list[object]:
        left = list(answers)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert await reader.readexactly(len(QUESTION)) == QUESTION
            writer.write(left.pop(0))
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            spoken = SpokenProtocol(BrokerAddress("127.0.0.1", server.sockets[0].getsockname()[1]))
            found: list[object] = []
            for _ in answers:
                try:
                    found.append(await spoken.find())
                except ConnectionResetError as error:
                    found.append(str(error))
                spoken.doubt()
            return found

    return asyncio.run(whole())


def test_who_does_not_know_mqtt_5_is_spoken_to_in_mqtt_3() -> None:
    assert asked(b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00") == [MQTT_3, MQTT_3]


def test_who_lets_us_in_or_refuses_us_in_mqtt_5_speaks_it() -> None:
    assert asked(b"\x20\x03\x00\x00\x00", b"\x20\x03\x00\x87\x00") == [MQTT_5, MQTT_5]


def test_who_closes_without_a_word_is_tried_in_mqtt_3_now_and_then() -> None:
    silent = "it closes the connection without a word"
    assert asked(b"", b"", b"", b"\x20\x03\x00\x00\x00") == [silent, MQTT_3, silent, MQTT_5]


def test_an_answer_is_remembered_and_a_broker_that_is_away_is_told() -> None:
    async def scenario() -> None:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\x20\x02\x00\x01")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        spoken = SpokenProtocol(BrokerAddress("127.0.0.1", server.sockets[0].getsockname()[1]))
        assert await spoken.find() == MQTT_3
        server.close()
        await server.wait_closed()
        assert await spoken.find() == MQTT_3
        spoken.doubt()
        with pytest.raises(ConnectionRefusedError):
            await spoken.find()

    asyncio.run(scenario())


def test_waits_grow_up_to_a_bound_and_are_never_the_same_for_all() -> None:
    backoffs = [Backoff(random.Random(seed)) for seed in range(20)]
    rounds = [[backoff.next_s() for backoff in backoffs] for _ in range(8)]
    assert all(RECONNECT_S_MIN / 2 <= wait <= RECONNECT_S_MIN for wait in rounds[0])
    assert all(RECONNECT_S_MAX / 2 <= wait <= RECONNECT_S_MAX for wait in rounds[-1])
    assert all(len(set(waits)) == len(backoffs) for waits in rounds)
    backoffs[0].reset()
    assert backoffs[0].next_s() <= RECONNECT_S_MIN


@pytest.mark.parametrize(("size", "problem"), [(10, ""), (80, ""), (90, TOO_LARGE), (1000, TOO_LARGE)])
def test_what_is_too_large_for_the_broker_is_known_before_it_is_sent(size: int, problem: str) -> None:
    assert BrokerLimits(packet_bytes_max=100).problem("a", bytes(size)) == problem
    assert BrokerLimits().problem("a", bytes(size)) == ""


def test_user_properties_count_for_the_size_of_a_message() -> None:
    assert BrokerLimits(packet_bytes_max=100).problem("a", bytes(60), [("name", "x" * 40)]) == TOO_LARGE
