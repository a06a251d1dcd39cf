"""TLS to a broker: which certificates, and what goes wrong with them. For drivers and commands: it reads files.

A context is built for each connection anew, so that certificates that were replaced count from the next one on.
"""

import ssl
from dataclasses import dataclass

from mqloom.core.errors import LocalError


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Whom we trust and who we are, as PEM files; without `ca` whom the system trusts, without a certificate nobody."""

    ca: str = ""
    certificate: str = ""
    key: str = ""
    """Empty: it is in the same file as the certificate."""
    check_hostname: bool = True
    """Whether the broker's certificate must be for the name or address that we connect to."""


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Return what a connection is wrapped with; raises LocalError with what is wrong with which file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = files.check_hostname
    load_files(context, files)
    return context


def load_files(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Have a context use what is in the files now; raises LocalError."""
    try:
        if files.ca:
            context.load_verify_locations(files.ca)
        else:
            context.load_default_certs()
    except OSError as error:
        raise LocalError(f"{files.ca}: {_explain(error, 'holds no certificate of an authority in PEM')}") from None
    if not files.certificate:
        return
    try:
        context.load_cert_chain(files.certificate, files.key or None, password=_no_password)
    except OSError as error:
        names = f"{files.certificate} and {files.key}" if files.key else files.certificate
        text = "are no certificate and its key in PEM, without a password"
        raise LocalError(f"{names}: {_explain(error, text)}") from None


def tls_problem(error: OSError) -> str:
    """Return why a connection could not be made, in the words of TLS if that is the reason; else nothing."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS with it fails: {(error.reason or str(error)).lower().replace('_', ' ')}"
    return ""


def _explain(error: OSError, otherwise: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{otherwise} ({(error.reason or str(error)).lower().replace('_', ' ')})"
    return (error.strerror or str(error)).lower()


def _no_password() -> str:
    """Answer for the terminal: a gateway has nobody to ask."""
    return ""
