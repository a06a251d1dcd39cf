"""What comes to a subscriber, read: each publication once, and whatever is none of ours counted."""

from mqloom.client.inbox import COUNTS, Inbox
from mqloom.client.wishes import Wishes
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.core.records import Answer, Delivered, Wish, encode_answer, encode_envelope
from mqloom.core.seen import Seen


def envelope(*sequences: int, names: tuple[str, ...] = ("hot",)) -> bytes:
    publications = [Publication(GatewayId("A"), 1, each, 0, 0, "t", b"", 1) for each in sequences]
    return encode_envelope([Delivered(each, names) for each in publications])


def inbox(seen: Seen | None = None) -> Inbox:
    return Inbox(Wishes({"hot": Wish(topics="t")}), seen)


def sequences(box: Inbox, data: bytes) -> list[int]:
    return [each.publication.sequence for each in box.envelope(data)]


def test_a_publication_comes_once_whatever_envelopes_it_is_in() -> None:
    box = inbox()
    assert sequences(box, envelope(1, 2, 1)) == [1, 2]
    assert sequences(box, envelope(2, 3)) == [3]
    assert box.counts["duplicates"] == 2


def test_two_that_share_a_memory_give_each_out_once_between_them() -> None:
    seen = Seen()
    one, other = inbox(seen), inbox(seen)
    assert sequences(one, envelope(1, 2)) == [1, 2]
    assert sequences(other, envelope(2, 3)) == [3]
    assert (one.counts["duplicates"], other.counts["duplicates"]) == (0, 1)


def test_what_nobody_here_wants_is_counted_and_not_taken_for_had() -> None:
    """It may come once more, for a subscription that is ours."""
    box = inbox()
    assert sequences(box, envelope(1, names=("old",))) == []
    assert sequences(box, envelope(1, names=("old", "hot"))) == [1]
    assert box.counts["unwanted"] == 1


def test_only_the_names_that_are_wanted_are_told() -> None:
    (delivery,) = inbox().envelope(envelope(1, names=("old", "hot")))
    assert delivery.names == ("hot",)


def test_what_cannot_be_read_is_counted_by_its_kind() -> None:
    box = inbox()
    assert box.envelope(b"?") == []
    assert box.answer(b"?") is None
    assert box.here(b"?") is None
    assert box.answer(encode_answer(Answer(answer="established", name="other"))) is None
    found = {name: count for name, count in box.counts.items() if count}
    assert found == {
        "envelopes_malformed": 1,
        "answers_malformed": 1,
        "statuses_malformed": 1,
        "answers_unexpected": 1,
    }
    assert found.keys() <= COUNTS.keys()
