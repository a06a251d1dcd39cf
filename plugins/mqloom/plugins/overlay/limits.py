"""Every bound and every fixed choice of the overlay in one place; what happens at a bound is said beside it."""

from typing import Final

BODY_BYTES_MAX: Final = 64 * 1024
"""What one overlay says to another at a time; more: ignored by the receiver, and counted."""

VIEW_GATEWAYS_MAX: Final = 400
"""Gateways in one view; a sender leaves out the farthest, as it does where they do not fit into one body; a receiver
ignores a view with more."""

DELTA_MAX: Final = 16
"""The largest radius of a map."""

MEMO_MAX: Final = 512
"""Answers of `route` kept; at the bound their hits are added up and all are forgotten."""

TRAFFIC_MAX: Final = 1024
"""Different sets of gateways on one side for which a router counts publications in a period; at the bound the rarer
ones are forgotten, down to half of it, and links that served them seem worth less."""

UTILISATION_MAX: Final = 0.8
"""The share of the uplink over which SH spares it (section 5: "e.g., 80%")."""

MEASURE_S: Final = 1.0
"""How often SH measures what it sends."""

SMOOTHING: Final = 0.5
"""The weight of the newest measurement: of what is sent, of a round trip."""

LOAD_THRESHOLD: Final = 0.5
"""The load over which a gateway that a link bypasses raises its gain; section 6 gives no value."""

LOAD_MAX: Final = 100_000
"""The largest load or rate that is told; more is told as this."""

ROUND_TRIP_MS_MAX: Final = 60_000
"""The longest round trip that is told; longer is told as this."""

SLOWNESS_MAX: Final = 2.0
"""How much at most the links that a candidate bypasses, slow or fast, count for or against it."""

GAIN_OPEN: Final = 1.0
"""The least gain for which a soft link is opened."""

GAIN_SMOOTHING: Final = 0.25
"""The least weight of the newest period in a gain: enough to follow traffic, not every chance in it."""

IDLE_PERIODS: Final = 30
"""After how many periods without a publication a soft link is closed. Long, because whoever is asked for now and then
would else be linked and dropped without end; where places are scarce a better candidate takes it anyway."""

BETTER: Final = 1.5
"""How many times the gain of a soft link a candidate must have, and GAIN_OPEN more, to take its place."""

POTENTIAL_MIN: Final = 0.1
"""The potential of a gateway two hops away of which nothing is known."""

POTENTIAL_WEIGHT: Final = 0.1
"""How much the potential of a candidate counts beside its gain, once that was measured."""

BANNED_PERIODS: Final = 5
"""For how many periods a gateway to which a soft link did not come up is left alone."""
