"""Clients that are moved between running Mosquittos, under load, by the commands: each gets everything once."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.core.records import Wish
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.key_file import order_keys_in
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_parts import DemoPublisher, wait_for
from mqloom.lab.demo_thread import gateways_in_thread, write_chain
from mqloom.lab.demo_travellers import DemoTraveller

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
NAMES = WEST, HUB, EAST = "WEST", "HUB", "EAST"
CONF = """
listener {port} 127.0.0.1
allow_anonymous true
max_queued_messages 0
max_inflight_messages 4000
set_tcp_nodelay true
"""


@contextlib.contextmanager
def federation(folder: Path) -> Iterator[tuple[Path, dict[GatewayId, int]]]:
    """Run three Mosquittos in a chain, each with its gateway."""
    path = folder / "federation.toml"
    ports = write_chain(path, NAMES)
    text = path.read_text().replace('"amqtt"', '"mqtt"')
    path.write_text(text.replace("[federation]\n", '[federation]\nkey_file = "our.keys"\n'))
    assert main(["keys", "new", str(folder / "our.keys")]) == 0
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            (folder / name).mkdir()
            (folder / name / "mosquitto.conf").write_text(CONF.format(port=port))
            stack.enter_context(mosquitto_process(folder / name / "mosquitto.conf", port))
        stack.enter_context(gateways_in_thread(path, NAMES))
        yield path, ports


class Crowd:
    """Travellers at one broker, and publishers at all of them."""

    def __init__(self, path: Path, ports: dict[GatewayId, int], count: int) -> None:
        keys = order_keys_in(path.parent / "our.keys")
        assert keys is not None
        self.path, self.ports = path, ports
        self.got: dict[str, Counter[int]] = {f"c{number}": Counter() for number in range(count)}
        address = BrokerAddress("127.0.0.1", ports[GatewayId(WEST)])
        wishes = {"all": Wish(topics="stocks/#", where="volume >= 0")}
        self.travellers = [DemoTraveller(name, address, wishes, keys.public, self._note(name)) for name in self.got]
        self.published = 0
        self._publishers: list[DemoPublisher] = []

    def _note(self, name: str) -> Callable[[Publication], None]:
        def note(publication: Publication) -> None:
            self.got[name][json.loads(publication.payload)["volume"]] += 1

        return note

    @contextlib.asynccontextmanager
    async def running(self, rate: float) -> AsyncIterator[None]:
        """Publish while something is done; at the end all must have arrived, once."""
        await wait_for(lambda: all(each.is_served for each in self.travellers), "everybody is served", 60)
        for name, port in self.ports.items():
            publisher = DemoPublisher(f"publisher-{name}", BrokerAddress("127.0.0.1", port))
            await publisher.open()
            self._publishers.append(publisher)
        task = asyncio.create_task(self._publish(rate))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        expected = Counter(range(self.published))
        with contextlib.suppress(TimeoutError):
            await wait_for(lambda: all(got >= expected for got in self.got.values()), "all has arrived", 30)
        wrong = [name for name, got in self.got.items() if got != expected]
        assert wrong == [], self._explain(wrong[0])
        await asyncio.gather(*(each.close() for each in self.travellers))
        await asyncio.gather(*(each.close() for each in self._publishers))

    def _explain(self, name: str) -> str:
        got = self.got[name]
        lost = [number for number in range(self.published) if number not in got]
        return f"{name} lost {lost[:10]}, twice {[number for number, count in got.items() if count > 1][:10]}"

    async def _publish(self, rate: float) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        while True:
            while self.published < (loop.time() - start) * rate:
                quote = {"symbol": "a", "volume": self.published}
                if self._publishers[self.published % len(self._publishers)].publish(quote):
                    self.published += 1
            await asyncio.sleep(0.02)

    async def command(self, *words: str) -> int:
        """Run a command beside it."""
        return await asyncio.to_thread(main, [words[0], "-c", str(self.path), *words[1:]])

    def places(self) -> Counter[str | None]:
        """Return how many are at each broker."""
        return Counter(each.at for each in self.travellers)


async def drained(path: Path, ports: dict[GatewayId, int], count: int, rate: float, options: Sequence[str]) -> Crowd:
    crowd = Crowd(path, ports, count)
    async with crowd.running(rate):
        await asyncio.sleep(0.5)
        assert await crowd.command("drain", WEST, *options) == 0
        await asyncio.sleep(0.5)
        assert crowd.places() == {HUB: count // 2, EAST: count // 2}
    assert all(not each.stayed for each in crowd.travellers)
    return crowd


def test_a_running_broker_is_emptied_under_load_and_everybody_gets_everything_once(tmp_path: Path) -> None:
    with federation(tmp_path) as (path, ports):
        crowd = asyncio.run(drained(path, ports, 20, 100.0, ["--at-once", "5"]))
    assert crowd.published > 50


def test_all_are_moved_by_name_and_brought_back(tmp_path: Path) -> None:
    async def there_and_back(path: Path, ports: dict[GatewayId, int]) -> None:
        crowd = Crowd(path, ports, 6)
        async with crowd.running(50.0):
            assert await crowd.command("migrate", *crowd.got, "--to", EAST) == 0
            assert crowd.places() == {EAST: 6}
            assert await crowd.command("drain", EAST, "--to", HUB) == 0
            assert crowd.places() == {HUB: 6}
            assert await crowd.command("undrain", EAST, "--bring-back") == 0
            assert crowd.places() == {EAST: 6}
            await wait_for(lambda: all(len(each.moves) == 3 for each in crowd.travellers), "three moves each", 10)
        assert all(begin < end for each in crowd.travellers for begin, end in each.moves)
        assert all(each.overhead_bytes > 0 for each in crowd.travellers)

    with federation(tmp_path) as (path, ports):
        asyncio.run(there_and_back(path, ports))


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_running_broker_with_five_hundred_clients_is_emptied_under_load(tmp_path: Path) -> None:
    with federation(tmp_path) as (path, ports):
        crowd = asyncio.run(drained(path, ports, 500, 5.0, ["--rate", "20"]))
    assert crowd.published > 50
