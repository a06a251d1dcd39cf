"""Every extension point of a gateway. A plugin is a module, or any object, with some of these functions.

    from mqloom.gateway.hookspecs import hookimpl

    @hookimpl
    def mqloom_codec(): ...

A function may take any of the arguments named here, or none. `settings` is the plugin's own table of the
configuration, `[plugins.settings.NAME]`. docs/hooks.md is the reference, docs/plugins.md the way to a first plugin.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pluggy

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import Record
from mqloom.gateway.agent_interfaces import Agent
from mqloom.gateway.interfaces import (
    AdapterKind,
    Codec,
    CounterRecord,
    MatcherKind,
    OverlayKind,
    RecordRequest,
    Settings,
    SubscribeRequest,
)
from mqloom.gateway.offload_interfaces import OffloadKind

Function = TypeVar("Function", bound=Callable[..., Any])

PROJECT = "mqloom"

_hookspec = pluggy.HookspecMarker(PROJECT)
_hookimpl = pluggy.HookimplMarker(PROJECT)


def hookimpl(function: Function) -> Function:
    """Mark a function as the implementation of the hook of its name."""
    return _hookimpl(function)


class HookSpecs:
    """The hooks, as pluggy needs them. Plugins answer in the order in which they were loaded."""

    @_hookspec
    def mqloom_check(self, settings: Settings) -> Sequence[str]:
        """Say what is wrong with the plugin's settings, a sentence for each mistake. Asked once, before all else.

        `mqloom.gateway.tables.explain_settings` finds the mistakes by a msgspec.Struct.
        """
        return ()

    @_hookspec
    def mqloom_codec(self, settings: Settings) -> Codec | None:
        """Offer a way to read attributes of payloads. Asked at the start and each reload; `codecs` chooses by name."""

    @_hookspec
    def mqloom_matcher(self, settings: Settings) -> MatcherKind | None:
        """Offer a matcher. Asked once, at the start; `federation.matcher` chooses by name."""

    @_hookspec
    def mqloom_overlay(self, settings: Settings) -> OverlayKind | None:
        """Offer an overlay. Asked once, at the start; `federation.overlay` chooses by name."""

    @_hookspec
    def mqloom_adapter(self, settings: Settings) -> AdapterKind | None:
        """Offer a way to make sure of a broker. Asked once, at the start; each broker's `adapter` chooses by name."""

    @_hookspec
    def mqloom_agent(self, settings: Settings, gateway: GatewayId, load_window_s: float) -> Agent | None:
        """Offer an agent for this gateway, whose load is measured so often. At the start and at reloads; all run."""

    @_hookspec
    def mqloom_offload(self, settings: Settings) -> OffloadKind | None:
        """Offer a way to choose whom to move elsewhere. Asked once, at the start; load agents choose by name."""

    @_hookspec
    def mqloom_admit(self, settings: Settings, request: SubscribeRequest) -> str | None:
        """Refuse a subscription by saying why, or return None. Asked for every one; one refusal is enough.

        A plugin that raises counts as a refusal: a broken lock stays locked.
        """

    @_hookspec
    def mqloom_admit_record(self, settings: Settings, request: RecordRequest) -> str | None:
        """Refuse a client's whole record by saying why, or return None. Asked for every one; one refusal is enough.

        A plugin that raises counts as a refusal: a broken lock stays locked.
        """

    @_hookspec
    def mqloom_record(self, settings: Settings, record: CounterRecord) -> None:
        """Take a telemetry record. Called every `federation.telemetry_s` seconds and when the gateway ends."""

    @_hookspec
    def mqloom_telemetry(self, settings: Settings, gateway: GatewayId, records: Sequence[Record]) -> None:
        """Take typed telemetry records. Called with each window of telemetry or load, if `telemetry.plugins` is on."""
