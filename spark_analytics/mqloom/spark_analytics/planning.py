"""How a range of positions is cut into pieces, one for each task that reads it."""

from itertools import pairwise

from mqloom.spark_analytics.ranges import Ranges


def pieces(ranges: Ranges, begin: int, end: int, records: int) -> list[tuple[int, int]]:
    """Return consecutive pieces of about so many records, from `begin` to `end`.

    They are cut where segments begin, if that does: such a piece is found without searching for it. Else they are cut
    between frames.
    """
    cuts = [begin]
    starts = sorted({start for start in ranges.starts() if begin < start < end} | {end})
    for start in starts:
        while start - cuts[-1] > records + records // 2:
            cut = ranges.boundary(cuts[-1], records)
            if not cuts[-1] < cut < start:
                break
            cuts.append(cut)
        if start == end or start - cuts[-1] >= records // 2:
            cuts.append(start)
    return [(low, high) for low, high in pairwise(cuts) if low < high]
