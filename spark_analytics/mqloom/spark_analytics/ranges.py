"""How readers ask the collector for ranges of the spool, and how it answers: both over ZeroMQ, and for files at hand.

A reader asks for the bounds, for the end of a range of about so many records, or for the frames of a range, of which it
gets as many as fit into one answer; it asks again from where they end.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Meta, Struct

from mqloom.core.errors import RemoteError, TelemetryError
from mqloom.core.ids import Number
from mqloom.spark_analytics.spool import Frame, SpoolError, SpoolReader

ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
"""Frames in one answer, in bytes; one frame at least."""


class Question(Struct, frozen=True, array_like=True):
    """What a reader asks."""

    what: Literal["bounds", "boundary", "frames"]
    begin: Number = 0
    end: Number = 0
    """Of `frames` the position where the range ends, of `boundary` how many records it should have."""


class Answer(Struct, frozen=True, array_like=True):
    """What the collector answers; `problem` says why there is nothing else."""

    problem: Annotated[str, Meta(max_length=2_000)] = ""
    begin: Number = 0
    end: Number = 0
    frames: list[tuple[int, int, bytes]] = []


class Bounds(NamedTuple):
    """From where to where there are records."""

    begin: int
    end: int


class Ranges(Protocol):
    """Somewhere to read ranges of telemetry from. All raise SpoolError or RangeError."""

    def bounds(self) -> Bounds:
        """Return what there is."""
        ...

    def boundary(self, begin: int, records: int) -> int:
        """Return where a range of at most so many records from `begin` ends, one frame at least."""
        ...

    def frames(self, begin: int, end: int) -> Iterator[Frame]:
        """Yield the frames of a range."""
        ...


class RangeError(RemoteError):
    """The collector could not answer; the message says why."""


class LocalRanges:
    """Ranges of a spool in a folder at hand."""

    def __init__(self, folder: Path) -> None:
        self._reader = SpoolReader(folder)

    def bounds(self) -> Bounds:
        """Return what there is."""
        return Bounds(*self._reader.bounds())

    def boundary(self, begin: int, records: int) -> int:
        """Return where a range of at most so many records ends."""
        return self._reader.boundary(begin, records)

    def frames(self, begin: int, end: int) -> Iterator[Frame]:
        """Yield the frames of a range."""
        return self._reader.frames(begin, end)


class AskedRanges:
    """Ranges that somebody else reads for us; `ask` sends a question and returns the answer, or raises RangeError."""

    def __init__(self, ask: Callable[[bytes], bytes]) -> None:
        self._ask = ask

    def _answer(self, question: Question) -> Answer:
        try:
            answer = _answer_decoder.decode(self._ask(msgspec.msgpack.encode(question)))
        except msgspec.DecodeError as error:
            raise RangeError(f"what answers there is no collector of ours: {error}") from None
        if answer.problem:
            raise RangeError(answer.problem)
        return answer

    def bounds(self) -> Bounds:
        """Return what there is."""
        answer = self._answer(Question("bounds"))
        return Bounds(answer.begin, answer.end)

    def boundary(self, begin: int, records: int) -> int:
        """Return where a range of at most so many records ends."""
        return self._answer(Question("boundary", begin, records)).end

    def frames(self, begin: int, end: int) -> Iterator[Frame]:
        """Yield the frames of a range."""
        while begin < end:
            answer = self._answer(Question("frames", begin, end))
            for position, records, data in answer.frames:
                yield Frame(position, records, data)
            if answer.end <= begin:
                raise RangeError(f"the collector has nothing at position {begin}, and {end} was asked for")
            begin = answer.end


_question_decoder: Final = msgspec.msgpack.Decoder(Question)
_answer_decoder: Final = msgspec.msgpack.Decoder(Answer)


def answer_question(ranges: Ranges, data: bytes) -> bytes:
    """Return the answer to a question; whatever goes wrong is in it."""
    try:
        return msgspec.msgpack.encode(_answer(ranges, _decode_question(data)))
    except (SpoolError, TelemetryError) as error:
        return msgspec.msgpack.encode(Answer(problem=str(error)[:2_000]))


def _decode_question(data: bytes) -> Question:
    try:
        return _question_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TelemetryError(f"no question of a reader: {error}") from None


def _answer(ranges: Ranges, question: Question) -> Answer:
    if question.what == "bounds":
        bounds = ranges.bounds()
        return Answer(begin=bounds.begin, end=bounds.end)
    if question.what == "boundary":
        return Answer(begin=question.begin, end=ranges.boundary(question.begin, question.end))
    found: list[tuple[int, int, bytes]] = []
    size, end = 0, question.begin
    for frame in ranges.frames(question.begin, question.end):
        if found and size + len(frame.data) > ANSWER_BYTES_MAX:
            break
        found.append((frame.position, frame.records, frame.data))
        size += len(frame.data)
        end = frame.position + frame.records
    return Answer(begin=question.begin, end=end, frames=found)
