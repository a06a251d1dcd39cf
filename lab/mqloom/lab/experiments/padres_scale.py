"""What more edges in a cluster bring (paper 000, section 6.3.5, Figure 17).

A star of 2 to 10 equal edges: the clients of the simulation, and edges of 500 MHz, 64 MB and 4 Mbps, so that two can
carry everybody. The paper says only that the edges are homogeneous. All subscribers join one of them; loads are those
from 2,000 s on, when they have converged, to 3,000 s.

The output utilisation is that of the mean edge, and of the fullest. It falls "with each broker": what all edges have
together is the same however many they are, and none has more than the mean by more than a trigger.

"Gains in delivery delay are insignificant past adding five edge brokers": past five at most a fifth is gained of all
that is between two and ten; and one more edge brings at most 5% of what two edges have, on average from the sixth on,
and each from the seventh on. What the sixth brings is told: it is more. Nor do gains end: a delay like ours, of a queue
before each broker, falls for as long as there is a queue.

`--quick` is 2, 5 and 8 edges, 2,000 s.
"""

import itertools
from dataclasses import replace
from statistics import fmean
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_least, at_most, exactly
from mqloom.lab.padres_outcome import Outcome
from mqloom.lab.padres_plays import Play, play_all, whole
from mqloom.lab.padres_setups import B0, SIMULATED, SIMULATION, BrokerSetup, Setup

EDGE: Final = BrokerSetup.of(500, 64, 4)
COUNTS: Final = tuple(range(2, 11))
QUICK_COUNTS: Final = (2, 5, 8)
LENGTH_S, QUICK_S = 3_000.0, 2_000.0
ENOUGH: Final = 5
"""Past so many edges the paper sees no gain in delay."""
GAIN_MAX: Final = 0.05
"""What one more edge brings at most, of the delay with two."""
REST_MAX: Final = 0.2
"""The share of all that is gained which comes past ENOUGH edges."""
TRIGGER: Final = 0.1


def star(edges: int) -> Setup:
    """Return a cluster of so many equal edges."""
    names = tuple(GatewayId(f"B{number}") for number in range(1, edges + 1))
    brokers = {B0: SIMULATED[B0], **dict.fromkeys(names, EDGE)}
    setup = replace(SIMULATION, brokers=brokers, clusters={B0: names}, change_at=None, length_s=LENGTH_S)
    return replace(setup, name=f"{edges} edges", draws="edges", join_at=names[0])


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it."""
    counts = QUICK_COUNTS if quick else COUNTS
    setups = [replace(star(edges), length_s=QUICK_S if quick else LENGTH_S) for edges in counts]
    outcomes = play_all([Play(setup.name, setup, seed) for setup in setups], tell, whole)
    return _report(dict(zip(counts, outcomes, strict=True)))


def _report(found: dict[int, Outcome]) -> Report:
    output = {edges: _outputs(outcome) for edges, outcome in found.items()}
    delay = {edges: _delay_s(outcome) for edges, outcome in found.items()}
    counts = list(found)
    rows: list[Row] = []
    for edges in counts:
        mean, largest = fmean(output[edges]), max(output[edges])
        rows.append(Row(name=f"{edges} edges: output utilisation, mean", ours=mean))
        rows.append(Row(name=f"{edges} edges: output utilisation of the fullest", ours=largest))
        rows.append(Row(name=f"{edges} edges: delivery delay", ours=delay[edges], unit="s"))
    falls = [fmean(output[one]) - fmean(output[other]) for one, other in itertools.pairwise(counts)]
    rows.append(at_least("least fall of the output utilisation with one more", min(falls), 1e-6, paper="falls"))
    totals = [edges * fmean(output[edges]) for edges in counts]
    rows.append(at_least("output of all edges, the least over the most", min(totals) / max(totals), 0.95))
    uneven = max(max(each) - fmean(each) for each in output.values())
    rows.append(at_most("output utilisation of the fullest edge over the mean, at most", uneven, TRIGGER))
    rows += gains(delay)
    wrong = sum(each.ledger.lost + each.ledger.repeated for each in found.values())
    rows.append(exactly("lost or repeated", wrong, 0))
    lines = (
        Curve("mean edge", tuple((float(edges), fmean(output[edges])) for edges in counts)),
        Curve("fullest edge", tuple((float(edges), max(output[edges])) for edges in counts)),
    )
    panels = (
        Panel("output utilisation", lines),
        Panel("delivery delay, s", (Curve("mean", tuple((float(edges), delay[edges]) for edges in counts)),)),
    )
    return Report(rows=tuple(rows), picture=Picture(x_label="edges", panels=panels))


def gains(delay: dict[int, float]) -> list[Row]:
    """Return what is said of the delay with one more edge, in shares of that with the fewest."""
    counts = list(delay)
    first, enough, last = (delay[edges] for edges in (counts[0], ENOUGH, counts[-1]))
    steps = {more: (delay[fewer] - delay[more]) / first / (more - fewer) for fewer, more in itertools.pairwise(counts)}
    rows = [Row(name=f"delay gained by {more} edges, by each more", ours=gain) for more, gain in steps.items()]
    rows.append(at_least("delay gained up to five edges", (first - enough) / first, 0.5, paper="most"))
    by_each = (enough - last) / first / (counts[-1] - ENOUGH)
    rows.append(at_most("delay gained past five edges, by each", by_each, GAIN_MAX, paper="none"))
    late = max(gain for more, gain in steps.items() if more > ENOUGH + 1)
    rows.append(at_most("delay gained past six edges, by any", late, GAIN_MAX, paper="none"))
    rest = (enough - last) / (first - last)
    rows.append(at_most("delay gained past five edges, of all that is gained", rest, REST_MAX, paper="none"))
    return rows


def _outputs(outcome: Outcome) -> list[float]:
    end = outcome.setup.length_s
    return [outcome.mean_load("output", edge, end * 2 / 3, end) for edge in outcome.setup.edges]


def _delay_s(outcome: Outcome) -> float:
    end = outcome.setup.length_s
    return outcome.ledger.mean_delay_s(end * 2 / 3, end)


experiment: Final = Experiment(
    name="padres-scale",
    summary="more edges carry less each, and delay gains end at about five",
    source="paper 000, section 6.3.5, Figure 17",
    run=run,
)
