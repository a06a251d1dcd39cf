"""`mqloom doctor` at real Mosquittos: as they should be, dropping, refusing, and not there."""

import json
import re
import socket
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.gateway.doctoring import LOG_TYPES
from mqloom.gateway.drivers.probing import MOSQUITTO_LOG
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.ports import free_ports
from mqloom.plugins.mosquitto_log import TOPICS

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


@pytest.fixture(autouse=True)
def _waits_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqloom.gateway.drivers.probing.DOCTOR_STEP_S", 2.0)


def write(folder: Path, port: int, more: str = "") -> Path:
    path = folder / "federation.toml"
    path.write_text(f'[federation]\nname = "one"\ndata = ["stocks/#"]\n[[brokers]]\nid = "west"\nport = {port}\n{more}')
    return path


def broker_file(folder: Path, port: int, *lines: str) -> Path:
    file = folder / "mosquitto.conf"
    file.write_text("\n".join([f"listener {port} 127.0.0.1", *lines, ""]))
    return file


def doctor(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the exit code, and the verdict and text on each subject."""
    code = main(["doctor", "-c", str(path), "--json", *more])
    found = json.loads(capsys.readouterr().out)["brokers"]["west"]["findings"]
    return code, {each["subject"]: (each["verdict"], each["text"]) for each in reversed(found)}


def example_in_the_docs(port: int) -> str:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    [example] = re.findall(r"\$ mqloom doctor -c federation.toml\n(.*?)```", page, re.DOTALL)
    return without_count(example.replace("127.0.0.1:1883", f"127.0.0.1:{port}").replace("exchange", "one"))


def without_count(text: str) -> str:
    """Leave out how many messages were kept: releases of Mosquitto differ by those in flight."""
    return re.sub(r"kept [\d,]+", "kept", text)


def test_a_broker_with_its_default_limits_drops_and_one_without_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    path = write(tmp_path, port)
    with mosquitto_process(broker_file(tmp_path, port, "allow_anonymous true"), port):
        code, found = doctor(path, capsys)
        assert code == 1
        verdict, text = found["queue"]
        assert verdict == "wrong"
        assert "acknowledged 2,000 messages" in text
        assert main(["doctor", "-c", str(path)]) == 1
        printed, progress = capsys.readouterr()
        assert without_count(printed) == example_in_the_docs(port)
        assert "west: whether it keeps 2,000 messages" in progress
    with mosquitto_process(broker_file(tmp_path, port, "allow_anonymous true", "max_queued_messages 0"), port):
        code, found = doctor(path, capsys)
        assert code == 0, found
        assert found["protocol"] == ("ok", "speaks MQTT 5 and 3.1.1")
        assert found["queue"][0] == found["gateway west"][0] == "ok"
        assert found["strangers"][0] == "note"


def test_a_mosquitto_whose_log_the_gateway_reads_must_tell_of_subscriptions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    path = write(tmp_path, port, 'adapter = "mosquitto"\n')
    lines = ("allow_anonymous true", "max_queued_messages 0")
    with mosquitto_process(broker_file(tmp_path, port, *lines), port):
        code, found = doctor(path, capsys)
        assert (code, found["plain clients"][0]) == (1, "wrong")
    more = ("log_dest topic", "log_type subscribe", "log_type unsubscribe", "log_type notice")
    for missing in ("unsubscribe", "notice"):
        partly = [each for each in more if missing not in each]
        with mosquitto_process(broker_file(tmp_path, port, *lines, *partly), port):
            code, found = doctor(path, capsys)
            assert (code, found["plain clients"][0]) == (1, "wrong")
            assert f"its log does not tell {missing}" in found["plain clients"][1]
    with mosquitto_process(broker_file(tmp_path, port, *lines, *more), port):
        code, found = doctor(path, capsys)
        assert (code, found["plain clients"][0]) == (0, "ok")


def test_the_log_types_that_are_tried_are_those_that_the_adapter_reads() -> None:
    assert {*MOSQUITTO_LOG.values()} == {*TOPICS}
    assert {*MOSQUITTO_LOG} == {*LOG_TYPES}


def test_what_cannot_be_seen_of_a_broker_without_persistence_is_said_and_what_to_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    path = write(tmp_path, port)
    lines = ("allow_anonymous true", "max_queued_messages 0", "persistence false")
    with mosquitto_process(broker_file(tmp_path, port, *lines), port):
        assert main(["doctor", "-c", str(path), "--messages", "50"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"note +sessions .*whether they survive its restart cannot be seen from outside", printed)
    assert "check: Mosquitto: persistence true" in printed
    assert "all is well, as far as that can be seen" in printed
    assert "kept all 50 messages for a client that was away, 3,200 bytes; a limit above that is not seen" in printed


def test_an_access_list_that_swallows_a_data_topic_is_told_as_untried_and_seen_where_a_probe_may_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    path = write(tmp_path, port, 'federate = ["stocks/#"]\n')
    access = tmp_path / "acl"
    access.write_text("topic readwrite mqloom/#\ntopic write stocks/#\n")
    lines = ("allow_anonymous true", "max_queued_messages 0", f"acl_file {access}", "user root")
    with mosquitto_process(broker_file(tmp_path, port, *lines), port):
        assert main(["doctor", "-c", str(path), "--messages", "50"]) == 0
        printed = capsys.readouterr().out
        assert re.search(r"says yes to .*stocks/#, but only what comes would prove that", printed)
        assert re.search(r"not tried, .*: .*write mqloom/v1/west/status; .*write stocks/#", printed)
        assert "may use all its topics" not in printed
        code, found = doctor(path, capsys, "--messages", "50", "--data-topic", "stocks/probe")
        assert (code, found["gateway west"]) == (1, ("wrong", "is refused to read stocks/#"))
    access.write_text("topic readwrite mqloom/#\ntopic read stocks/#\n")
    with mosquitto_process(broker_file(tmp_path, port, *lines), port):
        code, found = doctor(path, capsys, "--messages", "50", "--data-topic", "stocks/probe")
        assert (code, found["gateway west"]) == (1, ("wrong", "is refused to write stocks/#"))
    assert main(["doctor", "-c", str(path), "--data-topic", "other/probe"]) == 1
    assert "it is no topic of the federation's data" in capsys.readouterr().err


def test_a_limit_on_packets_below_what_payloads_may_have_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    path = write(tmp_path, port)
    lines = ("allow_anonymous true", "max_queued_messages 0", "max_packet_size 2000000")
    with mosquitto_process(broker_file(tmp_path, port, *lines), port):
        code, found = doctor(path, capsys)
        assert (code, found["size"][0]) == (1, "wrong")
        assert "up to 2,000,000 bytes, and payloads may have 4,194,304" in found["size"][1]
        path.write_text(path.read_text().replace("[federation]\n", "[federation]\npayload_bytes_max = 1000000\n"))
        code, found = doctor(path, capsys)
        assert (code, found["size"]) == (0, ("ok", "takes packets of up to 2,000,000 bytes"))


def test_nothing_is_left_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    lines = ("allow_anonymous true", "max_queued_messages 0", "sys_interval 1", "persistence true")
    file = broker_file(tmp_path, port, *lines, f"persistence_location {tmp_path}/", "user root", "autosave_interval 1")
    with mosquitto_process(file, port):
        assert main(["doctor", "-c", str(write(tmp_path, port)), "--messages", "50"]) == 0
        capsys.readouterr()
    store = (tmp_path / "mosquitto.db").read_bytes()
    assert b"doctor" not in store


def test_topics_that_the_account_may_not_use_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    account = 'username = "west"\npassword_env = "MQLOOM_TEST_WEST"\n'
    path = write(tmp_path, port, account + 'link_username = "{gateway}"\nlink_password_env = "MQLOOM_TEST_{gateway}"\n')
    out = tmp_path / "brokers"
    assert main(["config", "mosquitto", "-c", str(path), "--out", str(out)]) == 0
    variable, _, password = (out / "west" / "gateway.env").read_text().splitlines()[1].partition("=")
    capsys.readouterr()
    assert main(["doctor", "-c", str(path)]) == 1
    assert "MQLOOM_TEST_WEST is not set" in capsys.readouterr().out
    monkeypatch.setenv(variable, password)
    with mosquitto_process(out / "west" / "mosquitto.conf", port):
        code, found = doctor(path, capsys)
        assert code == 0, found
        assert "strangers" not in found
    access = out / "west" / "acl"
    lines = (
        "topic readwrite mqloom/v1/west/park/#\ntopic readwrite mqloom/v1/west/sub/+\ntopic write mqloom/v1/west/link/+"
    )
    access.write_text(access.read_text().replace("topic readwrite mqloom/v1/west/#", lines))
    with mosquitto_process(out / "west" / "mosquitto.conf", port):
        code, found = doctor(path, capsys)
        assert code == 1
        verdict, text = found["gateway west"]
        assert verdict == "wrong"
        assert "write mqloom/v1/west/out/+" in text
        assert "read mqloom/v1/west/link/+" in text
        assert "park" not in text


def test_a_broker_that_is_not_there_or_speaks_no_mqtt_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqloom.gateway.drivers.probing.DOCTOR_STEP_S", 0.3)
    (port,) = free_ports(1)
    path = write(tmp_path, port)
    code, found = doctor(path, capsys)
    assert (code, found["protocol"][0]) == (1, "wrong")
    with socket.create_server(("127.0.0.1", port)):
        code, found = doctor(path, capsys)
    assert (code, found["protocol"][0]) == (1, "wrong")
