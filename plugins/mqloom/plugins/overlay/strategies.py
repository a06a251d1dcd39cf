"""Where a publication goes next, given the anchors downstream (paper 001, section 5). Sets are bit vectors.

Each strategy takes a working map and the anchors as contraction left them, gateways with links all, and returns those
that get a copy. Whoever gets one serves everything beyond itself, so no two of them may be on one way.
"""

from collections.abc import Callable

from mqloom.plugins.overlay.master_map import bits
from mqloom.plugins.overlay.working_map import WorkingMap

Forward = Callable[[WorkingMap, int], int]


def forward_s0(working: WorkingMap, anchors: int) -> int:
    """S0: primary neighbours only. Anchors nearer than we could see count for the side they are on."""
    sides = working.master.sides
    forward = 0
    for number in bits(anchors):
        forward |= 1 << sides[number]
    return forward


def forward_s1(working: WorkingMap, anchors: int) -> int:
    """S1, Figure 5: the farthest gateway with a link on all ways to the anchors of a side, so one copy for each side.

    The figure leaves the order of the anchors in lines 4 to 8 open. It does not matter: the primary neighbour is on
    every way of its side, so after the first anchor of a side line 8 is taken for each further one.
    """
    intersection = 0
    for number in bits(anchors):
        between = working.between(number)
        if intersection & between:
            intersection &= between | working.behind(number)
        else:
            intersection |= between
    forward = 0
    while anchors:
        number = intersection.bit_length() - 1  # lines 10 to 14, passing over what is not on the intersection
        intersection ^= 1 << number
        beyond = working.beyond(number)
        if anchors & beyond:
            forward |= 1 << number
            anchors &= ~beyond
    return forward


def forward_s2(working: WorkingMap, anchors: int) -> int:
    """S2, Figure 6: each anchor directly, unless a nearer one is on the way to it."""
    forward = 0
    while anchors:
        nearest = anchors & -anchors
        forward |= nearest
        anchors &= ~working.beyond(nearest.bit_length() - 1)
    return forward


STRATEGIES: dict[str, Forward] = {"S0": forward_s0, "S1": forward_s1, "S2": forward_s2}
