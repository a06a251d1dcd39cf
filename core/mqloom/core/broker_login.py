"""Which broker, and as whom: the connection options that commands share."""

import argparse
import os
from dataclasses import dataclass

from mqloom.core.command_numbers import whole_number
from mqloom.core.errors import LocalError
from mqloom.core.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """Where a broker listens, and as whom we go there."""

    host: str
    port: int
    username: str = ""
    password: str = ""
    tls: TlsFiles | None = None

    @property
    def address(self) -> str:
        """The address, for people."""
        return f"{self.host}:{self.port}"


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which broker; `login_of` reads them."""
    group = parser.add_argument_group("the broker")
    group.add_argument("--host", default="127.0.0.1", help="where the broker listens (%(default)s)")
    group.add_argument("--port", type=whole_number(65_535), default=1883, help="and on which port (%(default)s)")
    group.add_argument("--username", default="", metavar="NAME", help="log in under this name")
    group.add_argument("--password-env", default="", metavar="VARIABLE", help="take the password from this variable")
    group.add_argument("--tls", action="store_true", help="use TLS, and trust whom the system trusts")
    group.add_argument("--tls-ca", default="", metavar="FILE", help="use TLS, and trust these authorities instead")
    group.add_argument("--tls-certificate", default="", metavar="FILE", help="use TLS, and show this certificate")
    group.add_argument("--tls-key", default="", metavar="FILE", help="its key, if that is in another file")
    group.add_argument("--tls-any-hostname", action="store_true", help="do not compare --host with the certificate")


def login_of(arguments: argparse.Namespace) -> BrokerLogin:
    """Return what the connection options say; raises LocalError if the password's variable is not set."""
    variable: str = arguments.password_env
    if variable and variable not in os.environ:
        raise LocalError(f"--password-env: there is no variable {variable} in the environment")
    if variable and not arguments.username:
        raise LocalError("--password-env: a password needs a --username")
    password = os.environ[variable] if variable else ""
    return BrokerLogin(arguments.host, arguments.port, arguments.username, password, _tls_of(arguments))


def _tls_of(arguments: argparse.Namespace) -> TlsFiles | None:
    if arguments.tls_key and not arguments.tls_certificate:
        raise LocalError("--tls-key: a key needs a --tls-certificate")
    if not (arguments.tls or arguments.tls_ca or arguments.tls_certificate):
        return None
    return TlsFiles(
        ca=arguments.tls_ca,
        certificate=arguments.tls_certificate,
        key=arguments.tls_key,
        check_hostname=not arguments.tls_any_hostname,
    )
