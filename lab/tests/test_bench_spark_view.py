from mqloom.lab.bench_spark_view import SparkFigures, as_json, growth_of, view


def figures(rows: int, report_s: float) -> SparkFigures:
    return SparkFigures(
        rows=rows,
        spool_bytes=70 * rows,
        generate_s=1.0,
        report_s=report_s,
        stage_s=2.0,
        spark_s=3.0,
        duckdb_s=None,
        pandas_s=4.0,
        stream_rows_s=200_000.0,
        agree=True,
    )


def test_growth_is_the_time_of_a_row_compared_with_the_smallest_size() -> None:
    assert growth_of([figures(100, 10.0), figures(400, 40.0), figures(1_000, 50.0)]) == [1.0, 1.0, 0.5]
    assert as_json("local[2]", [figures(100, 10.0), figures(1_000, 100.0)])["is_linear"]
    assert not as_json("local[2]", [figures(100, 10.0), figures(1_000, 120.0)])["is_linear"]


def test_people_see_a_line_for_each_size_and_a_dash_where_an_engine_is_not_installed() -> None:
    table = view([figures(100, 10.0), figures(400, 40.0)])
    assert table.row_count == 2
    assert [list(column.cells) for column in table.columns if column.header == "DuckDB"] == [["-", "-"]]
