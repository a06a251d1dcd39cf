"""What a gateway measures of its own load, window by window (paper 000, sections 3.3.1 and 3.3.3): notes in, Load out.

Publications that came in are counted already; what is noted beside is the time that was spent on them and the bytes
that were put out for our own clients, some hundred nanoseconds for a batch. The rest is asked for once in a window.

    input rate          publications taken in and received, a second
    matching delay      processor time spent on events of the data path (read, matched, encoded, handed over), for each
    output              bytes for our own clients, over what the line takes: `output_bytes_s_max`, or what is assumed.
                        Equation 3: the time that the line was busy, times what was queued over what was sent
"""

from typing import Final, NamedTuple

from mqloom.core.load import Load

OUTPUT_BYTES_S_ASSUMED: Final = 125_000_000.0
"""What the line to our own clients takes where nobody says it: a gigabit a second."""

OUTPUT_RATIO_MAX: Final = 10.0
"""An output that is fuller counts as so full, and so does one that sends nothing of what is queued."""


class Figures(NamedTuple):
    """What is asked for at the end of a window; totals are since the start."""

    publications: int
    """All that came in, from our own broker and from other gateways."""
    subscriptions: int
    cpu_s: float = 0.0
    """Processor time of the gateway's process."""
    memory_ratio: float = 0.0
    waiting_bytes: int = 0
    """What is queued for our own clients at the moment."""
    deliveries: int | None = None
    """Publications given to our own clients, once for each; None: not counted."""
    is_crowded: bool = False
    """Whether so much waits for our own broker that nothing more is taken in."""


class Meter:
    """The meter of one gateway."""

    def __init__(self, now: float, output_bytes_s_max: float = 0.0) -> None:
        self._since = now
        self._output_bytes_s_max = output_bytes_s_max or OUTPUT_BYTES_S_ASSUMED
        self._before = Figures(0, 0)
        self._delay_s = 0.0
        self.busy_s = 0.0
        """To be added to: the time spent on events of the data path."""
        self.queued_bytes = 0
        """To be added to: what was put out for our own clients."""

    def begin(self, figures: Figures, now: float) -> None:
        """Let a window begin now, whatever was before."""
        self._since, self._before = now, figures
        self.busy_s, self.queued_bytes = 0.0, 0

    def sample(self, figures: Figures, now: float) -> Load:
        """Return what the window that ends now has seen, and begin the next."""
        window_s = max(now - self._since, 1e-9)
        publications = figures.publications - self._before.publications
        if publications > 0:  # with none, it is as it was
            self._delay_s = self.busy_s / publications
        rate = publications / window_s
        deliveries = None if figures.deliveries is None else figures.deliveries - (self._before.deliveries or 0)
        queued = self.queued_bytes
        sent = max(0, queued + self._before.waiting_bytes - figures.waiting_bytes)
        load = Load(
            input_ratio=rate * self._delay_s,
            delay_s=self._delay_s,
            output_ratio=self._output_ratio(queued, sent, window_s, figures),
            input_rate=rate,
            output_bytes_s=sent / window_s,
            output_bytes_s_max=self._output_bytes_s_max,
            subscriptions=figures.subscriptions,
            cpu_ratio=max(0.0, figures.cpu_s - self._before.cpu_s) / window_s,
            memory_ratio=figures.memory_ratio,
            deliveries_s=None if deliveries is None else deliveries / window_s,
        )
        self.begin(figures, now)
        return load

    def _output_ratio(self, queued: int, sent: int, window_s: float, figures: Figures) -> float:
        """Equation 3; what is left from the window before counts as queued only by keeping the line busy."""
        if not sent:  # nothing sent of what there is: that is no idle line (the equation would say 0)
            return OUTPUT_RATIO_MAX if figures.waiting_bytes or figures.is_crowded else 0.0
        busy = min(1.0, sent / (self._output_bytes_s_max * window_s))
        ratio = min(OUTPUT_RATIO_MAX, busy * max(1.0, queued / sent))
        return max(1.0, ratio) if figures.is_crowded else ratio
