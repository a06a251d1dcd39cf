"""An overlay that fails costs only its advice."""

import pytest

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal

A, B, C, US = (GatewayId(name) for name in "ABCU")


class Answering:
    """An overlay that answers whatever it was told to, or raises it."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def spread(self, source: GatewayId | None) -> list[GatewayId]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer  # type: ignore[return-value]

    def route(self, wanted: object, source: GatewayId | None) -> list[GatewayId]:
        return self.spread(source)


def guarded(answer: object) -> tuple[GuardedOverlay, Counters]:
    counters = Counters()
    return GuardedOverlay(US, Answering(answer), [A, B, C], Journal(counters)), counters


def test_a_good_answer_is_taken_as_it_is() -> None:
    overlay, counters = guarded([C, A])
    assert overlay.spread(None) == overlay.route({A}, B, tuple) == [C, A]
    assert counters.snapshot() == {}


@pytest.mark.parametrize("answer", [RuntimeError("no"), None, [GatewayId("STRANGER")], 5])
def test_without_a_good_answer_the_primary_links_serve(answer: object) -> None:
    overlay, counters = guarded(answer)
    assert overlay.spread(None) == [A, B, C]
    assert overlay.spread(B) == [A, C]
    assert overlay.route({GatewayId("FAR")}, B, lambda: {C, B}) == [C]
    assert counters.reasons("plugin_failures") == {"overlay": 3}
