"""The overlay `tree`: a tree of primary links, and soft links that traffic weaves across it (paper 001).

How the modules follow from each other:

    settings       what an operator chooses
    limits         bounds and fixed choices
    bodies         what overlays of primary neighbours say to each other
    master_map     the primary network within delta hops, numbered for bit vectors
    neighbourhood  what neighbours told, joined to a master map; what they are told
    working_map    a master map as seen through direct links
    strategies     S0, S1, S2: anchors -> who gets a copy
    router         the way of publications, remembered and counted
    loads          loads and round trips
    worth          what links gain beside the others
    weaving        which soft links there are, by gain
    tree           all of it together
"""

from mqloom.plugins.overlay.settings import OverlaySettings, settings_hints, settings_problems
from mqloom.plugins.overlay.tree import TreeOverlay

__all__ = ["OverlaySettings", "TreeOverlay", "settings_hints", "settings_problems"]
