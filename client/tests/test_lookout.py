"""Finding the gateway beside a broker: by its status, or by asking whose broker this is."""

import pytest

from mqloom.client.inbox import Heard, Inbox
from mqloom.client.limits import LOOK_S
from mqloom.client.lookout import Lookout
from mqloom.client.vocabulary import MessageReceived, Subscribe
from mqloom.client.wishes import Wishes
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Status, encode_status

EDGE = GatewayId("EDGE")


def status(name: str = EDGE, *, alive: bool = True, topic: str = "") -> MessageReceived:
    told = Status(alive=alive, gateway=GatewayId(name), version="1", epoch=7)
    return MessageReceived(topic=topic or layout.status(told.gateway), payload=encode_status(told))


@pytest.fixture
def inbox() -> Inbox:
    return Inbox(Wishes({}, lasting=True))


def test_a_gateway_that_is_not_named_is_asked_for_without_a_wildcard_after_a_while(inbox: Inbox) -> None:
    lookout = Lookout(inbox, None)
    assert lookout.begin(5.0) == Subscribe(topic=layout.all_status(), qos=1)
    assert lookout.look_at == 5.0 + LOOK_S
    assert lookout.look() == Subscribe(topic=layout.here(), qos=1)
    assert lookout.look_at is None
    here = status(topic=layout.here())
    assert lookout.hear(here) == Subscribe(topic=layout.status(EDGE), qos=1)


def test_one_that_is_named_is_asked_for_at_once_and_no_other_way(inbox: Inbox) -> None:
    lookout = Lookout(inbox, EDGE)
    assert lookout.begin(5.0) == Subscribe(topic=layout.status(EDGE), qos=1)
    assert lookout.look_at is None


def test_one_that_is_not_alive_is_known_by_name_and_not_found(inbox: Inbox) -> None:
    lookout = Lookout(inbox, None)
    assert lookout.hear(status(alive=False)) == Heard(EDGE, None)
    assert (lookout.nearest, lookout.gateway) == (EDGE, None)


def test_once_one_is_found_what_others_say_does_not_make_them_nearest(inbox: Inbox) -> None:
    lookout = Lookout(inbox, None)
    heard = lookout.hear(status())
    assert isinstance(heard, Heard)
    assert heard.status is not None
    lookout.take(heard.status)
    lookout.hear(status("FAR"))
    assert (lookout.nearest, lookout.gateway) == (EDGE, EDGE)


def test_what_is_no_status_is_counted_and_says_nothing(inbox: Inbox) -> None:
    lookout = Lookout(inbox, None)
    assert lookout.hear(MessageReceived(topic=layout.status(EDGE), payload=b"{")) is None
    assert lookout.hear(MessageReceived(topic=layout.here(), payload=b"{")) is None
    assert lookout.hear(status("LIAR", topic=layout.status(EDGE))) is None
    assert inbox.counts["statuses_malformed"] == 3
    assert lookout.nearest is None


def test_the_problems_say_which_topics_must_be_readable(inbox: Inbox) -> None:
    lookout = Lookout(inbox, None)
    assert layout.all_status() in lookout.nobody_here()
    lookout.take(Status(alive=True, gateway=EDGE, version="1", epoch=7))
    text = lookout.nobody_answers(ClientId("me"))
    assert layout.record(EDGE, ClientId("me")) in text
    assert layout.control(EDGE, ClientId("me")) in text
