"""What waits for a neighbour, joined with a broker that keeps the park and a neighbour that gets what is sent."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.publication import Publication
from mqloom.core.wire import decode
from mqloom.gateway.departures import Entry
from mqloom.gateway.flows import Mode
from mqloom.lab.flow_gate import LARGE, FlowGate, sequences

steps = st.tuples(
    st.sampled_from(
        ["post", "post", "post 0", "up", "lose", "give up", "give back", "take", "finish", "wait", "answer"]
    ),
    st.integers(1, 4),
)


class Model(FlowGate):
    """A neighbour that gets what is taken; of what is under way when the link is lost it may get nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.linked = False
        self.sent: list[Entry] = []
        self.got: dict[int, None] = {}  # in the order of the first time
        self.kept: list[int] = []

    def step(self, kind: str, amount: int, *, is_lossy: bool) -> None:
        if kind == "take" and self.linked:
            entries = self.take(amount)
            self.sent += entries
            self.get([] if is_lossy else entries)
        elif kind == "finish":
            finished, self.sent = self.sent[:amount], self.sent[amount:]
            self.get(finished)
            self.finish(finished)
        elif kind == "post":
            self.kept += self.post(amount)
        elif kind == "post 0":
            self.post(amount, qos=0)
        elif kind == "wait":
            self.now += 4.0 * amount
            self.flow.wake(self.now)
            self.drain()
        else:
            self.happen(kind, amount)

    def happen(self, kind: str, amount: int) -> None:
        if kind == "up" and not self.linked:
            self.linked = True
            self.up()
        elif kind == "lose" and self.linked:
            self.linked = False
            self.flow.post_again([entry for entry in self.sent if entry.duty is not None])
            self.sent = []
            self.lose()
        elif kind == "give up" and not self.linked:
            self.give_up()
        elif kind == "give back":
            self.give_back(amount)
        elif kind == "answer":
            self.answer()

    def get(self, entries: list[Entry]) -> None:
        self.got.update(dict.fromkeys(sequences(entries)))

    def settle(self) -> None:
        for kind in ("answer", "up", "give back", "take", "finish") * 20:
            self.step(kind, LARGE, is_lossy=False)

    def parked(self) -> Iterator[int]:
        for _, data in self.park:
            for message in decode(data).messages:
                assert isinstance(message, Publication)
                yield message.sequence


def judge(script: list[tuple[str, int]], *, is_lossy: bool) -> Model:
    model = Model()
    model.answers = False
    acknowledged: set[int] = set()
    for step in script:
        model.step(*step, is_lossy=is_lossy)
        acknowledged.update(model.of_clients())
        # Whatever is acknowledged upstream is with the neighbour, or with our broker.
        assert acknowledged & set(model.kept) <= set(model.got) | set(model.parked())
    model.settle()
    acknowledged.update(model.of_clients())
    assert acknowledged == set(model.kept) <= set(model.got)
    assert model.park == []
    assert model.flow.held == 0
    assert model.flow.mode is Mode.DIRECT
    return model


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=60))
def test_over_a_good_link_everything_goes_out_in_order_however_it_was_kept(script: list[tuple[str, int]]) -> None:
    model = judge(script, is_lossy=False)
    assert list(model.got) == sorted(model.got)


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=60))
def test_over_a_bad_link_everything_of_qos_1_arrives(script: list[tuple[str, int]]) -> None:
    judge(script, is_lossy=True)
