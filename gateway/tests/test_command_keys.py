import json
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.core.signatures import public_key
from mqloom.core.telemetry_key_file import telemetry_secrets
from mqloom.gateway.key_file import new_key, session_secret_in, write_keys

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
    between, orders, telemetry, sessions = shown.out.splitlines()
    assert between.endswith("  blake2b  sending")
    assert orders.endswith("  ed25519  sending")
    assert telemetry.endswith("  curve  sending")
    assert sessions.endswith("  session  sending")
    assert secret not in shown.out
    assert shown.err == ""
    for number, states in enumerate((["sending", "accepted"], ["accepted", "sending"], ["retired", "sending"]), 1):
        assert main(["keys", "rotate", str(path)]) == 0
        assert f"step {number} of 3: " in capsys.readouterr().out
        assert main(["keys", "show", str(path), "--json"]) == 0
        keys = json.loads(capsys.readouterr().out)["keys"]
        assert [key["state"] for key in keys if key["kind"] == "blake2b"] == states
    assert main(["keys", "new", str(path)]) == 1
    assert "there is such a file already" in capsys.readouterr().err


def test_clients_get_the_public_half_of_the_order_key_and_of_the_next_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.keys"
    main(["keys", "new", str(path)])
    printed = []
    for step in ("bring what `mqloom keys public` prints to every client", "then run this again", "no longer hold", ""):
        capsys.readouterr()
        assert main(["keys", "public", str(path)]) == 0
        printed.append(capsys.readouterr().out.split())
        assert all(public_key(text).text not in path.read_text() for text in printed[-1])
        assert main(["keys", "rotate", "--orders", str(path)]) == 0
        assert step in capsys.readouterr().out
    (first,), (_, second), both, (last,) = printed
    assert both == [second, first]
    assert last == second


def test_a_file_without_an_order_key_gets_one_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "federation.keys"
    write_keys(path, [new_key("sending")], is_new=True)
    for command in (["public"], ["rotate", "--orders"]):
        assert main(["keys", *command, str(path)]) == 1
        assert "`mqloom keys order` adds one" in capsys.readouterr().err
    assert main(["keys", "order", str(path)]) == 0
    assert main(["keys", "public", str(path)]) == 0
    assert main(["keys", "order", str(path)]) == 1
    assert "mqloom keys rotate --orders" in capsys.readouterr().err


def test_a_telemetry_key_is_added_once_rotated_and_written_alone_for_the_collector(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, alone = tmp_path / "federation.keys", tmp_path / "telemetry.keys"
    write_keys(path, [new_key("sending")], is_new=True)
    for command in (["telemetry", "--to", str(alone)], ["rotate", "--telemetry"]):
        assert main(["keys", *command, str(path)]) == 1
        assert "has no telemetry key; `mqloom keys telemetry` adds one" in capsys.readouterr().err
    assert main(["keys", "telemetry", str(path)]) == 0
    assert main(["keys", "telemetry", str(path)]) == 1
    assert "mqloom keys rotate --telemetry" in capsys.readouterr().err
    seen = []
    for step in ("", "whoever reads", "Start the collector again", "whoever reads"):
        if step:
            assert main(["keys", "rotate", "--telemetry", str(path)]) == 0
            assert step in capsys.readouterr().out
        assert main(["keys", "telemetry", "--to", str(alone), str(path)]) == 0
        assert telemetry_secrets(alone) == telemetry_secrets(path)
        assert alone.stat().st_mode & 0o777 == 0o600
        assert "blake2b" not in alone.read_text()
        seen.append(telemetry_secrets(alone))
    (old,), (before, new), exchanged, (last,) = seen
    assert (before, exchanged, last) == (old, (new, old), new)


def test_the_secret_of_sessions_is_added_to_an_older_file_once_and_no_rotation_changes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.keys"
    write_keys(path, [new_key("sending", kind) for kind in ("blake2b", "ed25519", "curve")], is_new=True)
    assert session_secret_in(path) == b""
    assert main(["keys", "sessions", str(path)]) == 0
    assert "while nothing is published, held or parked" in capsys.readouterr().out
    secret = session_secret_in(path)
    assert len(secret) == 32
    for kind in ((), ("--orders",), ("--telemetry",)):
        for _ in range(6):
            assert main(["keys", "rotate", *kind, str(path)]) == 0
    assert main(["keys", "sessions", str(path)]) == 1
    assert session_secret_in(path) == secret


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
        file.write('[[keys]]\nid = "later"\nkind = "ed448"\nstate = "sending"\n')
    assert main(["keys", "rotate", str(path)]) == 1
    assert "of kind 'ed448': rotate it with the release that wrote it" in capsys.readouterr().err


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
