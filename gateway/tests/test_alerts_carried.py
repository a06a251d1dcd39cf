"""Alerts are carried like data, and nothing else that is ours: over embedded brokers, to ordinary clients."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.lab.demo_thread import gateways_in_thread, write_chain

NAMES = tuple(map(GatewayId, ("ONE", "TWO", "THREE")))
ONE, TWO, THREE = NAMES
TELEMETRY = '[telemetry]\nendpoint = "tcp://127.0.0.1:1"'
"""A collector that is not there: alerts need none."""


def until(is_so: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


@contextmanager
def plain(port: int, *topics: str) -> Iterator[tuple[paho.Client, list[tuple[str, bytes]]]]:
    """Have an ordinary client, and what it gets; the embedded broker hands over what is retained, wanted or not."""
    came: list[tuple[str, bytes]] = []
    ready: list[object] = []
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda _, __, message: (
        None if message.retain else came.append((message.topic, bytes(message.payload)))
    )
    client.on_subscribe = lambda *_: ready.append(True)
    client.connect("127.0.0.1", port)
    if topics:
        client.subscribe([(topic, 1) for topic in topics])
    client.loop_start()
    until(lambda: bool(ready) if topics else client.is_connected(), "the client is there")
    try:
        yield client, came
    finally:
        client.disconnect()
        client.loop_stop()


def test_an_ordinary_client_at_any_broker_gets_each_alert_once_and_nothing_else_of_ours_is_carried(
    tmp_path: Path,
) -> None:
    path = tmp_path / "federation.toml"
    ports = write_chain(path, NAMES, TELEMETRY)
    others = [layout.order(THREE, ClientId("x")), "mqloom/v1/alerts/fence/x", "mqloom/v1/roster/x", "mqloom/v2/alerts"]
    with gateways_in_thread(path, NAMES) as drivers:
        until(lambda: drivers[ONE].node.subscription_counts()[1] == 1, "ONE knows that others want alerts")
        with (
            plain(ports[ONE], layout.alerts()) as (watcher, here),
            plain(ports[TWO], layout.alerts()) as (_, near),
            plain(ports[THREE], layout.alerts(), *others) as (_, far),
        ):
            for topic in others:
                watcher.publish(topic, b"forged", 1)
            alerts = [b'{"id": "overload/ONE/output/%d"}' % number for number in range(20)]
            for alert in alerts:
                watcher.publish(layout.alerts(), alert, 1)
            until(lambda: len(far) >= len(alerts) and len(near) >= len(alerts), "alerts arrive")
            watcher.publish(layout.alerts(), b"last", 1)
            until(lambda: (layout.alerts(), b"last") in far, "the last one arrives")
            wanted = [(layout.alerts(), alert) for alert in (*alerts, b"last")]
            assert far == near == here == wanted
            counters = [drivers[name].node.counters for name in NAMES]
            assert [each.total("publications_in") for each in counters] == [21, 0, 0]


def test_without_a_collector_nobody_carries_alerts(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    ports = write_chain(path, (ONE, TWO), "")
    with gateways_in_thread(path, (ONE, TWO)) as drivers, plain(ports[ONE]) as (watcher, _):
        watcher.publish(layout.alerts(), b"{}", 1).wait_for_publish(10)
        assert drivers[ONE].node.subscription_counts() == drivers[TWO].node.subscription_counts() == (0, 0)
        assert drivers[ONE].node.counters.total("publications_in") == 0
