import json
from pathlib import Path

import pytest

from mqloom.core.command import main

FEDERATION = """
[federation]
name = "sealed"
data = ["stocks/#"]
{key}
[[brokers]]
id = "a"
[[brokers]]
id = "b"
port = 1884
[[links]]
between = ["a", "b"]
"""


def test_a_key_is_made_shown_without_its_secret_and_rotated_in_three_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.keys"
    assert main(["keys", "new", str(path)]) == 0
    assert "Keep it secret" in capsys.readouterr().out
    secret = path.read_text().split('secret = "')[1][:64]
    assert main(["keys", "show", str(path)]) == 0
    shown = capsys.readouterr()
    assert shown.out.endswith("  blake2b  sending\n")
    assert secret not in shown.out
    assert shown.err == ""
    for number, states in enumerate((["sending", "accepted"], ["accepted", "sending"], ["retired", "sending"]), 1):
        assert main(["keys", "rotate", str(path)]) == 0
        assert f"step {number} of 3: " in capsys.readouterr().out
        assert main(["keys", "show", str(path), "--json"]) == 0
        assert [key["state"] for key in json.loads(capsys.readouterr().out)["keys"]] == states
    assert main(["keys", "new", str(path)]) == 1
    assert "there is such a file already" in capsys.readouterr().err


def test_keys_that_others_may_read_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "federation.keys"
    main(["keys", "new", str(path)])
    path.chmod(0o644)
    assert main(["keys", "show", str(path)]) == 0
    assert f"chmod 600 {path}" in capsys.readouterr().err


def test_keys_of_a_later_release_are_not_rotated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "federation.keys"
    main(["keys", "new", str(path)])
    with path.open("a") as file:
        file.write('[[keys]]\nid = "later"\nkind = "ed25519"\nstate = "sending"\n')
    assert main(["keys", "rotate", str(path)]) == 1
    assert "of kind 'ed25519': rotate it with the release that wrote it" in capsys.readouterr().err


def test_the_check_hints_at_a_missing_key_and_explains_a_wrong_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION.format(key=""))
    assert main(["check", str(path)]) == 0
    assert "hint: federation.key_file: the federation has no key" in capsys.readouterr().err
    path.write_text(FEDERATION.format(key='key_file = "gone.keys"'))
    assert main(["check", str(path)]) == 1
    assert "gone.keys: there is no such file; `mqloom keys new` writes one" in capsys.readouterr().err
    keys = tmp_path / "gone.keys"
    main(["keys", "new", str(keys)])
    capsys.readouterr()
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().err == ""
    keys.chmod(0o640)
    assert main(["check", str(path)]) == 0
    assert f"hint: federation.key_file: {keys} can be read by others" in capsys.readouterr().err
