"""From a federation under overload to an alert that an MQTT client gets, and to a report in a browser."""

import json
import re
import signal
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from integration_tests.browser import chromium_or_skip, open_page
from integration_tests.processes import Process, wait_until
from integration_tests.spark_cluster import spark_cluster
from integration_tests.spark_parts import collector_process, java_or_skip
from mqloom.core.ids import GatewayId
from mqloom.lab.planted_spool import write_spool
from mqloom.lab.planted_weeks import Growth, Weeks, weeks
from mqloom.spark_analytics.sessions import SMALL

pytestmark = pytest.mark.timeout(900)

TOPIC = "mqloom/v1/alerts"
ALERT_S_MAX = 240.0
REPORT_S_MAX = 400.0
SMALLER = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]


class Listener:
    """A plain MQTT client that listens for alerts."""

    def __init__(self, host: str, port: int) -> None:
        self.alerts: list[dict[str, Any]] = []
        self._overloaded = Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id="operator")
        self._client.on_message = self._heard
        self._client.on_connect = self._connected
        self._client.connect(host, port)
        self._client.loop_start()

    def _connected(self, client: paho.Client, *_: object) -> None:
        client.subscribe(TOPIC, qos=1)

    def _heard(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        if message.topic != TOPIC:  # the embedded broker hands over what it retains, whatever was asked for
            return
        self.alerts.append(json.loads(message.payload))
        if self.alerts[-1]["kind"] == "overload":
            self._overloaded.set()

    def wait(self) -> bool:
        """Return whether there was an alert about overload, as soon as there is."""
        return self._overloaded.wait(ALERT_S_MAX)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@contextmanager
def command(folder: Path, *arguments: str) -> Iterator[Process]:
    """Run a command, and end it as Ctrl-C does."""
    process = Process(arguments, folder)
    try:
        yield process
    finally:
        process.end(signal.SIGINT)


def report(folder: Path, *arguments: str) -> dict[str, Any]:
    """Return the figures of a report."""
    process = Process(["spark", "report", "--json", *arguments, *SMALLER], folder)
    assert process.wait(REPORT_S_MAX) == 0, process.log[-20:]
    answer: dict[str, Any] = json.loads("\n".join(process.output))
    return answer


def test_overload_reaches_an_mqtt_client_as_an_alert_and_a_report_names_the_broker(tmp_path: Path) -> None:
    java_or_skip()
    with command(tmp_path, "demo", "--overload", "--spool", "spool") as demo:
        wait_until(lambda: any("waiting for the links" in line for line in demo.output), "brokers have started")
        (configuration,) = {word for line in demo.output for word in re.findall(r"[^\s`]+\.toml", line)}
        brokers = {each["id"]: each for each in tomllib.loads(Path(configuration).read_text())["brokers"]}
        host, port = brokers["HUB"].get("host", "127.0.0.1"), brokers["HUB"]["port"]
        far = brokers["TRUCK"]  # alerts go to HUB's broker, and gateways carry them to all others
        listener = Listener(far.get("host", "127.0.0.1"), far["port"])
        try:
            words = ["--spool", "spool", "--checkpoint", "watch", "--host", host, "--port", str(port), "--every", "1"]
            words += ["--windows", "2"]  # load agents help the broker within seconds
            with command(tmp_path, "spark", "stream", *words, *SMALLER) as stream:
                assert listener.wait(), (listener.alerts, stream.log[-20:])
        finally:
            listener.close()
    overloads = [each for each in listener.alerts if each["kind"] == "overload"]
    assert {(each["gateway"], each["what"]) for each in overloads} == {("BIKE", "output")}
    assert len({each["id"] for each in listener.alerts}) == len(listener.alerts)

    figures = report(tmp_path, "--spool", "spool", "--out", "report.html")
    (finding,) = (each for each in figures["findings"] if each["kind"] == "overload")
    assert finding["broker"] == "BIKE"
    assert "output" in finding["title"]
    assert sum(each["subscriptions"] for each in figures["redundancy"]) > 0  # though all have left when it ended

    chromium_or_skip()
    opened = open_page(tmp_path / "report.html", tmp_path)
    assert finding["title"] in opened.text
    assert finding["action"] in opened.text
    assert opened.console == []
    assert opened.requests == []
    open_page(tmp_path / "report.html", tmp_path, tmp_path / "report.png")
    assert (tmp_path / "report.png").stat().st_size > 20_000


def test_the_report_of_a_cluster_through_the_collector_is_that_of_this_machine_through_the_files(
    tmp_path: Path,
) -> None:
    java_or_skip()
    spool, scratch = tmp_path / "spool", tmp_path / "scratch"
    scratch.mkdir()
    east = GatewayId("EAST")
    plan = Weeks(
        seed=1,
        days=14,
        brokers=(GatewayId("HUB"), east, GatewayId("WEST")),
        growth=(Growth(broker=east, resource="output", per_day=0.05),),
    )
    write_spool(spool, weeks(plan))
    local = report(tmp_path, "--spool", "spool", "--master", "local[2]")
    with spark_cluster(tmp_path / "cluster") as url, collector_process(spool) as collector:
        remote = report(scratch, "--endpoint", collector.serving, "--master", url, "--scratch", str(scratch))
        worked = [home for home in (tmp_path / "cluster").glob("worker-*") if list(home.glob("work/*/*"))]
    assert remote == local
    assert [each["broker"] for each in remote["findings"]] == ["EAST"]
    assert len(worked) == 2
