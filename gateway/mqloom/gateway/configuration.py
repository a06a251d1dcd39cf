"""`federation.toml` as typed structures: read here, checked in `configuration_checks`, all told in docs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from mqloom.core import layout
from mqloom.core.errors import ConfigurationError
from mqloom.core.ids import GatewayId, GatewayName
from mqloom.core.limits import HOST_LENGTH_MAX, ID_LENGTH_MAX, PAYLOAD_BYTES_MAX
from mqloom.core.orders import RosterBroker
from mqloom.core.telemetry_outbox import HELD_BYTES_MAX
from mqloom.core.tls import TlsFiles
from mqloom.core.topics import encode_id
from mqloom.gateway.tables import ReadTable, nearest, read_table, read_tables, read_toml

GATEWAY_MARK: Final = "{gateway}"
"""Stands for the id of the gateway that logs in; in the name of a variable in capitals, other characters as `_`."""

Port = Annotated[int, Meta(ge=1, le=65_535)]
PortOrNone = Annotated[int, Meta(ge=0, le=65_535)]
Text = Annotated[str, Meta(min_length=1)]


class FederationTable(Struct, frozen=True, kw_only=True):
    """[federation]: what holds for all gateways."""

    name: Annotated[str, Meta(min_length=1, max_length=ID_LENGTH_MAX)]
    data: Annotated[list[str], Meta(min_length=1)]
    matcher: str = "content"
    overlay: str = "tree"
    mqtt_client: str = "asyncio"
    payload_bytes_max: Annotated[int, Meta(ge=1, le=PAYLOAD_BYTES_MAX)] = PAYLOAD_BYTES_MAX
    telemetry_s: Annotated[float, Meta(gt=0, le=86_400)] = 10.0
    key_file: str = ""
    load_window_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 10.0


class CodecTable(Struct, frozen=True, kw_only=True):
    """[[codecs]]: how the publications below a topic filter are read; the first that matches is used."""

    topics: str
    codec: str | Annotated[list[str], Meta(min_length=1)]

    @property
    def names(self) -> list[str]:
        """The codecs in their order, be it one or more."""
        return [self.codec] if isinstance(self.codec, str) else self.codec


class BrokerTable(Struct, frozen=True, kw_only=True):
    """[[brokers]]: a broker, and so the gateway beside it."""

    id: GatewayName
    host: Text = "127.0.0.1"
    port: Port = 1883
    adapter: str = "mqtt"
    username: str = ""
    password_env: str = ""
    link_username: str = ""
    link_password_env: str = ""
    tls: bool = False
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_check_hostname: bool = True
    federate: list[str] = field(default_factory=list)
    overlay_settings: dict[str, object] = field(default_factory=dict)
    metrics_port: PortOrNone = 0
    metrics_host: Text = "127.0.0.1"
    client_host: Annotated[str, Meta(max_length=HOST_LENGTH_MAX)] = ""
    client_port: PortOrNone = 0
    client_tls: Literal["same", "on", "off"] = "same"
    output_bytes_s_max: Annotated[int, Meta(ge=0)] = 0
    memory_bytes_max: Annotated[int, Meta(ge=0)] = 0
    broker_memory_bytes_max: Annotated[int, Meta(ge=0)] = 0
    telemetry: bool = True

    def for_clients(self) -> RosterBroker:
        """Where clients that are moved here find this broker."""
        tls = self.tls if self.client_tls == "same" else self.client_tls == "on"
        return RosterBroker(host=self.client_host or self.host, port=self.client_port or self.port, tls=tls)

    @property
    def republishes(self) -> bool:
        """Whether publications of other gateways are published here under their own topics, for plain clients."""
        return bool(self.federate) or self.adapter != "mqtt"

    def visitor_name(self, visitor: GatewayId) -> str:
        """Whom another gateway logs in as at this broker."""
        return self.link_username.replace(GATEWAY_MARK, visitor) if self.link_username else self.username

    def visitor_variable(self, visitor: GatewayId) -> str:
        """The environment variable that holds the password for that."""
        if not self.link_username:
            return self.password_env
        return self.link_password_env.replace(GATEWAY_MARK, re.sub(r"[^A-Z0-9_]", "_", visitor.upper()))

    def tls_files(self, folder: Path, visitor: GatewayId) -> TlsFiles | None:
        """The certificates with which a gateway comes to this broker; None: without TLS."""

        def path(text: str) -> str:
            return str(folder / text.replace(GATEWAY_MARK, encode_id(visitor))) if text else ""

        if not self.tls:
            return None
        return TlsFiles(
            ca=path(self.tls_ca),
            certificate=path(self.tls_certificate),
            key=path(self.tls_key),
            check_hostname=self.tls_check_hostname,
        )


class LinkTable(Struct, frozen=True, kw_only=True):
    """[[links]]: a primary link between two brokers."""

    between: Annotated[list[GatewayName], Meta(min_length=2, max_length=2)]


class SubscriptionTable(Struct, frozen=True, kw_only=True):
    """[[subscriptions]]: what matches anywhere is republished on this broker, below the topic `into`."""

    broker: str
    topics: str
    into: str
    where: str = ""


class TelemetryTable(Struct, frozen=True, kw_only=True):
    """[telemetry]: what gateways tell a collector about themselves, if there is one."""

    endpoint: str = ""
    window_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 10.0
    groups_max: Annotated[int, Meta(ge=0, le=100_000)] = 1_000
    held_bytes_max: Annotated[int, Meta(ge=1_048_576)] = HELD_BYTES_MAX
    plugins: bool = False


class PluginsTable(Struct, frozen=True, kw_only=True):
    """[plugins]: what is loaded besides the installed ones, what is not, and everybody's settings."""

    files: list[str] = field(default_factory=list)
    directory: str = "plugins.d"
    disabled: list[str] = field(default_factory=list)
    settings: dict[str, dict[str, object]] = field(default_factory=dict)


class Configuration(Struct, frozen=True, kw_only=True):
    """A federation as its operator describes it. Paths in it are relative to `folder`."""

    source: str
    folder: Path
    federation: FederationTable
    brokers: list[BrokerTable]
    links: list[LinkTable]
    codecs: list[CodecTable]
    plugins: PluginsTable
    subscriptions: list[SubscriptionTable]
    telemetry: TelemetryTable = TelemetryTable()

    @property
    def key_path(self) -> Path | None:
        """Where the federation's keys are; None if it has none."""
        return self.folder / self.federation.key_file if self.federation.key_file else None

    @property
    def alerts(self) -> list[str]:
        """The topics, none or one, on which alerts about telemetry reach every broker: where telemetry is collected."""
        return [layout.alerts()] if self.telemetry.endpoint else []

    @property
    def data(self) -> list[str]:
        """What gateways carry: the deployment's own topics, and alerts. Of what else is ours they carry nothing."""
        return [*self.federation.data, *self.alerts]

    def federate(self, gateway: GatewayId) -> list[str]:
        """Return what plain clients of a broker get whether or not it is known that they want it."""
        return [*self.broker(gateway).federate, *self.alerts]

    def broker(self, gateway: str) -> BrokerTable:
        """Return one broker; raises ConfigurationError if there is none of that id."""
        for broker in self.brokers:
            if broker.id == gateway:
                return broker
        hint = nearest(gateway, [broker.id for broker in self.brokers])
        raise ConfigurationError(self.source, (f"there is no broker {gateway!r}; {hint}",))

    def neighbours(self, gateway: GatewayId) -> list[GatewayId]:
        """Return a broker's neighbours over primary links, in the order of the configuration."""
        return [other for link in self.links for other in link.between if gateway in link.between and other != gateway]


TABLES: Final[Mapping[str, type[Struct]]] = {
    "federation": FederationTable,
    "codecs": CodecTable,
    "brokers": BrokerTable,
    "links": LinkTable,
    "plugins": PluginsTable,
    "subscriptions": SubscriptionTable,
    "telemetry": TelemetryTable,
}
"""Every table of the file, by name."""

DEFAULT_CODECS: Final = (ReadTable("codecs (the default)", CodecTable(topics="#", codec="json"), sound=True),)
"""What holds in a file without [[codecs]]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What could be read of a file, mistakes or not, so that its meaning can be checked together with its form."""

    source: str
    folder: Path
    federation: FederationTable | None
    brokers: list[ReadTable[BrokerTable]]
    links: list[ReadTable[LinkTable]]
    codecs: list[ReadTable[CodecTable]]
    plugins: PluginsTable | None
    subscriptions: list[ReadTable[SubscriptionTable]]
    telemetry: TelemetryTable | None
    problems: tuple[str, ...]

    def finish(self) -> Configuration:
        """Return the configuration; raises ConfigurationError if its form has mistakes."""
        if self.problems:
            raise ConfigurationError(self.source, self.problems)
        assert self.federation is not None
        assert self.plugins is not None
        assert self.telemetry is not None
        return Configuration(
            source=self.source,
            folder=self.folder,
            federation=self.federation,
            brokers=[entry.table for entry in self.brokers if entry.table is not None],
            links=[entry.table for entry in self.links if entry.table is not None],
            codecs=[entry.table for entry in self.codecs if entry.table is not None],
            plugins=self.plugins,
            subscriptions=[entry.table for entry in self.subscriptions if entry.table is not None],
            telemetry=self.telemetry,
        )


def read_draft(path: Path) -> Draft:
    """Return what is in a file, its form checked; raises ConfigurationError only if it is no TOML at all."""
    document = read_toml(path)
    problems = [f"unknown table {key!r}; {nearest(key, TABLES)}" for key in document if key not in TABLES]
    federation = None
    if "federation" in document:
        federation = read_table(FederationTable, document["federation"], "federation", problems)
    else:
        problems.append("table [federation] is missing; it needs at least `name` and `data`")
    wrong_plugins: list[str] = []
    plugins = read_table(PluginsTable, document.get("plugins", {}), "plugins", wrong_plugins)
    codecs = list(DEFAULT_CODECS)
    if "codecs" in document:
        codecs = read_tables(CodecTable, document["codecs"], "codecs", problems)
    return Draft(
        source=str(path),
        folder=path.resolve().parent,
        federation=federation,
        brokers=read_tables(BrokerTable, document.get("brokers", []), "brokers", problems),
        links=read_tables(LinkTable, document.get("links", []), "links", problems),
        codecs=codecs,
        plugins=None if wrong_plugins else plugins,  # in half, it would load half the plugins
        subscriptions=read_tables(SubscriptionTable, document.get("subscriptions", []), "subscriptions", problems),
        telemetry=read_table(TelemetryTable, document.get("telemetry", {}), "telemetry", problems),
        problems=(*problems, *wrong_plugins),
    )
