from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.client import Client, Federation
from mqloom.client.happenings import Happenings
from mqloom.client.limits import HAPPENINGS_MAX
from mqloom.client.vocabulary import Connected, ConnectionLost, MessageReceived, WishRemoved
from mqloom.client.ways import StrayReceived


def message(qos: int, number: int = 0) -> MessageReceived:
    return MessageReceived(topic="t", payload=b"%d" % number, qos=qos, retain=False)


def moved_client() -> Client:
    federation = Federation(order_keys=("00" * 32,))
    return Client(CallbackAPIVersion.VERSION2, "c", clean_session=False, federation=federation)


def emptied(happenings: Happenings) -> list[object]:
    found: list[object] = []
    while (entry := happenings.next()) is not None:
        found.append(entry[1])
    return found


def test_what_happens_is_handled_in_its_order() -> None:
    happenings = Happenings()
    happenings.add_from_background(1, Connected(resumed=False), 0)
    happenings.add(0, ConnectionLost())
    happenings.add_from_background(1, message(1), 7)
    assert happenings.next() == (1, Connected(resumed=False), 0)
    assert happenings.next() == (0, ConnectionLost(), 0)
    assert happenings.next() == (1, message(1), 7)
    assert happenings.next() is None


def test_what_comes_at_qos_0_for_a_loop_that_is_busy_is_bounded_and_counted() -> None:
    happenings = Happenings()
    for _ in range(HAPPENINGS_MAX + 3):
        happenings.add_from_background(1, message(0), 0)
    happenings.add_from_background(1, message(1), 7)  # of these the broker sends only so many
    happenings.add_from_background(1, ConnectionLost(), 0)
    happenings.add(None, WishRemoved(name="n"))
    assert happenings.dropped == 3
    found = emptied(happenings)
    assert found == [message(0)] * HAPPENINGS_MAX + [message(1), ConnectionLost(), WishRemoved(name="n")]


def test_what_comes_for_a_subscription_of_the_programs_own_is_bounded_like_the_rest() -> None:
    happenings = Happenings()
    strays = [StrayReceived(MQTTMessage(number, b"t")) for number in (0, 7)]
    strays[1].message.qos = 1
    for _ in range(HAPPENINGS_MAX + 1):
        happenings.add_from_background(1, strays[0], 0)
    happenings.add_from_background(1, strays[1], 7)
    assert happenings.dropped == 1
    happenings.add_from_background(1, Connected(resumed=True), 0)
    assert strays[1] not in emptied(happenings)  # it comes again


def test_what_a_broker_sends_again_after_a_lost_connection_waits_once() -> None:
    happenings = Happenings()
    happenings.add_from_background(2, message(1, 1), 1)
    for life in range(5):
        happenings.add_from_background(1, message(1, 2), life << 16)
        happenings.add_from_background(1, message(0, 3), 0)
        happenings.add_from_background(1, ConnectionLost(), 0)
        happenings.add_from_background(1, Connected(resumed=True), 0)
    happenings.add_from_background(1, message(1, 2), 9)
    found = emptied(happenings)
    assert [found.count(message(1, 1)), found.count(message(1, 2)), found.count(message(0, 3))] == [1, 1, 5]


def test_what_a_broker_that_has_lost_our_session_had_sent_is_kept() -> None:
    happenings = Happenings()
    happenings.add_from_background(1, message(1), 1)
    happenings.add_from_background(1, ConnectionLost(), 0)
    happenings.add_from_background(1, Connected(resumed=False), 0)
    assert emptied(happenings) == [message(1), ConnectionLost(), Connected(resumed=False)]


def test_what_legs_of_an_earlier_life_hear_changes_nothing_in_the_next() -> None:
    """They count from 0 there, too: a connection that they lose is not the one that the client has now."""
    client = moved_client()
    shim = client._shim
    assert shim is not None
    shim.connected(resumed=False)
    shim.turn()
    tell = shim._ways._tell
    shim._ways.own = 2  # it was moved twice
    shim.begin_again()
    shim.connected(resumed=True)
    shim.turn()
    tell(0, ConnectionLost(), 0)
    shim.turn()
    assert shim._up == {0}


def test_what_was_dropped_is_told_through_all_lives() -> None:
    client = moved_client()
    shim = client._shim
    assert shim is not None
    shim.connected(resumed=False)
    shim.turn()
    for life in (1, 2):
        for _ in range(HAPPENINGS_MAX + 1):
            shim._ways._tell(1, message(0), 0)
        assert client.stats().dropped == life
        shim._ways.own = 2
        shim.begin_again()
