from pathlib import Path

import pytest

from mqloom.core.errors import ConfigurationError
from mqloom.core.telemetry_key_file import telemetry_key_name, telemetry_secrets

OLD, NEW = bytes([1] * 32), bytes([2] * 32)


def written(path: Path, *keys: tuple[bytes, str]) -> Path:
    lines = ["version = 1", '[[keys]]\nid = "x"\nkind = "of a later release"\nstate = "sending"']
    lines += [
        f'[[keys]]\nid = "{telemetry_key_name(secret)}"\nkind = "curve"\nstate = "{state}"\nsecret = "{secret.hex()}"'
        for secret, state in keys
    ]
    path.write_text("\n".join(lines))
    return path


def test_the_key_to_use_comes_first_and_a_retired_one_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    assert telemetry_secrets(written(path)) == ()
    assert telemetry_secrets(written(path, (OLD, "accepted"), (NEW, "sending"))) == (NEW, OLD)
    assert telemetry_secrets(written(path, (OLD, "retired"), (NEW, "sending"))) == (NEW,)


@pytest.mark.parametrize("text", ["", "version = 1\nkeys = 3", "version = 2\nkeys = []", "no toml", "\xff"])
def test_what_is_no_file_of_keys_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match="`mqloom keys new` writes one"):
        telemetry_secrets(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such file"):
        telemetry_secrets(tmp_path / "keys")


@pytest.mark.parametrize("secret", [NEW.hex(), "ab", "no hexadecimal"])
def test_a_secret_that_is_not_the_one_of_its_id_is_told(tmp_path: Path, secret: str) -> None:
    path = written(tmp_path / "keys", (OLD, "sending"))
    path.write_text(path.read_text().replace(OLD.hex(), secret))
    with pytest.raises(ConfigurationError, match="was the file changed by hand"):
        telemetry_secrets(path)
