"""The content engine: which of a million filters match a publication.

How the modules follow from each other:

    planning    a conjunction -> where it is kept: under which keys, in which leaf, with which checks afterwards
    keys        values -> what dicts are asked for; signatures
    nodes       the leaves that share the same equalities
        lists       ids with nothing more to ask
        thresholds  ids by one bound on one attribute
        boxes       ids by bounds on several attributes, through
            few_boxes   while they are few
            box_rows    when they are many, and for these
                cells       which of them a publication has to do with
                    placed      where boxes lie among the slabs
                    layout      how few operations tell which boxes hold it
                    axes        values -> positions among the bounds
                box_bits    their destinations
    matches     ids by slot, and what a match returns
    engine      all of it together
"""

from mqloom.core.filter import Filter
from mqloom.plugins.content.engine import Engine
from mqloom.plugins.content.matches import Matches

__all__ = ["Engine", "Filter", "Matches"]
