"""Admission `quota`: how much one client may ask for, and who has to show a token.

    [plugins.settings.quota]
    record_bytes_max = 65536
    subscriptions_max = 100
    changes_per_min_max = 60
    tokens = {desk = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"}

A limit that is not set does not hold. A client in `tokens` must have the token with that SHA-256 in its record; so
nobody else can change or delete its subscriptions. Without settings everybody may do everything.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import RecordRequest, Settings
from mqloom.gateway.tables import explain_settings

Limit = Annotated[int, Meta(ge=1)] | None
Hash = Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]


class QuotaSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for each client, and hashes of tokens by client."""

    record_bytes_max: Limit = None
    subscriptions_max: Limit = None
    changes_per_min_max: Limit = None
    tokens: dict[str, Hash] = field(default_factory=dict)


@hookimpl
def mqloom_check(settings: Settings) -> Sequence[str]:
    """Explain mistakes in the settings."""
    return explain_settings(QuotaSettings, settings)


@hookimpl
def mqloom_admit_record(settings: Settings, request: RecordRequest) -> str | None:
    """Refuse a record that is too much, or without its token."""
    quota = msgspec.convert(dict(settings), QuotaSettings)
    expected = quota.tokens.get(request.client)
    if expected is not None:
        given = f"sha256:{hashlib.sha256(request.token.encode(errors='surrogatepass')).hexdigest()}"
        if not hmac.compare_digest(given, expected):
            return (
                f"client {request.client!r} must show its token: write it as `token` into the record "
                "(mqloom sub --token); to end all, write a record without subscriptions"
            )
    for what, value, limit in (
        ("bytes in a record", request.record_bytes, quota.record_bytes_max),
        ("subscriptions", request.subscriptions, quota.subscriptions_max),
        ("records a minute", request.changes_per_min, quota.changes_per_min_max),
    ):
        if limit is not None and value > limit:
            return f"{value} {what}, the quota of a client is {limit}: ask for less, or ask the operator"
    return None
