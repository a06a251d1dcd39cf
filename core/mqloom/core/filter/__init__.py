"""The filter language: what a subscription says after WHERE, in SQL's flavour or in the papers' triples.

How the modules follow from each other:

    tokens -> cursor -> parser, triples -> syntax (the tree)
        tree -> text                                              the canonical text
        tree -> evaluate                                          True, False or unknown
        tree -> compiled                                          whether it matches
        tree -> normal -> ranges, restrictions -> relations       whether it covers, or intersects, another
                                               -> outlines        which others it could cover at all
"""

from mqloom.core.filter.compiled import value_test
from mqloom.core.filter.evaluate import evaluate_predicate, lookup
from mqloom.core.filter.filters import Filter
from mqloom.core.filter.normal import Conjunction
from mqloom.core.filter.outlines import Form, Outline
from mqloom.core.filter.patterns import Pattern
from mqloom.core.filter.restrictions import Box, Restriction, restriction_of
from mqloom.core.filter.syntax import (
    And,
    Comparison,
    Kind,
    Like,
    Membership,
    Node,
    Operator,
    Or,
    Predicate,
    Presence,
    Scalar,
    kind_of,
)

__all__ = [
    "And",
    "Box",
    "Comparison",
    "Conjunction",
    "Filter",
    "Form",
    "Kind",
    "Like",
    "Membership",
    "Node",
    "Operator",
    "Or",
    "Outline",
    "Pattern",
    "Predicate",
    "Presence",
    "Restriction",
    "Scalar",
    "evaluate_predicate",
    "kind_of",
    "lookup",
    "restriction_of",
    "value_test",
]
