"""Who wants what among plain clients: subscriptions live as long as sessions, and what is kept is known again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.errors import RecordError
from mqloom.plugins import plain_clients
from mqloom.plugins.plain_clients import PlainClients


def test_what_several_want_is_wanted_until_nobody_does() -> None:
    clients = PlainClients()
    clients.subscribed("ann", "a/#")
    clients.subscribed("ann", "a/#")
    clients.subscribed("bob", "a/#")
    clients.subscribed("bob", "b")
    assert list(clients.filters) == ["a/#", "b"]
    clients.unsubscribed("ann", "a/#")
    clients.unsubscribed("ann", "never")
    assert list(clients.filters) == ["a/#", "b"]
    clients.ended("bob")
    assert list(clients.filters) == []
    clients.check()


def test_a_clean_session_ends_with_its_connection_another_does_not() -> None:
    clients = PlainClients()
    for name, clean in (("clean", True), ("kept", False)):
        clients.connected(name, clean=clean)
        clients.subscribed(name, name)
        clients.left(name)
    assert list(clients.filters) == ["kept"]
    clients.connected("kept", clean=False)
    assert list(clients.filters) == ["kept"]
    clients.connected("kept", clean=True)
    assert list(clients.filters) == []


def test_of_one_whose_connecting_was_not_heard_subscriptions_stay() -> None:
    clients = PlainClients()
    clients.subscribed("ann", "a")
    clients.left("ann")
    assert list(clients.filters) == ["a"]


def test_our_own_clients_do_not_count() -> None:
    clients = PlainClients()
    clients.connected("mqloom-EAST", clean=False)
    clients.subscribed("mqloom-EAST", "stocks/#")
    assert list(clients.filters) == []


def test_past_the_bound_subscriptions_are_passed_over_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_clients, "KNOWN_MAX", 2)
    clients = PlainClients()
    for number in range(3):
        clients.subscribed("ann", f"a/{number}")
    assert list(clients.filters) == ["a/0", "a/1"]
    assert clients.overlooked == 1
    clients.unsubscribed("ann", "a/0")
    clients.subscribed("ann", "a/3")
    assert list(clients.filters) == ["a/1", "a/3"]


def test_one_client_does_not_take_the_room_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_clients, "PLAIN_FILTERS_PER_CLIENT_MAX", 2)
    clients = PlainClients()
    for number in range(5):
        clients.subscribed("ann", f"a/{number}")
    clients.subscribed("bob", "b")
    clients.check()
    assert list(clients.filters) == ["a/0", "a/1", "b"]
    assert (clients.overlooked, clients.overlooked_of) == (3, "ann")


def test_of_whom_everything_is_passed_over_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_clients, "KNOWN_MAX", 0)
    clients = PlainClients()
    clients.subscribed("ann", "a")
    assert not clients.knows("ann")


def test_what_is_kept_is_known_again_and_ends_as_it_would_have() -> None:
    before = PlainClients()
    before.connected("clean", clean=True)
    before.subscribed("clean", "a")
    before.connected("kept", clean=False)
    before.subscribed("kept", "b")
    after = PlainClients()
    after.subscribed("kept", "c")  # heard already: newer than what was kept
    after.restore(before.encode())
    assert list(after.filters) == ["a", "c"]
    after.left("clean")
    assert list(after.filters) == ["c"]
    after.check()


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[]", b'{"version": 2, "clients": {}}', b'{"clients": {"a": {}}}'])
def test_what_cannot_be_read_is_an_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        PlainClients().restore(data)


def test_too_much_is_neither_kept_nor_read(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = PlainClients()
    clients.subscribed("ann", "a" * 100)
    data = clients.encode()
    monkeypatch.setattr(plain_clients, "KEPT_BYTES_MAX", 50)
    with pytest.raises(RecordError):
        clients.encode()
    with pytest.raises(RecordError):
        PlainClients().restore(data)


NAMES = st.sampled_from(["ann", "bob"])
STEPS = st.one_of(
    st.tuples(st.just("connected"), NAMES, st.booleans()),
    st.tuples(st.sampled_from(["subscribed", "unsubscribed"]), NAMES, st.sampled_from(["a", "b/#"])),
    st.tuples(st.sampled_from(["left", "ended"]), NAMES, st.none()),
)


@given(st.lists(STEPS, max_size=30))
def test_it_is_what_plain_sets_would_be(script: list[tuple[str, str, bool | str | None]]) -> None:
    clients = PlainClients()
    wanted: dict[str, set[str]] = {"ann": set(), "bob": set()}
    clean = {"ann": False, "bob": False}
    for what, name, value in script:
        if isinstance(value, bool):
            clients.connected(name, clean=value)
            wanted[name] = set() if value else wanted[name]
            clean[name] = value
        elif isinstance(value, str):
            getattr(clients, what)(name, value)
            (wanted[name].add if what == "subscribed" else wanted[name].discard)(value)
        else:
            getattr(clients, what)(name)
            if what == "ended" or clean[name] or not wanted[name]:
                wanted[name], clean[name] = set(), False
        clients.check()
    assert clients.filters == tuple(sorted(wanted["ann"] | wanted["bob"]))


def test_a_broker_that_starts_again_has_lost_those_who_came_clean_before_and_nobody_else() -> None:
    clients = PlainClients()
    for name, clean in (("clean", True), ("kept", False)):
        clients.connected(name, clean=clean)
        clients.subscribed(name, name)
    clients.subscribed("unknown", "unknown")
    assert not clients.runs(100)
    assert not clients.runs(110)
    clients.lost()
    clients.connected("back", clean=True)  # these lines of the log were kept for us
    clients.subscribed("back", "back")
    assert clients.runs(3)
    assert list(clients.filters) == ["back", "kept", "unknown"]
    assert not clients.runs(13)
    clients.check()


def test_a_broker_that_starts_again_and_may_have_told_of_some_before_we_were_back_ends_nobody() -> None:
    clients = PlainClients()
    clients.connected("clean", clean=True)
    clients.subscribed("clean", "a")
    clients.runs(100)
    clients.lost()
    assert not clients.runs(3, is_complete=False)
    assert not clients.runs(13)
    assert list(clients.filters) == ["a"]


def test_a_connection_that_was_lost_for_another_reason_ends_nobody() -> None:
    clients = PlainClients()
    clients.connected("clean", clean=True)
    clients.subscribed("clean", "a")
    clients.runs(100)
    clients.lost()
    assert not clients.runs(100)  # retained: it has been told before
    assert list(clients.filters) == ["a"]


@pytest.mark.parametrize(("uptime_s", "wanted"), [(99, ["kept"]), (100, ["clean", "kept"]), (500, ["clean", "kept"])])
def test_a_broker_that_started_again_while_the_gateway_did_not_run_is_seen_by_what_was_kept(
    uptime_s: int, wanted: list[str]
) -> None:
    before, after = PlainClients(), PlainClients()
    for name, clean in (("clean", True), ("kept", False)):
        before.connected(name, clean=clean)
        before.subscribed(name, name)
    before.runs(100)
    after.restore(before.encode())
    after.runs(uptime_s)
    assert list(after.filters) == wanted
