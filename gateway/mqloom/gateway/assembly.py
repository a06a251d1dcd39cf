"""Putting a gateway together: configuration and plugins in, a node and its driver out."""

import logging
import os
from functools import partial

from mqloom.core.counters import Counters
from mqloom.core.errors import ConfigurationError, LocalError
from mqloom.core.ids import GatewayId
from mqloom.core.tls import tls_context
from mqloom.gateway.configuration import BrokerTable, Configuration
from mqloom.gateway.configuration_checks import Federation
from mqloom.gateway.drivers.gateway import Addresses, GatewayDriver
from mqloom.gateway.drivers.metrics import MetricsAddress
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.gateway.drivers.observing import ObservationPlan
from mqloom.gateway.interfaces import BrokerAddress, CounterRecord, SubscribeRequest
from mqloom.gateway.node import Node, NodeParts
from mqloom.gateway.subscribers import Standing

logger = logging.getLogger(__name__)


def build_driver(federation: Federation, gateway: GatewayId) -> GatewayDriver:
    """Return the driver of one gateway, ready to run; must be called where an event loop runs."""
    configuration, manager = federation.configuration, federation.manager
    broker = configuration.broker(gateway)
    counters = Counters()

    def failed(plugin: str, hook: str, error: Exception) -> None:
        counters.add("plugin_failures", plugin)
        count = counters.value("plugin_failures", plugin)
        if count & (count - 1) == 0:  # a plugin that always fails must not fill the log
            text = "plugin %s: %s raised (%s so far)"
            logger.error(text, plugin, hook, count, exc_info=error, extra={"gateway": gateway})

    def admit(request: SubscribeRequest) -> str | None:
        return manager.admit(request, failed)

    def sink(record: CounterRecord) -> None:
        manager.record(record, failed)

    neighbours = configuration.neighbours(gateway)

    def build_node(epoch: int, now: float) -> Node:
        codecs = manager.codecs()
        parts = NodeParts(
            gateway=gateway,
            epoch=epoch,
            neighbours=neighbours,
            matcher=manager.matchers()[configuration.federation.matcher].build(),
            overlay=manager.overlays()[configuration.federation.overlay].build(
                gateway, neighbours, broker.overlay_settings
            ),
            peers=[broker.id for broker in configuration.brokers if broker.id != gateway],
            shows_links=True,
            codecs=[(table.topics, *(codecs[name] for name in table.names)) for table in configuration.codecs],
            agents=manager.agents(gateway),
            admit=admit,
            data=configuration.federation.data,
            federate=broker.federate,
            standing=[
                Standing(table.topics, table.where, table.into)
                for table in configuration.subscriptions
                if table.broker == gateway
            ],
            counters=counters,
        )
        return Node(parts, now)

    address = _address(configuration, broker)
    for other in neighbours:  # better to fail now than when the link is opened
        _address(configuration, configuration.broker(other), gateway)
    return GatewayDriver(
        build_node,
        gateway,
        manager.adapters()[broker.adapter].build(address),
        Addresses(
            address, partial(_address_of, configuration, gateway), MQTT_CLIENTS[configuration.federation.mqtt_client]
        ),
        configuration.federation.data,
        sink,
        ObservationPlan(configuration.federation.telemetry_s, MetricsAddress(broker.metrics_host, broker.metrics_port)),
    )


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


def _address_of(configuration: Configuration, visitor: GatewayId, gateway: GatewayId) -> BrokerAddress | None:
    """Return the address of a broker that is perhaps not ours to know: None if its password is not set here."""
    try:
        return _address(configuration, configuration.broker(gateway), visitor)
    except ConfigurationError:
        return None


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
