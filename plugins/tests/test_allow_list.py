import pytest

from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.subscription import Subscription
from mqloom.gateway.interfaces import SubscribeRequest
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.plugins import allow_list


def manager(settings: dict[str, object]) -> Manager:
    return Manager([LoadedPlugin("allow_list", "test", allow_list)], {"allow_list": settings})


def answer(client: str, settings: dict[str, object]) -> str | None:
    request = SubscribeRequest(GatewayId("north"), ClientId(client), "mine", Subscription.parse("stocks/#"))
    failures: list[str] = []
    answered = manager(settings).admit(request, lambda plugin, hook, error: failures.append(plugin))
    assert failures == []
    return answered


def test_without_settings_everybody_is_admitted() -> None:
    assert answer("anybody", {}) is None


@pytest.mark.parametrize("client", ["sensor-1", "sensor-", "dashboard"])
def test_a_client_on_the_list_is_admitted(client: str) -> None:
    assert answer(client, {"clients": ["sensor-*", "dashboard"]}) is None


@pytest.mark.parametrize("client", ["sensor", "Sensor-1", "my-sensor-1", "dashboard2", ""])
def test_a_client_not_on_the_list_is_refused_with_a_reason(client: str) -> None:
    assert answer(client, {"clients": ["sensor-*", "dashboard"]}) == (
        f"client {client!r} is not on the allow-list of 'north': ask the operator"
    )


def test_an_empty_list_admits_nobody() -> None:
    assert answer("ann", {"clients": []}) is not None


def test_mistakes_in_the_settings_are_explained() -> None:
    assert manager({"clients": ["a", 2], "client": []}).settings_problems() == [
        "plugins.settings.allow_list: unknown key 'client'; did you mean 'clients'?",
        "plugins.settings.allow_list: clients#2: expected text, got a whole number",
    ]


def test_settings_that_were_never_checked_refuse_rather_than_admit() -> None:
    request = SubscribeRequest(GatewayId("north"), ClientId("ann"), "mine", Subscription.parse("stocks/#"))
    failures: list[str] = []
    answered = manager({"client": ["bob"]}).admit(request, lambda plugin, hook, error: failures.append(plugin))
    assert answered is not None
    assert failures == ["allow_list"]
