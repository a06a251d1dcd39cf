"""One federation of every maker's broker, and the same tests at each: what is wanted arrives, whoever is in between."""

import contextlib
import itertools
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration_tests.conftest import require_image
from integration_tests.containers import Broker, ImageUnavailableError, ensure_image
from integration_tests.makers import EMQX, NATS, RABBITMQ, TELLING_MOSQUITTO, Maker
from integration_tests.paho_clients import PlainClient
from integration_tests.processes import Commands, Process, wait_until
from mqloom.lab.ports import free_port

CONTAINERS = {maker.name.upper(): maker for maker in (TELLING_MOSQUITTO, RABBITMQ, NATS, EMQX)}
EMBEDDED = "EMBEDDED"
ADAPTERS = {**{name: maker.adapter for name, maker in CONTAINERS.items()}, EMBEDDED: "amqtt"}
PROBE_EVERY_S = 0.2
NAMES = [*CONTAINERS, EMBEDDED]
WANTED = "volume > 300000"
EACH = 20

pytestmark = pytest.mark.timeout(240)


class Federation:
    """Every maker's broker whose image can be had, and the embedded one, in a chain; subscribers at each."""

    def __init__(self, brokers: dict[str, Broker], commands: Commands) -> None:
        self.commands = commands
        self.ports = {**{name: broker.port for name, broker in brokers.items()}, EMBEDDED: free_port()}
        self.runs = 0
        names = list(self.ports)
        tables = [
            f'[[brokers]]\nid = "{name}"\nport = {port}\nadapter = "{ADAPTERS[name]}"\n'
            # Who is not told what plain clients want must be told by the configuration.
            + ('federate = ["stocks/news/#"]\n' if ADAPTERS[name] == "mqtt" else "")
            for name, port in self.ports.items()
        ]
        if "RABBITMQ" in brokers:
            tables.append(f"[plugins.settings.rabbitmq_adapter]\nport = {brokers['RABBITMQ'].management_port}\n")
        tables += [f'[[links]]\nbetween = ["{one}", "{other}"]\n' for one, other in itertools.pairwise(names)]
        (commands.folder / "federation.toml").write_text(
            '[federation]\nname = "makers"\ndata = ["stocks/#"]\n' + "".join(tables)
        )
        starting = {name: commands.start("gateway", "--name", name) for name in names}
        for process in starting.values():
            process.wait_for_log("serving the broker")
        self.gateways = starting
        for one, other in itertools.pairwise(names):
            self.gateways[one].wait_for_log(f"link to {other} is up")
            self.gateways[other].wait_for_log(f"link to {one} is up")
        subscribing = {
            name: commands.start(
                "sub", "stocks/#", "--where", WANTED, "--port", str(port), "--json", "--client", f"frame.{name}"
            )
            for name, port in self.ports.items()
        }
        for process in subscribing.values():
            process.wait_for_log("established")
        self.frames = subscribing
        self.contents = {name: content_client(name, port) for name, port in self.ports.items()}
        self.plains = {name: PlainClient(port, "stocks/news/#") for name, port in self.ports.items()}
        for name in names:
            self.wait_until_known(name, "stocks/news/known")

    def wait_until_known(self, at: str, topic: str, client: PlainClient | None = None) -> None:
        """Return when what is published on every other broker comes to a plain client here: all gateways know it."""
        client = client or self.plains[at]
        for name, port in self.ports.items():
            payload = json.dumps({"mark": f"0/from {name} to {at}"}).encode()
            publisher = PlainClient(port)

            def has_come(payload: bytes = payload, publisher: PlainClient = publisher) -> bool:
                if payload not in client.on(topic):
                    publisher.publish(topic, payload)
                    time.sleep(PROBE_EVERY_S)
                return payload in client.on(topic)

            wait_until(has_come, f"what is published at {name} comes to {at}")
            publisher.close()

    def restart(self, name: str) -> None:
        """Kill a gateway without a word, and start it again."""
        self.gateways[name].end(signal.SIGKILL)
        self.gateways[name] = self.commands.gateway(name)

    def close(self) -> None:
        for client in (*self.contents.values(), *self.plains.values()):
            client.close()


def content_client(name: str, port: int) -> PlainClient:
    """Return an ordinary client that subscribes by content, in plain format and without a lease: it writes once."""
    client = PlainClient(port, f"mqloom/v1/{name}/out/content/#", f"mqloom/v1/{name}/ctl/content")
    wish = {"subscriptions": {"hot": {"topics": "stocks/#", "where": WANTED}}}
    client.publish(f"mqloom/v1/{name}/sub/content", json.dumps(wish), retain=True)
    wait_until(lambda: any(b"established" in answer for answer in client.on(f"mqloom/v1/{name}/ctl")), "established")
    return client


@pytest.fixture(scope="module")
def federation(broker_of: Callable[[Maker], Broker], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    require_image(TELLING_MOSQUITTO)
    brokers = {}
    for name, maker in CONTAINERS.items():
        with contextlib.suppress(ImageUnavailableError):
            ensure_image(maker)
            brokers[name] = broker_of(maker)
    with contextlib.ExitStack() as stack:
        folder: Path = tmp_path_factory.mktemp("makers")
        federation = Federation(brokers, Commands(folder, stack))
        stack.callback(federation.close)
        yield federation


@pytest.fixture(params=NAMES)
def at(request: pytest.FixtureRequest, federation: Federation) -> str:
    """Give each maker's name; one whose image cannot be had is skipped with the reason."""
    name: str = request.param
    if name not in federation.ports:
        require_image(CONTAINERS[name])
    return name


def publish(federation: Federation, at: str, topic: str) -> tuple[Counter[str], Counter[str]]:
    """Publish on one broker some that are wanted and some that are not; return the marks of both."""
    federation.runs += 1
    client = PlainClient(federation.ports[at])
    wanted, unwanted = Counter[str](), Counter[str]()
    for number in range(EACH):
        for volume, marks in ((400_000, wanted), (200_000, unwanted)):
            mark = f"{federation.runs}/{volume}/{number}"
            client.publish(topic, json.dumps({"volume": volume, "mark": mark}))
            marks[mark] += 1
    client.close()
    return wanted, unwanted


def marks_of(payloads: list[bytes] | list[str], run: int) -> Counter[str]:
    marks = (json.loads(payload)["mark"] for payload in payloads)
    return Counter(mark for mark in marks if mark.startswith(f"{run}/"))


def framed(process: Process, run: int) -> Counter[str]:
    return marks_of([json.loads(line)["payload"] for line in list(process.output)], run)


def content(federation: Federation, name: str, run: int) -> Counter[str]:
    return marks_of(federation.contents[name].on(f"mqloom/v1/{name}/out/content/stocks/"), run)


def wait_for_all(federation: Federation, wanted: Counter[str]) -> None:
    run = federation.runs
    for name in federation.ports:
        wait_until(lambda name=name: framed(federation.frames[name], run) >= wanted, f"all framed at {name}")  # type: ignore[misc]
        wait_until(lambda name=name: content(federation, name, run) >= wanted, f"all by content at {name}")  # type: ignore[misc]


def assert_exact(federation: Federation, wanted: Counter[str]) -> None:
    for name in federation.ports:
        assert framed(federation.frames[name], federation.runs) == wanted, name
        assert set(content(federation, name, federation.runs)) == set(wanted), name


def test_what_is_published_at_one_arrives_at_all_who_want_it(federation: Federation, at: str) -> None:
    wanted, _ = publish(federation, at, "stocks/YHOO")
    wait_for_all(federation, wanted)
    assert_exact(federation, wanted)


def test_plain_clients_at_each_get_what_is_published_at_one_and_nothing_goes_round(
    federation: Federation, at: str
) -> None:
    wanted, unwanted = publish(federation, at, "stocks/news/a")
    run, everything = federation.runs, wanted + unwanted
    for name, client in federation.plains.items():
        wait_until(lambda client=client: marks_of(client.on("stocks/news/"), run) >= everything, f"all at {name}")  # type: ignore[misc]
    wait_for_all(federation, wanted)
    time.sleep(1.0)  # whatever went round would have come by now
    assert_exact(federation, wanted)
    for name, client in federation.plains.items():
        assert marks_of(client.on("stocks/news/"), run) == everything, name


def test_what_a_plain_client_subscribes_to_is_learned_from_its_broker(federation: Federation, at: str) -> None:
    if ADAPTERS[at] == "mqtt":
        pytest.skip("it does not tell what its clients want: `federate` says it")
    topic = f"stocks/only/{at}"
    client = PlainClient(federation.ports[at], topic)
    federation.wait_until_known(at, topic, client)
    elsewhere = next(name for name in federation.ports if name != at)
    wanted, unwanted = publish(federation, elsewhere, topic)
    everything = wanted + unwanted
    wait_until(lambda: marks_of(client.on(topic), federation.runs) >= everything, f"all that is wanted at {at}")
    client.close()
    assert marks_of(client.on(topic), federation.runs) == everything


def test_a_bad_filter_is_answered_with_its_column(federation: Federation, at: str) -> None:
    client = PlainClient(federation.ports[at], f"mqloom/v1/{at}/ctl/bad")
    wish = {"subscriptions": {"bad": {"topics": "stocks/#", "where": "volume >"}}}
    client.publish(f"mqloom/v1/{at}/sub/bad", json.dumps(wish))
    wait_until(lambda: bool(client.on(f"mqloom/v1/{at}/ctl")), "an answer")
    client.close()
    (answer,) = map(json.loads, client.on(f"mqloom/v1/{at}/ctl"))
    assert (answer["answer"], answer["name"], answer["column"]) == ("refused", "bad", 9)


def test_who_has_unsubscribed_gets_nothing_more(federation: Federation, at: str) -> None:
    client = PlainClient(federation.ports[at], f"mqloom/v1/{at}/out/leaver/#", f"mqloom/v1/{at}/ctl/leaver")
    record, answers = f"mqloom/v1/{at}/sub/leaver", f"mqloom/v1/{at}/ctl"
    client.publish(record, json.dumps({"subscriptions": {"all": {"topics": "stocks/#"}}}), retain=True)
    wait_until(lambda: any(b"established" in answer for answer in client.on(answers)), "established")
    client.publish(record, b"", retain=True)
    wait_until(lambda: any(b"ended" in answer for answer in client.on(answers)), "ended")
    wanted, _ = publish(federation, EMBEDDED, "stocks/YHOO")
    wait_for_all(federation, wanted)
    client.close()
    assert client.on(f"mqloom/v1/{at}/out") == []


def test_a_gateway_that_is_killed_knows_its_clients_when_it_is_back(federation: Federation, at: str) -> None:
    if at == EMBEDDED:
        pytest.skip("its broker is in its own process, and goes with it")
    federation.restart(at)
    wanted, _ = publish(federation, EMBEDDED, "stocks/YHOO")
    wait_for_all(federation, wanted)
    assert_exact(federation, wanted)
