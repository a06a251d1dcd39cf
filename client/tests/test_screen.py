import json

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from mqloom.client.messages import FederationMessage, message_of
from mqloom.client.screen import Screen
from mqloom.client.vocabulary import Deliver
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication

EDGE = GatewayId("EDGE1")


def message(topic: str, payload: bytes) -> FederationMessage:
    publication = Publication(EDGE, 7, 3, 0, 0, topic, payload, 1)
    delivery = Deliver(publication=publication, names=("#",))
    return message_of(delivery, qos=1, number=70_000, protocol=MQTTProtocolVersion.MQTTv311)


@pytest.mark.parametrize("as_json", [False, True])
def test_one_publication_is_one_line_whatever_is_in_it(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(count=None, as_json=as_json)
    screen.print(message("a\nb", "tab\there\r\n\x1b[2J\x85end ä".encode()))
    printed = capsys.readouterr().out
    assert printed.endswith("\n")
    assert not any(character in printed[:-1] for character in "\n\r\x1b")
    if as_json:
        assert json.loads(printed)["payload"] == "tab\there\r\n\x1b[2J\x85end ä"
    else:
        assert printed == "a\\nb tab\there\\r\\n\\x1b[2J\\x85end ä\n"


def test_json_has_what_is_no_text_and_the_id(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(count=None, as_json=True).print(message("a", b"\xff\x00"))
    assert json.loads(capsys.readouterr().out) == {
        "topic": "a",
        "payload_base64": "/wA=",
        "origin": EDGE,
        "epoch": 7,
        "sequence": 3,
        "names": ["#"],
    }


def test_it_is_full_after_so_many() -> None:
    screen = Screen(count=2, as_json=False)
    screen.print(message("a", b"1"))
    assert not screen.is_full
    screen.print(message("a", b"2"))
    assert screen.is_full
    assert screen.exit_code(10.0) == 1  # never established


def test_gateways_out_of_reach_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(count=None, as_json=False)
    screen.tell_established(partly=True)
    screen.tell_established(partly=False)
    text = "mqloom sub: established, but some gateways are out of reach\nmqloom sub: established\n"
    assert capsys.readouterr().err == text
    assert screen.exit_code(10.0) == 0
