"""What `padres-random` takes for later."""

from mqloom.lab.experiments.padres_random import Found, later


def found(*last_s: float) -> list[Found]:
    return [
        Found(
            sessions=1,
            idle=0,
            moved=1,
            largest=200,
            before_s=0.0,
            last_s=each,
            is_quiet=True,
            is_idle=True,
            overloaded=0.0,
            returned=0,
            returned_late=0,
            wrong=0,
            curves=(),
        )
        for each in last_s
    ]


def missed(drawn: list[Found]) -> list[str]:
    before = found(*[900.0, 1_100.0] * 10)
    return [row.name for row in later("equal", before, drawn, before) if not row.ok]


def test_what_is_later_by_about_as_much_as_in_the_paper_is_later() -> None:
    assert missed(found(*[1_200.0, 1_900.0] * 10)) == []


def test_runs_that_differ_so_much_that_anything_is_likely_show_nothing() -> None:
    assert missed(found(*[100.0, 5_000.0] * 10)) == ["equal: half of what lies between these"]
