import itertools
from pathlib import Path

import pytest

from mqloom.core.errors import ConfigurationError
from mqloom.gateway.key_file import (
    ORDER_KIND,
    Step,
    is_open_to_others,
    keyring_in,
    new_key,
    order_keys_in,
    read_keys,
    rotated,
    write_keys,
)


def problems_of(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_keys(path)
    return caught.value.problems


def test_a_file_that_is_written_is_read_again_and_only_its_owner_may(tmp_path: Path) -> None:
    path, key = tmp_path / "keys", new_key("sending")
    write_keys(path, [key], is_new=True)
    assert read_keys(path) == [key]
    assert path.stat().st_mode & 0o777 == 0o600
    assert not is_open_to_others(path)
    ring = keyring_in(path)
    assert (ring.sending.name, ring.accepted, ring.retired) == (key.id, (), ())


def test_at_every_step_of_a_rotation_whoever_is_one_step_behind_reads_the_others(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    tables = [new_key("sending")]
    write_keys(path, tables, is_new=True)
    rings, steps = [keyring_in(path)], []
    for _ in range(7):
        tables, step = rotated(tables, new_key("accepted"))
        write_keys(path, tables, is_new=False)
        assert path.stat().st_mode & 0o777 == 0o600
        assert read_keys(path) == tables
        rings.append(keyring_in(path))
        steps.append(step)
    assert steps == [*Step, *Step, Step.ADDED]
    for before, after in itertools.pairwise(rings):
        assert before.find(after.sending.id) == after.sending
        assert after.find(before.sending.id) == before.sending
    assert rings[0].sending != rings[3].sending
    assert rings[0].sending in rings[3].retired
    assert rings[4].retired == ()


def test_mistakes_in_a_file_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    assert "`mqloom keys new` writes one" in problems_of(path, "version = 1")[0]
    assert "is no file of keys" in problems_of(path, 'version = 2\n[[keys]]\nid = "x"\nstate = "sending"')[0]
    assert "is not TOML" in problems_of(path, "=")[0]
    short = '[[keys]]\nid = "00000000"\nstate = "sending"\nsecret = "ab"\n'
    assert "its secret is not 32 bytes" in problems_of(path, f"version = 1\n{short}")[0]
    other = f'[[keys]]\nid = "00000000"\nstate = "accepted"\nsecret = "{"ab" * 32}"\n'
    first, second = problems_of(path, f"version = 1\n{other}")
    assert "its secret is that of" in first
    assert second == "0 keys of kind 'blake2b' and state 'sending': it must be one"
    with pytest.raises(ConfigurationError, match="`mqloom keys new` writes one"):
        read_keys(tmp_path / "gone")


def test_keys_of_a_kind_that_is_not_known_are_passed_over(tmp_path: Path) -> None:
    path, key = tmp_path / "keys", new_key("sending")
    write_keys(path, [key], is_new=True)
    with path.open("a") as file:
        file.write('[[keys]]\nid = "later"\nkind = "ed448"\nstate = "sending"\npublic = "ab"\n')
    assert keyring_in(path).sending.name == key.id
    assert order_keys_in(path) is None


def test_at_every_step_clients_one_step_behind_or_ahead_obey_the_gateways(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    tables = [new_key("sending"), new_key("sending", ORDER_KIND)]
    write_keys(path, tables, is_new=True)
    held = []
    for _ in range(6):
        found = order_keys_in(path)
        assert found is not None
        held.append(found)
        tables, _ = rotated(tables, new_key("accepted", ORDER_KIND))
        write_keys(path, tables, is_new=False)
        assert read_keys(path) == tables
    assert keyring_in(path).accepted == ()  # the other kind is not touched
    for before, after in itertools.pairwise(held):
        assert before.signing.public in after.public
        assert after.signing.public in before.public
    assert held[0].signing.public not in held[3].public
    assert [len(keys.public) for keys in held] == [1, 2, 2, 1, 2, 2]


def test_an_order_key_that_is_not_whole_is_explained(tmp_path: Path) -> None:
    path, order_key = tmp_path / "keys", new_key("sending", ORDER_KIND)
    write_keys(path, [new_key("sending"), order_key], is_new=True)
    whole = path.read_text()
    assert "its secret is that of" in problems_of(path, whole.replace(order_key.secret, "ab" * 32))[0]
    twice = whole + whole[whole.rindex("[[keys]]") :]
    assert problems_of(path, twice) == ("2 keys of kind 'ed25519' and state 'sending': it must be one",)


def test_a_file_is_not_overwritten_and_what_was_broken_off_is_told(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    write_keys(path, [new_key("sending")], is_new=True)
    with pytest.raises(ConfigurationError, match="to change its key: mqloom keys rotate"):
        write_keys(path, [new_key("sending")], is_new=True)
    (tmp_path / "keys.new").touch()
    with pytest.raises(ConfigurationError, match="broken off there: delete it"):
        write_keys(path, [new_key("sending")], is_new=False)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write_keys(tmp_path / "no" / "keys", [new_key("sending")], is_new=True)
