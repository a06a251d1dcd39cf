from mqloom.client import Federation
from mqloom.client.cores import Core, counts_of, new_core
from mqloom.client.traveller import Traveller
from mqloom.core.ids import ClientId
from mqloom.core.seen import Seen


def core(*, moves: bool) -> Core:
    return new_core(
        ClientId("c"), Federation(order_keys=("00" * 32,)), {}, Seen(), is_kept=True, moves=moves, has_tls=False
    )


def test_what_was_counted_is_read_while_the_loop_counts() -> None:
    traveller = core(moves=True)
    assert isinstance(traveller, Traveller)
    counts = traveller.legs[0].core.counts

    class Counting(int):
        def __gt__(self, other: int) -> bool:  # Counter asks that of each
            counts["just now"] += 1
            return super().__gt__(other)

    counts["received"] = Counting(3)
    assert counts_of(traveller)["received"] == 3


def test_what_was_counted_does_not_change_any_more() -> None:
    subscriber = core(moves=False)
    before = counts_of(subscriber)
    subscriber.counts["gaps"] += 1
    assert (before["gaps"], counts_of(subscriber)["gaps"]) == (0, 1)
