"""What more edges in a cluster bring (paper 000, section 6.3.5, Figure 17).

A star of 2 to 10 equal edges: the clients of the simulation, and edges of 500 MHz, 64 MB and 4 Mbps, so that two can
carry everybody. The paper says only that the edges are homogeneous. All subscribers join one of them; loads are those
from 2,000 s on, when they have converged, to 3,000 s.

The output utilisation is that of the mean edge, and of the fullest. It falls "with each broker". Delay gains have ended
where another edge brings less than 5% of what two edges have: after about five.

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
    gained, rest = delay[counts[0]] - delay[ENOUGH], delay[ENOUGH] - delay[counts[-1]]
    rows.append(at_least("delay gained up to five edges", gained / delay[counts[0]], 0.2, paper="most"))
    rows.append(
        at_most(
            "delay gained past five edges, by each", rest / delay[counts[0]] / (counts[-1] - ENOUGH), 0.05, paper="none"
        )
    )
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
