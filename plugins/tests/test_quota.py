import hashlib

from mqloom.core.ids import ClientId, GatewayId
from mqloom.gateway.interfaces import RecordRequest
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.plugins import quota

TOKENS = {"desk": f"sha256:{hashlib.sha256(b'open sesame').hexdigest()}"}


def answer(settings: dict[str, object], client: str = "ann", token: str = "", size: int = 100, count: int = 1) -> str:
    manager = Manager([LoadedPlugin("quota", "test", quota)], {"quota": settings})
    failures: list[str] = []
    request = RecordRequest(GatewayId("north"), ClientId(client), token, size, count, 7)
    answered = manager.admit_record(request, lambda plugin, hook, error: failures.append(plugin))
    assert failures == []
    return answered or ""


def test_without_settings_everything_is_admitted() -> None:
    assert answer({}) == ""


def test_a_record_past_a_limit_is_refused_with_what_to_do() -> None:
    assert answer({"record_bytes_max": 100, "subscriptions_max": 1, "changes_per_min_max": 7}) == ""
    assert answer({"record_bytes_max": 99}).startswith("100 bytes in a record, the quota of a client is 99")
    assert answer({"subscriptions_max": 1}, count=2).startswith("2 subscriptions, the quota")
    assert answer({"changes_per_min_max": 6}).startswith("7 records a minute, the quota")


def test_a_client_with_a_token_must_show_it_and_nobody_else() -> None:
    assert answer({"tokens": TOKENS}) == ""
    assert answer({"tokens": TOKENS}, "desk", "open sesame") == ""
    for token in ("", "open", TOKENS["desk"], "\ud800"):
        assert "must show its token" in answer({"tokens": TOKENS}, "desk", token)
    assert "must show its token" in answer({"tokens": TOKENS}, "desk", size=0, count=0)


def test_mistakes_in_the_settings_are_explained() -> None:
    assert quota.mqloom_check({}) == []
    problems = quota.mqloom_check({"subscriptions_max": 0, "tokens": {"desk": "secret"}, "token": {}})
    assert len(problems) == 3
