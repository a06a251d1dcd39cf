from mqloom.client.receipts import PACKET_IDS, Receipts, Stray
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


def test_a_later_life_gives_no_number_that_an_earlier_one_has_given() -> None:
    first = Receipts()
    number = first.next_number()
    assert first.for_next_life().next_number() > number


def test_what_is_held_when_a_life_ends_is_held_in_the_next_by_whatever_connection_it_comes_again() -> None:
    first = Receipts()
    receipt = first.arrived(2, b"envelope", 3, [delivery(1)])
    number = first.next_number()
    first.hold(receipt, number, receipt.left.popleft())
    later = first.for_next_life()
    assert (len(later), first.holds(2), later.holds(0)) == (1, False, False)
    again = later.arrived(0, b"envelope", 9, [])  # the core has dropped what it knows
    assert later.settled(again) is None
    assert later.holds(0)
    assert later.next_number() > number
    assert later.release(number) is again
    assert (again.leg, again.packet, len(later)) == (0, 9, 0)


def test_what_a_life_had_not_given_out_the_next_one_gives_out() -> None:
    first = Receipts()
    first.arrived(0, b"envelope", 3, [delivery(1)])
    later = first.for_next_life()
    assert list(later.arrived(0, b"envelope", 4, []).left) == [delivery(1)]


def test_what_was_taken_before_it_comes_again_in_a_later_life_is_done_with() -> None:
    first = Receipts()
    receipt = first.arrived(0, b"envelope", 3, [delivery(1)])
    first.hold(receipt, 5, receipt.left.popleft())
    later = first.for_next_life()
    done = later.release(5)
    assert done is not None
    assert done.packet == 0  # nobody waits for that acknowledgement
    again = later.arrived(0, b"envelope", 4, [])
    assert later.settled(again) is again


def test_back_at_a_broker_that_it_had_left_it_still_holds_what_had_come_from_there() -> None:
    receipts = Receipts()
    receipt = receipts.arrived(0, b"envelope", 3, [delivery(1)])
    receipts.hold(receipt, 5, receipt.left.popleft())
    receipts.lost(0)
    again = receipts.arrived(2, b"envelope", 9, [])
    assert receipts.settled(again) is None
    assert (receipts.holds(0), receipts.holds(2)) == (False, True)
    other = receipts.arrived(0, b"envelope", 4, [])  # one broker that keeps it is enough
    assert receipts.settled(other) is other
    assert receipts.release(5) is again
    assert (again.leg, again.packet) == (2, 9)


def test_when_subscriptions_are_over_nothing_is_held() -> None:
    receipts = Receipts()
    receipt = receipts.arrived(0, b"envelope", 3, [delivery(1)])
    number = receipts.next_number()
    receipts.hold(receipt, number, receipt.left.popleft())
    receipts.forget()
    assert not receipts.holds(0)
    assert receipts.release(number) is None


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


def test_a_stray_is_held_until_it_is_acknowledged() -> None:
    receipts = Receipts()
    number = receipts.hold_stray(Stray(1, 70_000, 2))
    assert number > PACKET_IDS
    assert (receipts.holds(0), receipts.holds(1)) == (False, True)
    assert receipts.release(number) is None
    assert receipts.release_stray(number) == Stray(1, 70_000, 2)
    assert receipts.release_stray(number) is None
    assert not receipts.holds(1)


def test_a_stray_whose_connection_is_lost_comes_again_and_is_not_held() -> None:
    receipts = Receipts()
    lost, other = receipts.hold_stray(Stray(1, 70_000, 1)), receipts.hold_stray(Stray(2, 70_000, 1))
    receipts.lost(1)
    assert receipts.release_stray(lost) is None
    assert receipts.release_stray(other) is not None
