"""Write a broker's configuration, accounts and access list for a federation, for Mosquitto or RabbitMQ."""

import argparse
import getpass
import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mqloom.core import layout
from mqloom.core.errors import ConfigurationError
from mqloom.core.ids import GatewayId
from mqloom.gateway import mosquitto_files, rabbitmq_files
from mqloom.gateway.accounts import Account, accounts_of
from mqloom.gateway.command_options import add_configuration
from mqloom.gateway.configuration import BrokerTable, Configuration
from mqloom.gateway.configuration_checks import load_federation

Passwords = Mapping[tuple[GatewayId, str], str]
"""By broker and account."""

ENVIRONMENT = "gateway.env"
CLIENTS = "clients.env"


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("maker", choices=("mosquitto", "rabbitmq"), help="whose broker it is")
    add_configuration(parser)
    parser.add_argument("--broker", metavar="BROKER", help="write it for this broker only; else for all")
    parser.add_argument("--out", type=Path, default=Path("brokers"), metavar="DIR", help="default: brokers")
    parser.add_argument(
        "--client", action="append", default=[], metavar="NAME", help="an account for a client too; may be repeated"
    )
    parser.add_argument("--alerts", default="", metavar="NAME", help="an account for `mqloom spark stream`, for alerts")
    parser.add_argument("--anonymous", action="store_true", help="let clients that do not log in use the data topics")
    parser.add_argument("--user", metavar="NAME", help="whom Mosquitto runs as if root starts it; else who writes this")


def run(arguments: argparse.Namespace) -> int:
    """Write the files; raises ConfigurationError if there are no accounts in the configuration, or no file can be."""
    configuration = load_federation(arguments.configuration).configuration
    wanted = [configuration.broker(arguments.broker)] if arguments.broker else configuration.brokers
    accounts = {
        broker.id: accounts_of(
            configuration, broker, arguments.client, anonymous=arguments.anonymous, alerts=arguments.alerts
        )
        for broker in configuration.brokers
    }
    clients = (*arguments.client, arguments.alerts)
    if arguments.maker == "rabbitmq" and arguments.anonymous and rabbitmq_files.ANONYMOUS in clients:
        problem = f"{rabbitmq_files.ANONYMOUS!r} is the account of whoever does not log in; name the client otherwise"
        raise ConfigurationError(configuration.source, (problem,))
    try:
        passwords = passwords_of(arguments.out, accounts)
        for broker in wanted:
            folder = _write(arguments, configuration, broker, accounts[broker.id], passwords)
            sys.stdout.write(f"{folder}: written for {arguments.maker}\n")
        _write_environments(arguments.out, configuration, accounts, passwords)
        for name in arguments.client:
            if len({passwords[broker, name] for broker in accounts}) > 1:
                sys.stderr.write(f"mqloom config: {_differs(name)}\n")
    except OSError as error:
        raise ConfigurationError(str(error.filename), (f"cannot be written: {error.strerror}",)) from error
    return 0


def passwords_of(out: Path, accounts: Mapping[GatewayId, Sequence[Account]]) -> Passwords:
    """Return a password for each account: what an earlier run has written, else a new one.

    Clients have theirs at every broker, for they are moved from one to another.
    """
    known = read_environments(out)
    passwords: dict[tuple[GatewayId, str], str] = {}
    of_clients: dict[str, str] = {}
    for broker, listed in accounts.items():
        for account in listed:
            password = known.get(_place(account, out / layout.level(broker)))
            if password is not None and account.name:
                passwords[broker, account.name] = password
                if account.user is None:
                    of_clients.setdefault(account.name, password)
    for broker, listed in accounts.items():
        for account in listed:
            if account.name and (broker, account.name) not in passwords:
                new = secrets.token_urlsafe(24)
                password = new if account.user is not None else of_clients.setdefault(account.name, new)
                passwords[broker, account.name] = password
    return passwords


def _differs(client: str) -> str:
    return (
        f"the client {client!r} has not the same password on every broker, so it cannot be moved between them: take "
        f"its line out of each {CLIENTS}, run this again, and restart the brokers"
    )


def read_environments(out: Path) -> dict[tuple[str, str], str]:
    """Return the passwords of an earlier run, by file and variable: what is there already is not changed."""
    known = {}
    for path in sorted([*out.glob(f"*/{ENVIRONMENT}"), *out.glob(f"*/{CLIENTS}")]):
        for line in path.read_text(encoding="utf-8").splitlines():
            variable, found, password = line.partition("=")
            if found and not variable.startswith("#"):
                known[str(path), variable] = password
    return known


def _place(account: Account, folder: Path) -> tuple[str, str]:
    """Return in which file, as which variable, the password of an account of a broker stands."""
    if account.user is None:
        return str(folder / CLIENTS), _variable(folder, account.name)
    return str(folder.parent / layout.level(account.user) / ENVIRONMENT), account.variable


def _variable(folder: Path, client: str) -> str:
    """Return the variable of a client's password: a name that a shell takes, another one for each broker."""
    return re.sub(r"[^A-Z0-9_]", "_", f"{folder.name}_CLIENT_{client}".upper())


def _management_port(configuration: Configuration) -> int:
    """Return where the adapter asks RabbitMQ; the plugin has checked its settings, if it is not disabled."""
    port = configuration.plugins.settings.get("rabbitmq_adapter", {}).get("port")
    return port if isinstance(port, int) else rabbitmq_files.MANAGEMENT_PORT


def _write(
    arguments: argparse.Namespace,
    configuration: Configuration,
    broker: BrokerTable,
    accounts: Sequence[Account],
    passwords: Passwords,
) -> Path:
    """Write what one broker needs."""
    folder: Path = arguments.out / layout.level(broker.id)
    (folder / "store").mkdir(parents=True, exist_ok=True, mode=0o700)
    named = {account.name: passwords[broker.id, account.name] for account in accounts if account.name}
    place = str(folder.resolve())
    authority = str(arguments.configuration.resolve().parent / broker.tls_ca) if broker.tls_ca else ""
    if arguments.maker == "mosquitto":
        salts = [secrets.token_bytes(12) for _ in named]
        user = arguments.user or getpass.getuser()
        conf = mosquitto_files.main_file(broker, place, user, authority, anonymous=arguments.anonymous)
        write_secret(folder / "mosquitto.conf", conf)
        write_secret(folder / "acl", mosquitto_files.access_list(broker, accounts))
        write_secret(folder / "passwords", mosquitto_files.password_file(named, salts))
    else:
        nobody = secrets.token_urlsafe(24) if arguments.anonymous else ""
        known = {**named, rabbitmq_files.ANONYMOUS: nobody} if nobody else named
        salts = [secrets.token_bytes(4) for _ in known]
        conf = rabbitmq_files.main_file(
            broker, place, authority, management_port=_management_port(configuration), nobody=nobody
        )
        write_secret(folder / "rabbitmq.conf", conf)
        write_secret(folder / "definitions.json", rabbitmq_files.definitions(broker, accounts, known, salts))
        write_secret(folder / "enabled_plugins", rabbitmq_files.PLUGINS)
    clients = [account.name for account in accounts if account.name and account.user is None]
    if clients:
        lines = [f"{_variable(folder, name)}={passwords[broker.id, name]}" for name in clients]
        write_secret(folder / CLIENTS, "\n".join([*lines, ""]))
    return folder


def _write_environments(
    out: Path,
    configuration: Configuration,
    accounts: Mapping[GatewayId, Sequence[Account]],
    passwords: Passwords,
) -> None:
    """Write, for each gateway, the passwords that it expects in its environment, whichever broker they are for."""
    for gateway in configuration.brokers:
        lines = [
            f"{account.variable}={passwords[broker, account.name]}"
            for broker, listed in accounts.items()
            for account in listed
            if account.user == gateway.id
        ]
        folder = out / layout.level(gateway.id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_secret(folder / ENVIRONMENT, "\n".join([f"# the gateway {gateway.id}", *lines, ""]))


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
