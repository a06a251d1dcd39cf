from mqloom.client.receipts import PACKET_IDS, Receipts
from mqloom.client.vocabulary import Deliver
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication


def delivery(sequence: int) -> Deliver:
    return Deliver(publication=Publication(GatewayId("A"), 1, sequence, 0, 0, "t", b"", 1), names=("n",))


def test_an_envelope_with_nothing_new_is_done_with_at_once() -> None:
    receipts = Receipts()
    receipt = receipts.arrived(0, b"envelope", 3, [])
    assert receipts.settled(receipt) is receipt
    assert len(receipts) == 0


def test_an_envelope_is_done_with_when_the_last_of_it_is_acknowledged() -> None:
    receipts = Receipts()
    receipt = receipts.arrived(0, b"envelope", 3, [delivery(1), delivery(2)])
    numbers = []
    while receipt.left:
        numbers.append(receipts.next_number())
        receipts.hold(receipt, numbers[-1], receipt.left.popleft())
    assert min(numbers) > PACKET_IDS
    assert receipts.settled(receipt) is None
    assert receipts.release(numbers[1]) is None
    assert receipts.release(numbers[1]) is None  # twice
    assert receipts.release(numbers[0]) is receipt
    assert receipt.packet == 3
    assert len(receipts) == 0


def test_an_envelope_that_comes_again_is_acknowledged_by_its_new_packet_id() -> None:
    receipts = Receipts()
    receipt = receipts.arrived(0, b"envelope", 3, [delivery(1)])
    number = receipts.next_number()
    receipts.hold(receipt, number, receipt.left.popleft())
    receipts.lost(1)
    assert receipt.packet == 3
    receipts.lost(0)
    assert receipt.packet == 0
    again = receipts.arrived(0, b"envelope", 9, [])  # the core has dropped what it knows
    assert again is receipt
    assert receipts.settled(again) is None
    assert receipts.release(number) is receipt
    assert receipt.packet == 9


def test_what_was_not_given_out_stays_for_when_it_comes_again() -> None:
    receipts = Receipts()
    receipt = receipts.arrived(0, b"envelope", 3, [delivery(1), delivery(2)])
    receipt.left.popleft()
    assert receipts.settled(receipt) is None
    assert list(receipts.arrived(0, b"envelope", 4, []).left) == [delivery(2)]


def test_what_nobody_holds_cannot_be_acknowledged() -> None:
    assert Receipts().release(PACKET_IDS + 1) is None


def test_the_same_envelope_by_two_legs_is_acknowledged_at_both_brokers() -> None:
    receipts = Receipts()
    one, other = receipts.arrived(0, b"envelope", 3, []), receipts.arrived(1, b"envelope", 7, [])
    assert (receipts.settled(other), receipts.settled(one)) == (other, one)
    assert (one.packet, other.packet) == (3, 7)


def test_what_came_by_a_connection_is_held_until_all_of_it_is_done_with() -> None:
    receipts = Receipts()
    receipt = receipts.arrived(1, b"envelope", 3, [delivery(1)])
    assert (receipts.holds(0), receipts.holds(1)) == (False, True)
    receipt.left.clear()
    receipts.lost(1)
    assert receipts.holds(1)
    receipts.settled(receipt)
    assert not receipts.holds(1)


def test_an_envelope_that_another_thread_acknowledges_is_done_with_once() -> None:
    receipts = Receipts()
    receipt = receipts.arrived(0, b"one", 7, [delivery(1)])
    taken = receipt.left.popleft()
    receipts.hold(receipt, receipts.next_number(), taken)
    assert receipts.release(PACKET_IDS + 1) is receipt
    assert receipts.settled(receipt) is None
    again = receipts.arrived(0, b"two", 8, [])
    receipts.hold(again, 5, taken)
    receipts.take_back(again, 5, taken)
    assert (list(again.left), again.held) == ([taken], 0)


def test_a_mark_may_count_only_when_nothing_that_came_before_is_still_to_be_taken() -> None:
    receipts = Receipts()
    first = receipts.arrived(0, b"one", 7, [delivery(1)])
    receipts.hold(first, 5, first.left.popleft())
    assert not receipts.is_all_but(first)
    second = receipts.arrived(0, b"two", 8, [delivery(2)])
    receipts.hold(second, 6, second.left.popleft())
    assert receipts.in_hand(6) == (second, delivery(2))
    receipts.release(6)
    assert not receipts.is_all_but(second)  # the first is in hand
    receipts.release(5)
    assert receipts.is_all_but(first)
