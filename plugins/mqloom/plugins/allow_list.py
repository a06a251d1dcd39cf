"""Admission `allow_list`: only clients whose name matches a pattern may subscribe by content.

    [plugins.settings.allow_list]
    clients = ["sensor-*", "dashboard"]

Without settings everybody may.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec
from msgspec import Struct, field

from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Settings, SubscribeRequest
from mqloom.gateway.tables import explain_settings


class AllowListSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Patterns with *, ? and [abc], upper and lower case told apart."""

    clients: list[str] = field(default_factory=lambda: ["*"])


@hookimpl
def mqloom_check(settings: Settings) -> Sequence[str]:
    """Explain mistakes in the settings."""
    return explain_settings(AllowListSettings, settings)


@hookimpl
def mqloom_admit(settings: Settings, request: SubscribeRequest) -> str | None:
    """Refuse a client that no pattern matches."""
    patterns = msgspec.convert(dict(settings), AllowListSettings).clients
    if any(fnmatchcase(request.client, pattern) for pattern in patterns):
        return None
    return f"client {request.client!r} is not on the allow-list of {request.gateway!r}: ask the operator"
