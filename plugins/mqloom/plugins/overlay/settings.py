"""The settings of the overlay `tree`, as an operator writes them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mqloom.gateway.interfaces import Settings
from mqloom.gateway.tables import explain_settings, read_table
from mqloom.plugins.overlay.limits import DELTA_MAX

Strategy = Literal["S0", "S1", "S2", "SH"]


class OverlaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a gateway sees, which links it may have, and how it uses them; the names are those of paper 001."""

    strategy: Strategy = "S0"
    delta: Annotated[int, Meta(ge=1, le=DELTA_MAX)] = 4
    fanout: Annotated[int, Meta(ge=1, le=10_000)] = 35
    max_links: Annotated[int, Meta(ge=1, le=10_000)] = 70
    weave_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 20.0
    uplink_per_s: Annotated[float, Meta(gt=0)] | None = None

    @property
    def sight(self) -> int:
        """How many hops the map reaches. S0 needs no more than the neighbours (section 5), and tells them nothing."""
        return 1 if self.strategy == "S0" else self.delta


def settings_problems(settings: Settings) -> list[str]:
    """Return every mistake in the settings, a sentence for each."""
    problems = explain_settings(OverlaySettings, settings)
    if not problems:
        read = OverlaySettings(**settings)  # type: ignore[arg-type] # just checked
        if read.max_links < read.fanout:
            problems.append(f"max_links: {read.max_links} is less than fanout, {read.fanout}, which it includes")
    return problems


def settings_hints(settings: Settings) -> list[str]:
    """Return what is no mistake in the settings of one gateway, but hardly meant."""
    read = read_settings(settings)
    if read.strategy == "SH" and read.uplink_per_s is None:
        return ["strategy SH without uplink_per_s is S2: say how many copies a second it can send"]
    return []


def read_settings(settings: Settings) -> OverlaySettings:
    """Return the settings; raises ValueError with everything that is wrong with them."""
    problems = settings_problems(settings)
    if problems:
        raise ValueError(f"overlay tree: {'; '.join(problems)}")
    read = read_table(OverlaySettings, settings, "", problems)
    assert read is not None
    return read
