"""How readers ask the collector for ranges of the spool, and how it answers: both over ZeroMQ, and for files at hand.

A reader asks for the bounds, for where segments begin, for the end of a range of about so many records, or for the
frames of a range, of which it gets as many as fit into one answer; it asks again from where they end. What is gone or
damaged in a range comes as gaps.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Meta, Struct

from mqloom.core.errors import RemoteError, TelemetryError
from mqloom.core.ids import Number
from mqloom.spark_analytics.segments import Frame, Gap, Part, SpoolError
from mqloom.spark_analytics.spool import SpoolReader

ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
"""Frames in one answer, in bytes; one frame at least."""


PROBLEM_MAX: Final = 2_000
ID_LENGTH_MAX: Final = 100
GAPS_MAX: Final = 1_000
"""Gaps in one answer; what is behind them is asked for again."""


class Question(Struct, frozen=True, array_like=True):
    """What a reader asks."""

    what: Literal["bounds", "starts", "boundary", "parts"]
    begin: Number = 0
    end: Number = 0
    """Of `parts` the position where the range ends, of `boundary` how many records it should have."""


class Answer(Struct, frozen=True, array_like=True):
    """What the collector answers; `problem` says why there is nothing else."""

    problem: Annotated[str, Meta(max_length=PROBLEM_MAX)] = ""
    begin: Number = 0
    end: Number = 0
    frames: list[Frame] = []
    gaps: list[Gap] = []
    starts: list[int] = []
    spool: Annotated[str, Meta(max_length=ID_LENGTH_MAX)] = ""
    """Of `bounds` also which spool it is; empty if it has no id, or the collector is too old to tell."""


class Bounds(NamedTuple):
    """From where to where there are records."""

    begin: int
    end: int


class Ranges(Protocol):
    """Somewhere to read ranges of telemetry from. All raise SpoolError or RangeError."""

    def bounds(self) -> Bounds:
        """Return what there is."""
        ...

    def identity(self) -> str:
        """Return which spool it is; empty if it has no id."""
        ...

    def boundary(self, begin: int, records: int) -> int:
        """Return where a range of at most so many records from `begin` ends, one frame at least."""
        ...

    def starts(self) -> list[int]:
        """Return the positions at which ranges are cut best."""
        ...

    def frames(self, begin: int, end: int) -> Iterator[Frame]:
        """Yield the frames of a range; raises if part of it is gone or damaged."""
        ...

    def parts(self, begin: int, end: int) -> Iterator[Part]:
        """Yield the frames of a range, and gaps for what is gone or damaged."""
        ...


class RangeError(RemoteError):
    """The collector could not answer; the message says why."""


class NoAnswerError(RangeError):
    """The collector does not answer: what was asked for may be there all the same, later."""


class LocalRanges:
    """Ranges of a spool in a folder at hand."""

    def __init__(self, folder: Path) -> None:
        self._reader = SpoolReader(folder)

    def bounds(self) -> Bounds:
        """Return what there is."""
        return Bounds(*self._reader.bounds())

    def identity(self) -> str:
        """Return which spool it is."""
        return self._reader.identity()

    def boundary(self, begin: int, records: int) -> int:
        """Return where a range of at most so many records ends."""
        return self._reader.boundary(begin, records)

    def starts(self) -> list[int]:
        """Return the positions at which segments begin."""
        return self._reader.starts()

    def frames(self, begin: int, end: int) -> Iterator[Frame]:
        """Yield the frames of a range."""
        return self._reader.frames(begin, end)

    def parts(self, begin: int, end: int) -> Iterator[Part]:
        """Yield the frames of a range, and gaps."""
        return self._reader.parts(begin, end)


class AskedRanges:
    """Ranges that somebody else reads for us; `ask` sends a question and returns the answer, or raises RangeError."""

    def __init__(self, ask: Callable[[bytes], bytes]) -> None:
        self._ask = ask

    def _answer(self, question: Question) -> Answer:
        try:
            answer = _answer_decoder.decode(self._ask(msgspec.msgpack.encode(question)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RangeError(f"what answers there is no collector of ours: {error}") from None
        if answer.problem:
            raise RangeError(answer.problem)
        return answer

    def bounds(self) -> Bounds:
        """Return what there is."""
        answer = self._answer(Question("bounds"))
        return Bounds(answer.begin, answer.end)

    def identity(self) -> str:
        """Return which spool it is."""
        return self._answer(Question("bounds")).spool

    def boundary(self, begin: int, records: int) -> int:
        """Return where a range of at most so many records ends."""
        return self._answer(Question("boundary", begin, records)).end

    def starts(self) -> list[int]:
        """Return the positions at which segments begin."""
        return self._answer(Question("starts")).starts

    def frames(self, begin: int, end: int) -> Iterator[Frame]:
        """Yield the frames of a range."""
        for part in self.parts(begin, end):
            if isinstance(part, Gap):
                raise RangeError(part.problem)
            yield part

    def parts(self, begin: int, end: int) -> Iterator[Part]:
        """Yield the frames of a range, and gaps."""
        while begin < end:
            answer = self._answer(Question("parts", begin, end))
            parts: list[Part] = [*answer.frames, *answer.gaps]
            yield from sorted(parts, key=lambda part: part[0])
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
        return msgspec.msgpack.encode(Answer(problem=str(error)[:PROBLEM_MAX]))


def _decode_question(data: bytes) -> Question:
    try:
        return _question_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TelemetryError(f"no question of a reader: {error}") from None


def _answer(ranges: Ranges, question: Question) -> Answer:
    if question.what == "bounds":
        bounds = ranges.bounds()
        return Answer(begin=bounds.begin, end=bounds.end, spool=ranges.identity())
    if question.what == "starts":
        return Answer(starts=ranges.starts())
    if question.what == "boundary":
        return Answer(begin=question.begin, end=ranges.boundary(question.begin, question.end))
    return _parts(ranges, question)


def _parts(ranges: Ranges, question: Question) -> Answer:
    frames: list[Frame] = []
    gaps: list[Gap] = []
    size, end = 0, question.begin
    limit = min(question.end, ranges.bounds().end)  # what comes while we read is for the next question
    for part in ranges.parts(question.begin, limit):
        if isinstance(part, Gap):
            gaps.append(part._replace(problem=part.problem[:PROBLEM_MAX]))
            end = part.end
        else:
            if frames and size + len(part.data) > ANSWER_BYTES_MAX:
                break
            frames.append(part)
            size += len(part.data)
            end = part.position + part.records
        if len(gaps) >= GAPS_MAX:
            break
    else:
        end = max(end, limit)
    return Answer(begin=question.begin, end=end, frames=frames, gaps=gaps)
