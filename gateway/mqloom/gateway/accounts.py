"""Who may do what on the brokers of a federation: an account for each gateway, each visitor, each client, and no more.

On its own broker a gateway owns everything below `mqloom/v1/ID/`. Another gateway may write the frames of its own link
there, and read what comes back. A client may write its own record, and read what an earlier life of it has written
there, write its answers to orders, and read what is for it and the roster. Where telemetry is collected, gateways carry
alerts, which clients may read; to write them there may be an account of its own.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mqloom.core import layout
from mqloom.core.errors import ConfigurationError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.gateway.configuration import BrokerTable, Configuration


class Account(NamedTuple):
    """One account of a broker; the name is empty for whoever does not log in. Topics are filters."""

    name: str
    whose: str
    """For people."""
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    user: GatewayId | None = None
    """The gateway that logs in by it."""
    variable: str = ""
    """The environment variable in which it expects the password."""


def accounts_of(
    configuration: Configuration,
    broker: BrokerTable,
    clients: Sequence[str] = (),
    *,
    anonymous: bool = False,
    alerts: str = "",
) -> list[Account]:
    """Return all accounts of a broker. Every other gateway has one: links are moved, and soft ones lead anywhere.

    `alerts` is the name of the account, if there is to be one, by which alerts are published.
    Raises ConfigurationError if the configuration has no accounts, or two of the same name.
    """
    names = [*clients, alerts] if alerts else clients
    problems = list(_problems(configuration, broker, names))
    if problems:
        raise ConfigurationError(configuration.source, tuple(problems))
    accounts = [_own(configuration, broker)]
    accounts += [_visitor(broker, each.id) for each in configuration.brokers if each.id != broker.id]
    accounts += [_client(configuration, broker, name) for name in clients]
    if alerts:
        topics = (layout.alerts(), layout.alert_fences())
        accounts.append(Account(alerts, "whoever publishes alerts: mqloom spark stream", topics, topics))
    if anonymous:
        reads, writes = _data_of_clients(configuration, broker)
        accounts.insert(0, Account("", "whoever does not log in", reads, writes))
    return accounts


def _problems(configuration: Configuration, broker: BrokerTable, clients: Sequence[str]) -> Iterator[str]:
    name = broker.id.upper()
    if not (broker.username and broker.password_env):
        lines = f'username = "{broker.id}" and password_env = "{name}_PASSWORD"'
        yield f"broker {broker.id!r} has no account for its gateway: add {lines}"
    if len(configuration.brokers) > 1 and not (broker.link_username and broker.link_password_env):
        lines = f'link_username = "{{gateway}}" and link_password_env = "{name}_LINK_{{gateway}}"'
        yield f"broker {broker.id!r} has no accounts for the other gateways: add {lines}"
    others = [each.id for each in configuration.brokers if each.id != broker.id]
    names = [broker.username, *(broker.visitor_name(other) for other in others), *clients]
    if broker.username and broker.link_username:
        twice = sorted({each for each in names if names.count(each) > 1})
        yield from (f"broker {broker.id!r}: {each!r} would be the account of two; name one otherwise" for each in twice)
        variables = [broker.visitor_variable(other) for other in others]
        if broker.link_password_env and "{gateway}" not in broker.link_password_env and len(others) > 1:
            yield f"broker {broker.id!r}: link_password_env is the same for all; put {{gateway}} into it"
        elif len(set(variables)) < len(variables):
            yield f"broker {broker.id!r}: two gateways have the same variable in link_password_env; rename one"
    for each in names:
        if ":" in each or "#" in each or not each.isprintable() or each != each.strip():
            yield f"broker {broker.id!r}: {each!r} is no name for an account: no colon, hash, or space around it"


def _own(configuration: Configuration, broker: BrokerTable) -> Account:
    data = tuple(configuration.federation.data)
    return Account(
        broker.username,
        f"the gateway {broker.id}",
        (f"{layout.ROOT}/{layout.level(broker.id)}/#", layout.roster(), *configuration.data),
        (
            f"{layout.ROOT}/{layout.level(broker.id)}/#",
            layout.here(),
            layout.roster(),
            *_intos(configuration, broker),
            *(data if broker.republishes else ()),
            *configuration.alerts,
        ),
        broker.id,
        broker.password_env,
    )


def _visitor(broker: BrokerTable, visitor: GatewayId) -> Account:
    return Account(
        broker.visitor_name(visitor),
        f"the gateway {visitor}, for its link to {broker.id}",
        (layout.ack(broker.id, visitor), layout.status(broker.id)),
        (layout.link(broker.id, visitor), layout.link(broker.id, visitor, urgent=True)),
        visitor,
        broker.visitor_variable(visitor),
    )


def _client(configuration: Configuration, broker: BrokerTable, name: str) -> Account:
    reads, writes = _data_of_clients(configuration, broker)
    client = ClientId(name)
    return Account(
        name,
        f"the client {name}",
        (
            *reads,
            layout.record(broker.id, client),
            f"{layout.out(broker.id, client)}/#",
            layout.control(broker.id, client),
            layout.all_status(),
            layout.here(),
            layout.roster(),
        ),
        (*writes, layout.record(broker.id, client), layout.client_answer(broker.id, client)),
    )


def _data_of_clients(configuration: Configuration, broker: BrokerTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    data = tuple(configuration.federation.data)
    return (*configuration.data, *_intos(configuration, broker)), data


def _intos(configuration: Configuration, broker: BrokerTable) -> tuple[str, ...]:
    tables = (table for table in configuration.subscriptions if table.broker == broker.id)
    return tuple(dict.fromkeys(f"{table.into}/#" for table in tables))
