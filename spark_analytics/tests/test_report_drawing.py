"""Pictures: names of others are drawn as they are."""

from typing import Any

import pytest

from mqloom.spark_analytics.report.drawing import draw


@pytest.mark.parametrize("name", ["$a%$/x", "$x^2$", "$SYS/$", "a\\$b$"])
def test_a_name_with_dollars_is_no_formula(name: str) -> None:
    def paint(axes: Any) -> None:
        axes.barh([0, 1], [1, 2], label=name)
        axes.set_yticks([0, 1], [name, "plain"])
        axes.annotate(name, (1, 0))
        axes.set_title(name)
        axes.legend()

    svg = draw(paint, "names", "Names")
    assert svg.count(name) == 4
