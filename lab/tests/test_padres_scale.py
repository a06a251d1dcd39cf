"""What `padres-scale` takes for gains that have ended."""

from mqloom.lab.experiments.padres_scale import gains


def missed(*delays_ms: float) -> list[str]:
    """Return the targets that delays with two edges and more miss."""
    return [row.name for row in gains({edges: each / 1_000 for edges, each in enumerate(delays_ms, 2)}) if not row.ok]


def test_gains_that_end_at_five_have_ended() -> None:
    assert missed(40.0, 24.0, 17.0, 13.0, 12.0, 11.5, 11.0, 10.8, 10.6) == []


def test_one_late_step_is_seen_though_the_average_is_small() -> None:
    assert missed(40.0, 24.0, 17.0, 13.0, 13.0, 13.0, 13.0, 13.0, 10.0) == ["delay gained past six edges, by any"]


def test_gains_that_go_on_as_before_are_missed() -> None:
    assert len(missed(40.0, 36.0, 32.0, 28.0, 24.0, 20.0, 16.0, 12.0, 8.0)) == 4
