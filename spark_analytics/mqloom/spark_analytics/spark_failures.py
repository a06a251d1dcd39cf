"""What went wrong in Spark, as the one line of its pages that says it: people should not have to look for that."""

import re
from typing import Final

from mqloom.spark_analytics.ranges import NoAnswerError

_SAYING: Final = re.compile(r"^(?:: |Caused by: )?(?P<name>[\w.$]+(?:Error|Exception)): (?P<problem>.+)")


def reason_of(error: object) -> str:
    """Return the line that says what happened: one of our own errors, of a worker's Python, of Java, or the first."""
    lines = _lines(error)
    found = _sayings(lines)
    own = [match for match in found if match["name"].startswith("mqloom.")]
    if own:
        return own[-1]["problem"]
    if found:  # of Java's errors the first is the one that counts, of those in a traceback the last
        place = -1 if any(line.startswith("Traceback") for line in lines) else 0
        return f"{found[place]['name'].rpartition('.')[2]}: {found[place]['problem']}"
    return lines[0] if lines else "Spark does not say why"


def is_no_answer(error: object) -> bool:
    """Say whether it is that the collector did not answer, here or in a worker: later it may."""
    name = f"{NoAnswerError.__module__}.{NoAnswerError.__qualname__}"
    return isinstance(error, NoAnswerError) or any(match["name"] == name for match in _sayings(_lines(error)))


def _lines(error: object) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()]


def _sayings(lines: list[str]) -> list[re.Match[str]]:
    return [match for match in map(_SAYING.match, lines) if match]
