"""Overlay `tree`: a tree of primary links; with soft links across it where a strategy is set (paper 001).

[plugins.settings.tree_overlay]
strategy = "S2"
"""

from collections.abc import Sequence

from mqloom.core.ids import GatewayId
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import OverlayKind, Settings
from mqloom.plugins.overlay import TreeOverlay, settings_hints, settings_problems

NOTHING: Settings = {}

__all__ = ["TreeOverlay", "mqloom_check", "mqloom_overlay"]


@hookimpl
def mqloom_check(settings: Settings) -> Sequence[str]:
    """Explain mistakes in the settings."""
    return settings_problems(settings)


@hookimpl
def mqloom_overlay(settings: Settings) -> OverlayKind:
    """Offer the overlay; what it is built with goes before the plugin's own settings."""

    def build(gateway: GatewayId, neighbours: Sequence[GatewayId], own: Settings = NOTHING) -> TreeOverlay:
        return TreeOverlay(gateway, neighbours, {**settings, **own})

    return OverlayKind(name="tree", build=build, hints=lambda own: settings_hints({**settings, **own}))
