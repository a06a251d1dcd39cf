"""Putting a gateway together: configuration and plugins in, a node and its driver out."""

import logging
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

from mqloom.core.counters import Counters
from mqloom.core.errors import ConfigurationError, LocalError
from mqloom.core.ids import GatewayId
from mqloom.core.seals import NONCE_BYTES, Keyring
from mqloom.core.telemetry import Record
from mqloom.core.telemetry_key_file import telemetry_secrets
from mqloom.core.tls import tls_context
from mqloom.gateway.agent_interfaces import Agent
from mqloom.gateway.configuration import BrokerTable, Configuration
from mqloom.gateway.configuration_checks import Federation, hints
from mqloom.gateway.configuration_texts import configuration_texts
from mqloom.gateway.drivers.gateway import Addresses, GatewayDriver
from mqloom.gateway.drivers.metering import MemoryLimits
from mqloom.gateway.drivers.metrics import MetricsAddress
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.gateway.drivers.observing import ObservationPlan, Sinks
from mqloom.gateway.drivers.telemetry import TelemetryPlan
from mqloom.gateway.drivers.wall_clock import wall_at
from mqloom.gateway.interfaces import BrokerAdapter, BrokerAddress, CounterRecord, RecordRequest, SubscribeRequest
from mqloom.gateway.key_file import keyring_in, order_keys_in, session_secret_in
from mqloom.gateway.link_changes import Network
from mqloom.gateway.node import Node, NodeParts
from mqloom.gateway.pace import Pace
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.gateway.reloading import changed, changed_agents, left_as_it_was
from mqloom.gateway.rosters import OrderParts
from mqloom.gateway.sealing import SealParts
from mqloom.gateway.subscribers import Standing

logger = logging.getLogger(__name__)


def build_driver(
    federation: Federation,
    gateway: GatewayId,
    *,
    adapter: BrokerAdapter | None = None,
    kind: type[GatewayDriver] = GatewayDriver,
) -> GatewayDriver:
    """Return the driver of one gateway, ready to run; must be called where an event loop runs.

    An adapter takes the place of the one in the configuration, and a kind of driver that of the usual one.
    """
    return Assembly(federation, gateway, adapter, kind).driver


class Assembly:
    """One gateway put together, so that it can be given another configuration while it runs."""

    def __init__(
        self,
        federation: Federation,
        gateway: GatewayId,
        adapter: BrokerAdapter | None = None,
        kind: type[GatewayDriver] = GatewayDriver,
    ) -> None:
        self._federation = self._begun_with = federation
        self._gateway = gateway
        self._counters = Counters()
        self._keyring: Keyring | None = None
        self._agent_names: dict[str, str] = {}  # by plugin
        configuration, manager = federation.configuration, federation.manager
        broker = configuration.broker(gateway)
        self._session_secret = _session_secret(configuration)  # for as long as we run: other ids are other sessions
        address = replace(_address(configuration, broker), session_secret=self._session_secret)
        for other in configuration.neighbours(gateway):  # better to fail now than when the link is opened
            _address(configuration, configuration.broker(other), gateway)
        for hint in hints(federation):
            logger.warning("%s", hint, extra={"gateway": gateway})
        self.driver = kind(
            self._build_node,
            gateway,
            adapter or manager.adapters()[broker.adapter].build(address),
            Addresses(
                address,
                self._address_of,
                MQTT_CLIENTS[configuration.federation.mqtt_client],
                former_sessions(gateway, configuration.neighbours(gateway)) if self._session_secret else (),
            ),
            configuration.data,
            Sinks(self._sink, self._records),
            ObservationPlan(
                configuration.federation.telemetry_s,
                MetricsAddress(broker.metrics_host, broker.metrics_port),
                configuration.federation.load_window_s,
                broker.output_bytes_s_max,
                MemoryLimits(broker.memory_bytes_max, broker.broker_memory_bytes_max),
                telemetry_plan(configuration, gateway),
            ),
        )

    def reload(self, federation: Federation) -> tuple[list[str], list[str]]:
        """Let another configuration hold; return what is different now, and what must wait for a restart.

        Raises ConfigurationError.
        """
        left = left_as_it_was(self._begun_with, federation, self._gateway)
        news = changed(self._federation, federation, self._gateway)
        agents, agent_names = self._replacing(federation)
        changeable = replace(_changeable(federation, self._gateway), agents=agents)
        telemetry = telemetry_plan(federation.configuration, self._gateway)
        for other in federation.configuration.neighbours(self._gateway):  # as at a start
            _address(federation.configuration, federation.configuration.broker(other), self._gateway)
        news += _news_of_keys(self._keyring, changeable.keyring)
        if changeable.keyring is not None and _session_secret(federation.configuration) != self._session_secret:
            left.append("keys: the ids of sessions")
        self._federation, self._keyring, self._agent_names = federation, changeable.keyring, agent_names
        self.driver.reconfigure(changeable, federation.configuration.federation.telemetry_s, telemetry)
        return news, left

    def _replacing(self, federation: Federation) -> tuple[dict[str, Agent | None], dict[str, str]]:
        """Return which agents begin, which end, and what all are called then; those that go on are not built again."""
        plugins = changed_agents(self._federation, federation)
        staying = {plugin: name for plugin, name in self._agent_names.items() if plugin not in plugins}
        window_s = self._begun_with.configuration.federation.load_window_s  # that of the meters, which go on
        fresh = federation.manager.agents(self._gateway, window_s, only=plugins, taken=staying.values())
        ended = {name: None for plugin, name in self._agent_names.items() if plugin in plugins}
        names = staying | {plugin: agent.name for plugin, agent in fresh.items()}
        return ended | {agent.name: agent for agent in fresh.values()}, names

    def _address_of(self, gateway: GatewayId) -> BrokerAddress | None:
        """Return the address of a broker that is perhaps not ours to know: None if its password is not set here."""
        configuration = self._federation.configuration
        try:
            address = _address(configuration, configuration.broker(gateway), self._gateway)
            return replace(address, session_secret=self._session_secret)
        except ConfigurationError:
            return None

    def _build_node(self, epoch: int, now: float) -> Node:
        configuration, manager = self._federation.configuration, self._federation.manager
        gateway, broker = self._gateway, configuration.broker(self._gateway)
        changeable = _changeable(self._federation, gateway)
        keyring, network = changeable.keyring, changeable.network
        self._keyring = keyring
        agents = manager.agents(gateway, configuration.federation.load_window_s)
        self._agent_names = {plugin: agent.name for plugin, agent in agents.items()}
        assert network is not None
        parts = NodeParts(
            gateway=gateway,
            epoch=epoch,
            neighbours=network.neighbours,
            matcher=manager.matchers()[configuration.federation.matcher].build(),
            overlay=manager.overlays()[configuration.federation.overlay].build(
                gateway, network.neighbours, broker.overlay_settings
            ),
            peers=network.peers,
            network=network.links,
            shows_links=True,
            agents=list(agents.values()),
            offloads=manager.offloads(),
            admit=self._admit,
            admit_record=self._admit_record,
            pace=Pace(),
            codecs=changeable.codecs,
            data=changeable.data,
            payload_bytes_max=configuration.federation.payload_bytes_max,
            federate=changeable.federate,
            standing=changeable.standing,
            counters=self._counters,
            orders=changeable.orders,
            seals=None if keyring is None else SealParts(keyring, secrets.token_bytes(NONCE_BYTES)),
        )
        return Node(parts, now)

    def _admit(self, request: SubscribeRequest) -> str | None:
        return self._federation.manager.admit(request, self._failed)

    def _admit_record(self, request: RecordRequest) -> str | None:
        return self._federation.manager.admit_record(request, self._failed)

    def _sink(self, record: CounterRecord) -> None:
        self._federation.manager.record(record, self._failed)

    def _records(self, records: Sequence[Record]) -> None:
        self._federation.manager.telemetry(self._gateway, records, self._failed)

    def _failed(self, plugin: str, hook: str, error: Exception) -> None:
        self._counters.add("plugin_failures", plugin)
        count = self._counters.value("plugin_failures", plugin)
        if count & (count - 1) == 0:  # a plugin that always fails must not fill the log
            text = "plugin %s: %s raised (%s so far)"
            logger.error(text, plugin, hook, count, exc_info=error, extra={"gateway": self._gateway})


def _changeable(federation: Federation, gateway: GatewayId) -> Reconfigured:
    """Return what of a configuration may change while the gateway runs."""
    configuration = federation.configuration
    codecs = federation.manager.codecs()
    return Reconfigured(
        codecs=[(table.topics, *(codecs[name] for name in table.names)) for table in configuration.codecs],
        standing=[
            Standing(table.topics, table.where, table.into)
            for table in configuration.subscriptions
            if table.broker == gateway
        ],
        federate=configuration.federate(gateway),
        data=configuration.data,
        keyring=keyring_of(configuration),
        orders=_order_parts(configuration),
        network=Network(
            configuration.neighbours(gateway),
            [broker.id for broker in configuration.brokers if broker.id != gateway],
            [(one, other) for one, other in (link.between for link in configuration.links)],
        ),
    )


def telemetry_plan(configuration: Configuration, gateway: GatewayId) -> TelemetryPlan:
    """Return what a gateway tells the collector, and plugins; raises ConfigurationError."""
    table = configuration.telemetry
    return TelemetryPlan(
        endpoint=table.endpoint,
        window_s=table.window_s,
        held_bytes_max=table.held_bytes_max,
        groups_max=table.groups_max,
        secrets=() if configuration.key_path is None else telemetry_secrets(configuration.key_path),
        to_plugins=table.plugins,
        is_on=configuration.broker(gateway).telemetry and bool(table.endpoint or table.plugins),
        settings=configuration_texts(configuration, gateway, version("mqloom")),
    )


def keyring_of(configuration: Configuration) -> Keyring | None:
    """Return the federation's keys, if it has any; raises ConfigurationError."""
    return None if configuration.key_path is None else keyring_in(configuration.key_path)


def _news_of_keys(before: Keyring | None, after: Keyring | None) -> list[str]:
    """Return what is different: at each step of a rotation something else."""
    if before is None or after is None:  # that waits for a new start
        return []
    had, has = ({key.name for key in (one.sending, *one.accepted)} for one in (before, after))
    news = [f"keys: {name} counts from now on" for name in sorted(has - had)]
    if before.sending != after.sending:
        news.append(f"keys: {after.sending.name} seals from now on")
    return [*news, *(f"keys: {name} counts no more" for name in sorted(had - has))]


def _session_secret(configuration: Configuration) -> bytes:
    """Return from what the ids of gateways' sessions are made, if the federation has it; raises ConfigurationError."""
    return b"" if configuration.key_path is None else session_secret_in(configuration.key_path)


def former_sessions(gateway: GatewayId, neighbours: Sequence[GatewayId]) -> list[str]:
    """Return the ids of the sessions that its own broker kept for a gateway while the federation had no secret."""
    parts = ("", "-control", "-interest", *(f"-park-{each}" for each in neighbours))
    return [f"mqloom-{gateway}{part}" for part in parts]


def _order_parts(configuration: Configuration) -> OrderParts | None:
    """Return with what gateways order clients; None without an order key. Raises ConfigurationError."""
    keys = None if configuration.key_path is None else order_keys_in(configuration.key_path)
    if keys is None:
        return None
    brokers = {broker.id: broker.for_clients() for broker in configuration.brokers}
    return OrderParts(federation=configuration.federation.name, keys=keys, brokers=brokers, wall_at=wall_at)


def visiting_address(configuration: Configuration, gateway: GatewayId, visitor: GatewayId) -> BrokerAddress:
    """Return where a broker is for another gateway; raises ConfigurationError if a password is not set here."""
    return _address(configuration, configuration.broker(gateway), visitor)


def reachable_brokers(
    configuration: Configuration,
) -> tuple[dict[GatewayId, BrokerAddress], dict[GatewayId, str]]:
    """Return the addresses of all brokers; and why there is none, for those whose password is not set here."""
    addresses, problems = {}, {}
    for broker in configuration.brokers:
        try:
            addresses[broker.id] = _address(configuration, broker)
        except ConfigurationError as error:
            problems[broker.id] = error.problems[0]
    return addresses, problems


def _address(configuration: Configuration, broker: BrokerTable, visitor: GatewayId | None = None) -> BrokerAddress:
    """Return where a broker is, for its own gateway or for another one."""
    username, variable = broker.username, broker.password_env
    if visitor is not None:
        username, variable = broker.visitor_name(visitor), broker.visitor_variable(visitor)
    password = ""
    if variable:
        try:
            password = os.environ[variable]
        except KeyError:
            problem = f"broker {broker.id!r}: the environment variable {variable} is not set"
            raise ConfigurationError(configuration.source, (problem,)) from None
    tls = broker.tls_files(configuration.folder, visitor or broker.id)
    if tls is not None:
        try:
            tls_context(tls)
        except LocalError as error:
            raise ConfigurationError(configuration.source, (f"broker {broker.id!r}: {error}",)) from None
    return BrokerAddress(broker.host, broker.port, username, password, tls)
