"""The experiment on an outage notices what it is for."""

import pytest

from mqloom.core.limits import LINK_WINDOW
from mqloom.lab.experiment import tell_nobody
from mqloom.lab.experiments import custody_outage
from mqloom.lab.experiments.custody_outage import Size
from mqloom.lab.gateway_parks import Park
from mqloom.lab.packets import Publish

SMALL = Size(rate=40, before_s=2.0, outage_s=12.0, after_s=2.0)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custody_outage, "QUICK", SMALL)


def missed() -> set[str]:
    return {row.name for row in custody_outage.run(1, True, tell_nobody).rows if not row.ok}


def test_nothing_is_missed() -> None:
    assert missed() == set()


def test_it_notices_a_park_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: Park, messages: list[Publish]) -> None:
        self.endpoint.acknowledge(tuple(message.packet for message in messages[:1]))
        received(self, messages[1:])

    received = Park._received
    monkeypatch.setattr(Park, "_received", forget)
    assert "beyond the link: lost" in missed()


def test_it_notices_what_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuttering(custody_outage.Taker):
        def take(self) -> None:
            self._subscriber.life.delivered.extend(self._subscriber.life.delivered[:1])
            super().take()

    monkeypatch.setattr(custody_outage, "Taker", Stuttering)
    assert missed() == {"local: duplicated", "beyond the link: duplicated"}


def test_it_notices_a_gateway_that_holds_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custody_outage, "INTAKE_WINDOW", 100 - LINK_WINDOW - SMALL.broker_window)
    assert missed() == {"held by the gateway, at most"}
