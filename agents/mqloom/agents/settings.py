"""The settings of the load agents, as an operator writes them: Table III of paper 000, and what we added.

docs/balancing.md says of each what it trades for what, and how to see its effect.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from mqloom.agents.averages import AVERAGE_WINDOWS_MAX
from mqloom.core.limits import ID_LENGTH_MAX, PROFILE_SAMPLES_MAX
from mqloom.core.load import METRICS, Metric
from mqloom.gateway.interfaces import Settings
from mqloom.gateway.tables import explain_settings, read_table

Level = Literal["local", "global"]
"""Between the edges of a cluster, or between clusters."""

LEVELS: tuple[Level, ...] = ("local", "global")

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Share = Annotated[float, Meta(gt=0, le=1)]
Trigger = Annotated[float, Meta(gt=0, le=1_000)]
"""How large a difference must be; one that no difference reaches leaves overload as the only reason."""
Name = Annotated[str, Meta(max_length=ID_LENGTH_MAX)]
Samples = Annotated[int, Meta(ge=1, le=PROFILE_SAMPLES_MAX)]
"""No more than a gateway takes: a session that asks for more would fail."""
OffloadName = Annotated[str, Meta(min_length=1, max_length=ID_LENGTH_MAX)]


def _each_by_its_own() -> dict[Metric, str]:
    return {metric: metric for metric in METRICS}


class BalanceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a broker is too loaded, whom it tells, and how much it may move."""

    mode: Literal["off", "advise", "on"] = "off"
    """Whether clients are moved; "advise": everything but that, and it is said what would be done."""

    # Table III, in its order.
    local_pie_s: Seconds = 30.0
    global_pie_s: Seconds = 60.0
    pie_ratio: Share = 0.025
    pie_delay: Share = 0.025
    pie_history: Annotated[int, Meta(ge=1, le=1_000)] = 10
    overload_low: Share = 0.9
    overload_high: Share = 0.95
    local_ratio: Trigger = 0.1
    local_delay: Trigger = 0.1
    global_ratio: Trigger = 0.15
    global_delay: Trigger = 0.15
    delay_factor_s: Seconds = 0.1
    stabilise_s: Seconds = 30.0
    stabilise_share: Share = 0.05
    local_detect_min_s: Seconds = 20.0
    local_detect_max_s: Seconds = 40.0
    global_detect_min_s: Seconds = 50.0
    global_detect_max_s: Seconds = 70.0
    global_requests: Annotated[int, Meta(ge=1, le=1_000)] = 3
    move_timeout_s: Seconds = 5.0
    press_samples: Samples = 50
    press_timeout_s: Seconds = 30.0
    balance: Share = 0.005

    # Beyond the paper.
    press_samples_max: Samples = 250
    """Where more than `press_samples` come in a window of the meters, as many as that are sampled, but no more."""
    adaptive_pie: bool = True
    """Whether only PIE of brokers with less load is asked for (3.3.4)."""
    adaptive_lag: Annotated[float, Meta(ge=0, le=1)] = 0.25
    """By which share of a trigger what is asked for may lag behind equation 5 for long; 1 as in the paper."""
    offload: OffloadName | dict[Metric, OffloadName] = field(default_factory=_each_by_its_own)
    """Who chooses whom to move, by what has to become less; one name: for everything."""
    role: Literal["", "edge", "head"] = ""
    """Empty: by the topology."""
    cluster: Name = ""
    """Empty: by the topology."""
    window_s: Seconds = 10.0
    """The window of the meters: the gateway's `load_window_s`, which an operator sets for both."""
    lasting_detections: Annotated[int, Meta(ge=1, le=100)] = 3
    """A difference of little more than a trigger is one when the mean of so many detections is; 1 as in the paper."""
    rest_s: Annotated[float, Meta(ge=0, le=86_400)] = 300.0
    """A client is not moved again before."""
    moves_per_min: Annotated[int, Meta(ge=1, le=1_000_000)] = 600
    """The budget of one broker."""

    def offload_kind(self, metric: Metric) -> str:
        """Return by which offload plugin to choose whom to move."""
        return self.offload if isinstance(self.offload, str) else self.offload.get(metric, metric)

    def pie_s(self, level: Level) -> float:
        """Return how long it is between two PIE at least."""
        return self.local_pie_s if level == "local" else self.global_pie_s

    def pie_windows(self, level: Level) -> int:
        """Return how many windows of the meters there are in a period of PIE; one at least."""
        return max(1, min(AVERAGE_WINDOWS_MAX, round(self.pie_s(level) / self.window_s)))

    def trigger(self, level: Level, metric: Metric) -> float:
        """Return how large a difference must be for a session; of delays the normalised one (equation 4)."""
        if level == "local":
            return self.local_delay if metric == "match" else self.local_ratio
        return self.global_delay if metric == "match" else self.global_ratio

    def detect_s(self, level: Level) -> tuple[float, float]:
        """Return the least and the most time between two runs of the detector."""
        if level == "local":
            return self.local_detect_min_s, self.local_detect_max_s
        return self.global_detect_min_s, self.global_detect_max_s


def settings_problems(settings: Settings) -> list[str]:
    """Return every mistake in the settings, a sentence for each."""
    problems = explain_settings(BalanceSettings, settings)
    if problems:
        return problems
    read = read_table(BalanceSettings, settings, "", problems)
    assert read is not None
    if read.overload_low > read.overload_high:
        problems.append(
            f"overload_low: {read.overload_low:g} is more than overload_high, {read.overload_high:g}: a broker must "
            "stop taking load before it begins to give it away"
        )
    for level in LEVELS:
        least, most = read.detect_s(level)
        if least > most:
            problems.append(f"{level}_detect_min_s: {least:g} is more than {level}_detect_max_s, {most:g}")
    return problems


def settings_hints(settings: Settings) -> list[str]:
    """Return what is no mistake in the settings of one gateway, but hardly meant."""
    read = read_settings(settings)
    hints = []
    if read.global_pie_s < read.local_pie_s:
        # 3.3.2: global PIE is an average of local PIE, and would say the same again.
        hints.append(
            f"global_pie_s: {read.global_pie_s:g} is less than local_pie_s, of which it is made: tells no more"
        )
    for level in LEVELS:
        least, most = read.detect_s(level)
        if least < most / 2:  # 3.3.3, last paragraph
            hints.append(f"{level}_detect_min_s: under half of {level}_detect_max_s some brokers come far more often")
    for name, local, wide in (
        ("global_ratio", read.local_ratio, read.global_ratio),
        ("global_delay", read.local_delay, read.global_delay),
    ):
        if wide < local:  # 3.3.3: clients stay near
            hints.append(
                f"{name}: {wide:g} is less than {name.replace('global', 'local')}: clients leave their cluster"
            )
    for level in LEVELS:
        trigger = read.trigger(level, "input")
        if trigger >= read.overload_high:
            hints.append(f"{level}_ratio: from overload_high on only overload starts a session")
    if read.mode != "off" and read.stabilise_s < read.window_s * 2:
        hints.append("stabilise_s: under two windows of the meters (load_window_s) nothing can be seen to be steady")
    return hints


def read_settings(settings: Settings) -> BalanceSettings:
    """Return the settings; raises ValueError with everything that is wrong with them."""
    problems = settings_problems(settings)
    if problems:
        raise ValueError(f"balance: {'; '.join(problems)}")
    read = read_table(BalanceSettings, settings, "", problems)
    assert read is not None
    return read
