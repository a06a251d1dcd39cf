import pytest

from mqloom.client.federation import Federation, federation_of
from mqloom.core.errors import LocalError
from mqloom.core.limits import ID_LENGTH_MAX


@pytest.mark.parametrize(
    ("text", "is_asked_for"), [("1", True), ("On", True), ("", False), ("0", False), ("no", False)]
)
def test_the_environment_decides_where_the_program_does_not(
    monkeypatch: pytest.MonkeyPatch, text: str, is_asked_for: bool
) -> None:
    monkeypatch.setenv("MQLOOM_FEDERATION", text)
    assert federation_of(None) == (Federation() if is_asked_for else None)


def test_the_program_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLOOM_FEDERATION", "1")
    assert federation_of(False) is None
    assert federation_of(Federation(token="t")) == Federation(token="t")
    monkeypatch.delenv("MQLOOM_FEDERATION")
    assert federation_of(None) is None
    assert federation_of(True) == Federation()


def test_an_environment_that_says_neither_yes_nor_no_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLOOM_FEDERATION", "perhaps")
    with pytest.raises(LocalError, match="set it to 1 or 0"):
        federation_of(None)


def test_names_are_bounded() -> None:
    with pytest.raises(LocalError, match="client"):
        Federation(client="x" * (ID_LENGTH_MAX + 1))
    with pytest.raises(LocalError, match="gateway"):
        Federation(gateway="x" * (ID_LENGTH_MAX + 1))


@pytest.mark.parametrize("text", ["", "zz", "00" * 31])
def test_what_is_no_key_is_told_at_once(text: str) -> None:
    with pytest.raises(LocalError, match="mqloom keys public"):
        Federation(order_keys=(text,))


@pytest.mark.parametrize("lease_s", [-1.0, 1e9])
def test_leases_are_bounded(lease_s: float) -> None:
    with pytest.raises(LocalError, match="lease_s"):
        Federation(lease_s=lease_s)


def test_keys_of_the_environment_count_where_the_program_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLOOM_PUBLIC_KEY", f"{'00' * 32}, {'11' * 32}")
    found = federation_of(True)
    assert found is not None
    assert [key.text for key in found.keys] == ["00" * 32, "11" * 32]
    own = Federation(order_keys=("22" * 32,))
    assert federation_of(own) == own
    still = federation_of(Federation(moves=False))
    assert still is not None
    assert still.keys == ()


def test_an_environment_with_something_else_for_a_key_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLOOM_PUBLIC_KEY", "secret")
    with pytest.raises(LocalError, match="MQLOOM_PUBLIC_KEY"):
        federation_of(True)
