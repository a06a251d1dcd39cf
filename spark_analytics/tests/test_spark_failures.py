import pytest

from mqloom.spark_analytics.spark_failures import reason_of

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "staging.py", line 60, in __call__
    raise RangeError("...")
"""
JAVA = """An error occurred while calling o48.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times
\tat org.apache.spark.errors.SparkCoreErrors$.numTasksFailed(SparkCoreErrors.scala:170)
Caused by: java.io.EOFException: nothing more
"""


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (f"{WORKER}mqloom.spark_analytics.ranges.RangeError: no answer: is it there?", "no answer: is it there?"),
        (f"{JAVA}{WORKER}mqloom.core.errors.LocalError: a key is missing\n\tat java.base", "a key is missing"),
        (f"{WORKER}OSError: one\n\n{WORKER}PermissionError: [Errno 13] no", "PermissionError: [Errno 13] no"),
        (JAVA, "SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times"),
        ("\n[NO_SUCH_TABLE] There is none.\nand more", "[NO_SUCH_TABLE] There is none."),
        ("", "Spark does not say why"),
    ],
)
def test_of_pages_the_line_that_says_what_happened_is_told(told: str, reason: str) -> None:
    assert reason_of(told) == reason
