import pickle
from pathlib import Path

import pytest

from mqloom.core.errors import LocalError
from mqloom.spark_analytics.place import place_of
from mqloom.spark_analytics.segments import Gap, SpoolError
from mqloom.spark_analytics.source_options import OPTIONS, source_options

DOCS = Path(__file__).parents[2] / "docs" / "spark-source.md"


def test_every_option_is_documented() -> None:
    text = DOCS.read_text()
    assert [name for name in OPTIONS if f"| `{name}` |" not in text] == []


def test_paths_become_absolute_where_the_query_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    options = source_options({"spool": "here"})
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(options)).place.spool == str(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    assert place_of(None, "tcp://a:1", "key").options() == {"endpoint": "tcp://a:1", "key_file": str(tmp_path / "key")}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "give a folder"),
        ({"spool": "a", "endpoint": "b"}, "one place"),
        ({"spool": "a", "kind": "lod"}, "one of load, broker"),
        ({"spool": "a", "kindd": "load"}, "no option 'kindd'"),
        ({"spool": "a", "max_records": "0"}, "a whole number"),
        ({"spool": "a", "max_records": "many"}, "a whole number"),
        ({"spool": "a", "on_missing": "ignore"}, "fail, skip"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_could_be(options: dict[str, str], problem: str) -> None:
    with pytest.raises(LocalError, match=problem):
        source_options(options)


def test_names_of_options_may_be_written_as_spark_users_do() -> None:
    assert source_options({"Spool": "a", "Max_Records": "7"}).max_records == 7


def test_gaps_are_errors_unless_they_are_to_be_skipped() -> None:
    gone, broken = Gap(1, 5, "old", is_gone=True), Gap(5, 9, "file: damaged")
    strict = source_options({"spool": "a"})
    with pytest.raises(SpoolError, match="positions 1 to 5 are gone"):
        strict.check(gone)
    with pytest.raises(SpoolError, match=r"file: damaged \(positions 5 to 9\)"):
        strict.check(broken)
    source_options({"spool": "a", "on_missing": "skip"}).check(gone)
    source_options({"spool": "a", "on_broken": "skip"}).check(broken)
