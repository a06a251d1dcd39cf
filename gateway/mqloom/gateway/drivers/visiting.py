"""Short visits to brokers, for commands: connect, read what is retained, perhaps ask something, and leave."""

import contextlib
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import paho.mqtt.client as paho
from msgspec.structs import replace
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from mqloom.core import layout
from mqloom.core.errors import BrokerError, FrameError, RecordError
from mqloom.core.ids import GatewayId
from mqloom.core.records import decode_status, encode_status
from mqloom.core.seals import Keyring, check_text, seal_request
from mqloom.core.tls import tls_context
from mqloom.gateway.interfaces import BrokerAddress


class Visit:
    """A connection to one broker that reads some topics; of each, the last message counts."""

    def __init__(self, address: BrokerAddress, topics: Sequence[str], news: threading.Condition) -> None:
        self.address = f"{address.host}:{address.port}"
        self.problem = ""
        """Why nothing can be read there; empty as long as nothing is known to be wrong."""
        self.is_ready = False
        """Whether the broker has granted what we want to read."""
        self.messages: dict[str, bytes] = {}
        self.heard: Counter[str] = Counter()
        """How many messages have come by each topic: one that says the same once more is one more."""
        self._topics = topics
        self._news = news
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, f"mqloom-visit-{secrets.token_hex(4)}", protocol=paho.MQTTv311
        )
        if address.username:
            self.client.username_pw_set(address.username, address.password or None)
        if address.tls is not None:
            self.client.tls_set_context(tls_context(address.tls))
            self.client.tls_insecure_set(not address.tls.check_hostname)
        self.client.connect_timeout = 2.0
        self.client.on_connect = self._on_connect
        self.client.on_connect_fail = self._on_connect_fail
        self.client.on_disconnect = self._on_disconnect
        self.client.on_subscribe = self._on_subscribe
        self.client.on_message = self._on_message
        self.client.connect_async(address.host, address.port)

    # ---- called by paho's thread ---------------------------------------------------------------------------------

    def _on_connect(
        self, client: paho.Client, _: object, __: paho.ConnectFlags, reason: ReasonCode, ___: Properties | None
    ) -> None:
        if reason.is_failure:
            self._fail(f"it refuses us: {reason}; see `username` and `password_env` in the configuration")
        else:
            client.subscribe([(topic, 1) for topic in self._topics])

    def _on_connect_fail(self, _: paho.Client, __: object) -> None:
        self._fail("it does not answer; is it running, and are `host`, `port` and `tls` in the configuration right?")

    def _on_disconnect(
        self, _: paho.Client, __: object, ___: paho.DisconnectFlags, reason: ReasonCode, ____: Properties | None
    ) -> None:
        if reason.is_failure:
            self._fail(f"the connection was lost ({reason}); try again")

    def _on_subscribe(
        self, _: paho.Client, __: object, ___: int, reasons: list[ReasonCode], ____: Properties | None
    ) -> None:
        refused = [topic for topic, reason in zip(self._topics, reasons, strict=False) if reason.is_failure]
        if refused:
            self._fail(f"it does not let us read {', '.join(refused)}; see its access list")
        with self._news:
            self.is_ready = not refused
            self._news.notify_all()

    def _on_message(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        with self._news:
            if message.topic in self._topics:  # some brokers replay retained messages that nobody asked for
                self.messages[message.topic] = bytes(message.payload)
                self.heard[message.topic] += 1
                self._news.notify_all()

    def _fail(self, problem: str) -> None:
        with self._news:
            self.problem = self.problem or problem
            self._news.notify_all()


class Visits:
    """Several at once."""

    def __init__(self, visits: Mapping[GatewayId, Visit], news: threading.Condition) -> None:
        self.each = visits
        self._news = news

    def wait(self, is_done: Callable[[GatewayId, Visit], bool], wait_s: float) -> bool:
        """Return when every visit is done or has failed, or it takes too long: then False."""

        def are_done() -> bool:
            return all(visit.problem or is_done(gateway, visit) for gateway, visit in self.each.items())

        with self._news:
            return self._news.wait_for(are_done, wait_s)


def sealed_request(
    visits: Visits, gateway: GatewayId, topic: str, body: bytes, keyring: Keyring | None, wait_s: float
) -> bytes:
    """Return an order or a question as the gateway expects it; the visit must read its status.

    Without a key it goes as it is. Raises BrokerError if there is no status of that gateway with a seal of ours.
    """
    if keyring is None:
        return body
    visit, said = visits.each[gateway], layout.status(gateway)
    is_said = visits.wait(lambda each, visit: each != gateway or said in visit.messages, wait_s)
    if not is_said or visit.problem:
        silent = f"no status of gateway {gateway} is kept there: was it ever running?"
        raise BrokerError(visit.address, visit.problem or silent)
    try:
        status = decode_status(visit.messages[said])
        check_text(keyring, said, encode_status(replace(status, seal="")), status.seal)
    except (RecordError, FrameError) as error:
        problem = f"the status of gateway {gateway} is not to be trusted: {error}; has it the same key_file?"
        raise BrokerError(visit.address, problem) from None
    return seal_request(keyring.sending, topic, status.epoch, time.time_ns(), body)


@contextlib.contextmanager
def visiting(places: Mapping[GatewayId, tuple[BrokerAddress, Sequence[str]]]) -> Iterator[Visits]:
    """Visit brokers, for some topics at each; leaves them at the end."""
    news = threading.Condition()
    visits = {gateway: Visit(address, topics, news) for gateway, (address, topics) in places.items()}
    try:
        for visit in visits.values():
            visit.client.loop_start()
        yield Visits(visits, news)
    finally:
        for visit in visits.values():
            visit.client.disconnect()
        for visit in visits.values():
            visit.client.loop_stop()
