"""Which tables a query names, and which words are none."""

import pytest

from mqloom.spark_analytics.capacity.relations import relations_in


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT count(*) AS clusters FROM telemetry_link", {"telemetry_link"}),
        ("SELECT 'FROM clusters', clusters, x FROM a -- JOIN forecast", {"a"}),
        ("SELECT * FROM Utilisation u JOIN `hot_hours` AS h ON u.a = h.a", {"utilisation", "hot_hours"}),
        ("SELECT a, clusters FROM x AS overlay, forecast WHERE b IN (1, clusters)", {"x", "forecast"}),
        ("SELECT * FROM (SELECT * FROM families), (SELECT 1) AS t, clusters", {"families", "clusters"}),
        ("WITH t AS (SELECT a, what_if FROM overlay) SELECT * FROM t", {"overlay", "t"}),
        ("SELECT max(x), clusters FROM a ORDER BY x DESC, clusters LIMIT 3", {"a"}),
        ("EXPLAIN SELECT * FROM forecast UNION TABLE headroom", {"forecast", "headroom"}),
        ("DESCRIBE EXTENDED predictions", {"predictions"}),
        ("SELECT * FROM x LEFT JOIN LATERAL (SELECT y, z FROM clusters) t", {"x", "clusters"}),
    ],
)
def test_tables_are_what_stands_where_tables_do(query: str, named: set[str]) -> None:
    assert relations_in(query) == named
