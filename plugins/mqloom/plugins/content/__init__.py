"""The content engine: which of a million filters match a publication.

How the modules follow from each other:

    drafts      a filter -> what each conjunction asks
    planning    a conjunction -> where it is kept: under which keys, in which leaf, with which checks afterwards
    keys        values -> what dicts are asked for; signatures
    entries     what is known of a subscription; how leaves hold ids
    lists       leaves of ids with nothing more to ask
    thresholds  leaves of ids by one bound on one attribute
    tried       leaves of a few ids by two bounds, each tried
    boxes       leaves of ids by bounds on several attributes, through
        few_boxes   while they are few
        box_rows    when they are many, and for these
            cells       which of them a publication has to do with
                placed      where boxes lie among the slabs
                layout      how few operations tell which boxes hold it
                axes        values -> positions among the bounds
            box_bits    their destinations
    nodes       the leaves that share the same equalities
    bundles     small leaves of thresholds as one
    selections  the leaves that publications with the same values reach
    tables      all nodes, and which selection is a publication's
    nested      paths with dots
    destinations  which destinations have a filter that matches
    engine      all of it together
"""

from mqloom.core.filter import Filter
from mqloom.plugins.content.engine import Engine, Ids

__all__ = ["Engine", "Filter", "Ids"]
