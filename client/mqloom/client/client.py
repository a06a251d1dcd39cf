"""The client that applications use: paho's, and with `federation` set, subscriptions by content in a federation."""

import ssl
from collections.abc import Callable
from typing import Any, Literal

from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY, CleanStartOption, MQTTMessage
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import CallbackAPIVersion, LogLevel, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from mqloom.client.application import Stats
from mqloom.client.asking import QOS_MAX, Asked, Topics, asked, check_same_place, wish_of
from mqloom.client.farewells import Farewells, Identity
from mqloom.client.federation import Federation, federation_of
from mqloom.client.limits import PASSING_S
from mqloom.client.names import wish_name
from mqloom.client.receipts import PACKET_IDS
from mqloom.client.shim import Shim
from mqloom.client.wanted import Wanted
from mqloom.client.wired import Address, Wired
from mqloom.core.errors import LocalError
from mqloom.core.limits import RECORD_SUBSCRIPTIONS_MAX
from mqloom.core.records import Wish

OnEstablished = Callable[["Client", Any, Wish, bool], None]
"""Called with the client, the user data, the subscription, and whether some gateways are still out of reach."""

OnRefused = Callable[["Client", Any, Wish, str], None]
"""Called with the client, the user data, the subscription, and the problem."""

Subscribed = tuple[MQTTErrorCode, int | None]
"""What paho's `subscribe` returns: whether it could be sent, and its packet id."""

OnMigrated = Callable[["Client", Any, str, str], None]
"""Called with the client, the user data, and the names of the brokers that we came from and are at."""


class Client(Wired):
    """paho's Client, with the same constructor, methods, callbacks, exceptions and threads.

    Without `federation` it is that, to the byte. With it (True, a Federation, or MQLOOM_FEDERATION=1 in the
    environment) `subscribe` is for the whole federation of brokers and takes a filter on the content. Raises as paho
    does, and LocalError for an environment or a Federation that makes no sense.
    """

    _farewells: Farewells | None = None

    def __init__(  # noqa: PLR0913 - paho's arguments, and one more
        self,
        callback_api_version: CallbackAPIVersion = CallbackAPIVersion.VERSION1,
        client_id: str | None = "",
        clean_session: bool | None = None,
        userdata: Any = None,
        protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv311,
        transport: Literal["tcp", "websockets", "unix"] = "tcp",
        reconnect_on_failure: bool = True,
        manual_ack: bool = False,
        *,
        federation: bool | Federation | None = None,
    ) -> None:
        super().__init__(
            callback_api_version,
            client_id,
            clean_session,
            userdata,
            protocol,
            transport,
            reconnect_on_failure,
            manual_ack,
        )
        self._on_established: OnEstablished | None = None
        self._on_refused: OnRefused | None = None
        self._on_migrated: OnMigrated | None = None
        self._federation = federation
        self._local: dict[str, tuple[int, SubscribeOptions | None]] = {}  # what is subscribed to at the one broker
        self._is_elsewhere = False
        self._shim: Shim | None = None
        settings = federation_of(federation)
        if settings is not None:
            self._shim = Shim(self, settings, self._client_id.decode(), self._is_kept)
            self._client_id = self._client_id or self._shim.client.encode()  # the same at every broker
            self._shim.acknowledges_itself = manual_ack
        self.wire(self._shim)

    def reinitialise(self, client_id: str = "", clean_session: bool = True, userdata: Any = None) -> None:
        """Begin anew, as paho does; one that is in the federation stays in it, and leaves what it was at before."""
        federation = self._federation
        if self._shim is not None:
            self._shim.leave()
            if self._is_kept():
                self.farewells.call_off()  # what is held nobody can acknowledge any more: it is for a later life
        self._reset_sockets()
        Client.__init__(self, self.callback_api_version, client_id, clean_session, userdata, federation=federation)

    # ---- what is new ---------------------------------------------------------------------------------------------

    @property
    def broker(self) -> str | None:
        """The name, in the federation, of the broker that serves us; None before its gateway was found."""
        return None if self._shim is None else self._shim.broker

    def stats(self) -> Stats:
        """Return how much has come from the federation; raises LocalError without one."""
        return self._in_federation("stats()").stats()

    @property
    def on_established(self) -> OnEstablished | None:
        """Called when every gateway in reach routes for a subscription: `(client, userdata, wish, partly)`.

        With `partly` some are out of reach; it is called again when all do.
        """
        return self._on_established

    @on_established.setter
    def on_established(self, callback: OnEstablished | None) -> None:
        with self._callback_mutex:
            self._on_established = callback

    @property
    def on_refused(self) -> OnRefused | None:
        """Called when a subscription is refused, or no gateway answers: `(client, userdata, wish, problem)`.

        In the second case it is asked for again as soon as a gateway answers.
        """
        return self._on_refused

    @on_refused.setter
    def on_refused(self, callback: OnRefused | None) -> None:
        with self._callback_mutex:
            self._on_refused = callback

    @property
    def on_migrated(self) -> OnMigrated | None:
        """Called when another broker serves us: `(client, userdata, source, to)`; nothing needs to be done about it."""
        return self._on_migrated

    @on_migrated.setter
    def on_migrated(self, callback: OnMigrated | None) -> None:
        with self._callback_mutex:
            self._on_migrated = callback

    # ---- paho's calls that mean more -----------------------------------------------------------------------------

    def subscribe(
        self,
        topic: Topics,
        qos: int = 0,
        options: SubscribeOptions | None = None,
        properties: Properties | None = None,
        *,
        where: str = "",
        local: bool = False,
    ) -> tuple[MQTTErrorCode, int | None]:
        """Subscribe as paho does; in a federation on all its brokers, to what matches `where`, unless `local`.

        on_subscribe is then called when the gateway has answered for each topic. Raises as paho does, and FilterError
        or TopicError for a mistake in what is asked for, LocalError for `where` without a federation.
        """
        if where or self._shim is not None:
            found = asked(topic, qos, options, self._protocol)
            local = local or check_same_place(found)
            if where and local:
                raise LocalError("subscribe(): where= is for the federation, and a local subscription is not in it")
            if not local:
                return self._subscribe_all(
                    [Wanted(wish_of(each, where, properties), min(each.qos, QOS_MAX)) for each in found]
                )
            return self._subscribe_here(found, lambda: PahoClient.subscribe(self, topic, qos, options, properties))
        return super().subscribe(topic, qos, options, properties)

    def unsubscribe(
        self, topic: str | list[str], properties: Properties | None = None, *, where: str | None = None
    ) -> tuple[MQTTErrorCode, int | None]:
        """Unsubscribe as paho does; with `where`, from the one subscription with that filter on the content.

        What was published before may still come, until on_unsubscribe is called. Raises as paho does.
        """
        if self._shim is None:
            if where is not None:
                self._in_federation("unsubscribe(where=)")
            return super().unsubscribe(topic, properties)
        with self._gate.passing():
            return self._unsubscribe(self._shim, topic, properties, where)

    def connect_async(
        self,
        host: str,
        port: int = 1883,
        keepalive: int = 60,
        bind_address: str = "",
        bind_port: int = 0,
        clean_start: CleanStartOption = MQTT_CLEAN_START_FIRST_ONLY,
        properties: Properties | None = None,
    ) -> None:
        """Connect as paho does; if we were moved, we begin again at the broker that is named here."""
        if self._shim is not None:
            self._shim.recall()
            self._shim.begin_again()
            self._led_to = None
            self._is_quiet = False
            self._end_lent_session()
        super().connect_async(host, port, keepalive, bind_address, bind_port, clean_start, properties)

    def reconnect(self) -> MQTTErrorCode:
        """Connect as paho does; what ends a session of ours at this broker is over before."""
        if self._shim is not None:
            self._shim.make_way()
        return super().reconnect()

    def disconnect(self, reasoncode: ReasonCode | None = None, properties: Properties | None = None) -> MQTTErrorCode:
        """Disconnect as paho does; subscriptions in the federation end with a session that is not kept."""
        if self._shim is not None:
            self._shim.leave()
        with self._gate.passing():
            result = super().disconnect(reasoncode, properties)
        self._is_quiet = False  # paho tells of no end where there is no connection
        if self._own_clean_session:  # it was kept, to be moved
            self._in_federation("disconnect() after a move").forget_at_the_end(lambda: self._sock is None)
        self._end_lent_session()
        return result

    def ack(self, mid: int, qos: int) -> MQTTErrorCode:
        """Acknowledge as paho does, what came from the federation too."""
        if self._shim is None or mid <= PACKET_IDS:
            return super().ack(mid, qos)
        return self._shim.acknowledge(mid)

    def manual_ack_set(self, on: bool) -> None:
        """Let the application acknowledge by itself, or not, as paho does."""
        super().manual_ack_set(on)
        if self._shim is not None:
            self._shim.acknowledges_itself = on

    # ---- for the shim --------------------------------------------------------------------------------------------

    def deliver(self, message: MQTTMessage) -> None:
        """Call on_message, or the callbacks for its topic, as for any message; not for applications."""
        PahoClient._handle_on_message(self, message)

    def acknowledge(self, packet: int) -> MQTTErrorCode:
        """Tell the broker that a message of QoS 1 has arrived; not for applications."""
        return super().ack(packet, 1)

    @property
    def farewells(self) -> Farewells:
        """What we are leaving, also since before `reinitialise`; not for applications."""
        self._farewells = self._farewells or Farewells()
        return self._farewells

    @property
    def leg_address(self) -> Address:
        """Where the broker is; not for applications."""
        led_to = self._led_to
        if led_to is not None and (led_to.host, led_to.port) == (self._host, self._port):
            return led_to
        return Address(self._host, self._port, self.own_tls)

    @property
    def own_tls(self) -> ssl.SSLContext | None:
        """With what the application has set up TLS, wherever we are; not for applications."""
        return self._ssl_context if self._ssl else None

    def _create_socket(self) -> Any:
        """Connect as paho does; to where we were moved with TLS or without, as that broker wants it."""
        address = self.leg_address
        if address is not self._led_to:
            return super()._create_socket()
        plain = self._create_socket_connection()
        if address.tls is None:
            return plain
        sealed = address.tls.wrap_socket(plain, server_hostname=address.host, do_handshake_on_connect=False)
        try:
            sealed.settimeout(self._connect_timeout)
            sealed.do_handshake()
        except OSError:
            sealed.close()
            raise
        return sealed

    def _end_lent_session(self) -> None:
        """Have sessions as the application wants them, from the next connection on."""
        if self._own_clean_session is not None:
            self._clean_session, self._own_clean_session = self._own_clean_session, None

    @property
    def leg_identity(self) -> Identity:
        """As whom we connect; not for applications."""
        return Identity(
            client_id=self._client_id.decode(),
            protocol=self._protocol,
            username=self.username,
            password=self._password,
            keepalive_s=self._keepalive,
            session_s=self._session_s or PASSING_S,
            proxy=self._proxy,
            bind_address=self._bind_address,
            properties=self._connect_properties,
        )

    def go_to(self, address: Address) -> bool:
        """Connect to another broker, and have there what was subscribed to at the one; not for applications."""
        has_gone = super().go_to(address)
        self._is_elsewhere = self._is_elsewhere or has_gone
        return has_gone

    def _handle_connack(self) -> MQTTErrorCode:
        result = super()._handle_connack()
        if self._is_elsewhere and self.is_connected():
            self._is_elsewhere = False
            for topics, (qos, options) in list(self._local.items()):
                _, mid = super().subscribe(topics, 0 if options is not None else qos, options)
                self._our_subscribes |= set() if mid is None else {mid}
        return result

    def tell_established(self, wish: Wish, *, partly: bool) -> None:
        """Call on_established; not for applications."""
        with self._callback_mutex:
            callback = self._on_established
        if callback is not None:
            self._call("on_established", lambda: callback(self, self._userdata, wish, partly))

    def tell_refused(self, wish: Wish, problem: str) -> None:
        """Call on_refused; not for applications."""
        with self._callback_mutex:
            callback = self._on_refused
        if callback is not None:
            self._call("on_refused", lambda: callback(self, self._userdata, wish, problem))

    def tell_migrated(self, source: str, to: str) -> None:
        """Call on_migrated; not for applications."""
        with self._callback_mutex:
            callback = self._on_migrated
        if callback is not None:
            self._call("on_migrated", lambda: callback(self, self._userdata, source, to))

    def _call(self, name: str, callback: Callable[[], None]) -> None:
        """Call back as paho does."""
        with self._in_callback_mutex:
            try:
                callback()
            except Exception as error:
                self._easy_log(LogLevel.MQTT_LOG_ERR, "Caught exception in %s: %s", name, error)
                if not self.suppress_exceptions:
                    raise

    def _subscribe_all(self, wanted: list[Wanted]) -> tuple[MQTTErrorCode, int | None]:
        shim = self._in_federation("subscribe(where=)")
        with self._gate.passing():
            is_away = self._sock is None
        if is_away:
            return MQTTErrorCode.MQTT_ERR_NO_CONN, None
        named = [(wish_name(each.wish), each) for each in wanted]
        new = sum(shim.table.get(name) is None for name, _ in named)
        if len(shim.table) + new > RECORD_SUBSCRIPTIONS_MAX:
            raise LocalError(f"subscribe(): a client has at most {RECORD_SUBSCRIPTIONS_MAX} subscriptions")
        mid = self._mid_generate()
        shim.table.subscribing.begin(mid, [name for name, _ in named])
        for name, each in named:
            shim.want(name, each)
        return MQTTErrorCode.MQTT_ERR_SUCCESS, mid

    def _subscribe_here(self, found: list[Asked], subscribe: Callable[[], Subscribed]) -> Subscribed:
        """Subscribe at the one broker, and at the next that we are moved to; not there, if paho refuses it here."""
        new = [each.topics for each in found if each.topics not in self._local]
        self._local.update((each.topics, (each.qos, each.options)) for each in found)  # first: we may just be moved
        result, mid = MQTTErrorCode.MQTT_ERR_NO_CONN, None
        try:
            with self._gate.passing():
                result, mid = subscribe()
        finally:
            if result != MQTTErrorCode.MQTT_ERR_SUCCESS:
                for topics in new:
                    self._local.pop(topics, None)
        return result, mid

    def _unsubscribe(
        self, shim: Shim, topic: str | list[str], properties: Properties | None, where: str | None
    ) -> Subscribed:
        topics = topic if isinstance(topic, list) else [topic]
        for each in topics:
            self._local.pop(each, None)
        names = [name for each in topics for name in shim.table.names_of(each, where)]
        others = [each for each in topics if not shim.table.names_of(each, None)]
        for each in others:
            shim.table.give_up(each)
        if not names:
            return super().unsubscribe(topic, properties)
        if others:
            self.unsubscribe_unheard(others, properties)
        if self._sock is None:
            return MQTTErrorCode.MQTT_ERR_NO_CONN, None
        mid = self._mid_generate()
        shim.table.unsubscribing.begin(mid, names)
        for name in names:
            shim.unwant(name)
        return MQTTErrorCode.MQTT_ERR_SUCCESS, mid

    def _in_federation(self, call: str) -> Shim:
        if self._shim is None:
            raise LocalError(
                f"{call} needs a federation: make the client with federation=True, or set MQLOOM_FEDERATION=1"
            )
        return self._shim

    def _is_kept(self) -> bool:
        """Whether the broker keeps our session when the connection is gone, as the application wants it."""
        if self._protocol == MQTTProtocolVersion.MQTTv5:
            return self._session_s > 0
        return not (self._clean_session if self._own_clean_session is None else self._own_clean_session)

    @property
    def _session_s(self) -> int:
        """How long the application wants its session to be kept, with MQTT 5."""
        return int(getattr(self._connect_properties, "SessionExpiryInterval", 0))
