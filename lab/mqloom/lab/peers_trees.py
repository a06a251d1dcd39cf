"""Two R-trees for the box workload: PyPI's rtree (libspatialindex), and Boost's in a program of our own."""

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from mqloom.core.filter import And, Comparison, Filter
from mqloom.lab.peers import BATCH, InProcess, Lap, Peer, PeerMissingError
from mqloom.lab.workloads import BOX_HOT_SPOTS, Event

COMPILE_S_MAX: Final = 180.0
ANSWER_S_MAX: Final = 60.0
"""How long the program may take for an answer before it is ended."""

Coordinates = NDArray[np.int32]
_DIMENSIONS: Final = tuple(BOX_HOT_SPOTS)


def boxes_of(filters: Sequence[Filter]) -> tuple[Coordinates, Coordinates]:
    """Return the first and the last integers of the ranges, one row for each filter of the box workload."""
    lows = np.empty((len(filters), len(_DIMENSIONS)), dtype=np.int32)
    highs = np.empty_like(lows)
    for row, each in enumerate(filters):
        assert isinstance(each.tree, And)
        for part in each.tree.parts:
            assert isinstance(part, Comparison)
            assert isinstance(part.value, int)
            column = _DIMENSIONS.index(part.path)
            if part.operator == ">=":
                lows[row, column] = part.value
            else:
                assert part.operator == "<"
                highs[row, column] = part.value - 1
    return lows, highs


def points_of(events: Sequence[Event]) -> Coordinates:
    """Return the coordinates of the events of the box workload."""
    return np.array([[event[path] for path in _DIMENSIONS] for event in events], dtype=np.int32)


class RTreePeer(InProcess):
    """PyPI's rtree, loaded in bulk, one event at a time."""

    engine = "rtree"
    chunk = 8

    def __init__(self, filters: Sequence[Filter], events: Sequence[Event]) -> None:
        super().__init__(events)
        try:
            from rtree import index  # noqa: PLC0415 - optional
        except ImportError as error:
            raise PeerMissingError("PyPI's rtree is not installed; pip install rtree") from error
        lows, highs = boxes_of(filters)
        boxes = np.concatenate((lows, highs), axis=1).astype(np.float64).tolist()
        stream: Iterator[tuple[int, list[float], None]] = ((number, box, None) for number, box in enumerate(boxes))
        self._index = index.Index(stream, properties=index.Property(dimension=len(_DIMENSIONS)))

    def match(self, events: list[Event]) -> Iterable[Collection[int]]:
        """See `InProcess`."""
        return map(self._match, events)

    def _match(self, event: Event) -> Collection[int]:
        point = [event[path] for path in _DIMENSIONS]
        return list(self._index.intersection(point + point, objects=False))


class RTreeBatched(RTreePeer):
    """The same, a batch of events at a time by its `intersection_v`; built of a tree that is there already."""

    mode = "batched"
    chunk = BATCH

    def __init__(self, tree: RTreePeer, events: Sequence[Event]) -> None:
        InProcess.__init__(self, events)
        self._index = tree._index
        if not hasattr(self._index, "intersection_v"):
            raise PeerMissingError("this rtree has no intersection_v; pip install -U rtree")

    def match(self, events: list[Event]) -> Iterable[Collection[int]]:
        """See `InProcess`."""
        points = points_of(events).astype(np.float64)
        ids, counts = self._index.intersection_v(points, points)
        return cast(Sequence[Collection[int]], np.split(ids, np.cumsum(counts)[:-1]))


def compile_boost(folder: Path) -> Path:
    """Compile the program into a folder, if it is not there yet, and return its path. Raises PeerMissingError."""
    source, program = folder / "boost_rtree.cpp", folder / "boost_rtree"
    if program.exists():
        return program
    compiler = shutil.which("g++")
    if compiler is None:
        raise PeerMissingError("g++ is not installed")
    source.write_text(resources.files("mqloom.lab").joinpath("boost_rtree.cpp").read_text("utf-8"), "utf-8")
    command = [compiler, "-std=c++14", "-O3", "-march=native", "-DNDEBUG", "-w", "-o", str(program), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S_MAX, check=False)  # noqa: S603 - our own source
    except subprocess.TimeoutExpired as error:
        raise PeerMissingError(f"g++ took over {COMPILE_S_MAX:g} s") from error
    if done.returncode:
        if "boost/geometry" in done.stderr and "No such file" in done.stderr:
            raise PeerMissingError("Boost's headers are not installed (Debian: libboost-dev)")
        first = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
        raise PeerMissingError(f"it does not compile: {first}")
    return program


class BoostPeer(Peer):
    """Boost.Geometry's R-tree, R*-packed, in C++; the program times itself, so pipes cost it nothing."""

    engine = "boost r-tree"

    def __init__(self, program: Path, filters: Sequence[Filter], events: Sequence[Event]) -> None:
        with tempfile.NamedTemporaryFile(suffix=".boxes", delete=False) as file:
            sizes = np.array([len(filters), len(events)], dtype=np.int32)
            for numbers in (sizes, np.concatenate(boxes_of(filters), axis=1), points_of(events)):
                file.write(np.ascontiguousarray(numbers).tobytes())
        try:
            self._process = subprocess.Popen(  # noqa: S603 - compiled just now
                [str(program), file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            self.build_s = float(self._answer()[0])
        finally:
            Path(file.name).unlink()

    def lap(self, seconds: float) -> Lap:
        """See `Peer`."""
        events, taken, matches = self._ask(f"lap {seconds}")
        return Lap(int(events), float(taken), int(matches))

    def answers(self, numbers: Sequence[int]) -> Sequence[Collection[int]]:
        """See `Peer`."""
        return [[int(word) for word in self._ask(f"match {number}")] for number in numbers]

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, line: str) -> list[str]:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> list[str]:
        assert self._process.stdout is not None
        watchdog = threading.Timer(ANSWER_S_MAX, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            self.close()
            raise PeerMissingError(f"the program ended with code {self._process.returncode}")
        return line.split()
