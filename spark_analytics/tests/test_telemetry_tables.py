from pathlib import Path

import pytest
from pyspark.sql import Row

from mqloom.core.errors import LocalError
from mqloom.spark_analytics.staging import staged_name
from mqloom.spark_analytics.tables import check_shared


def test_executors_that_write_into_a_folder_of_their_own_are_an_error_and_not_empty_tables(tmp_path: Path) -> None:
    told = [Row(kind="load", begin=0, end=9, rows=9, problem=""), Row(kind="", begin=3, end=4, rows=0, problem="gone")]
    with pytest.raises(LocalError, match="scratch must be a folder that all machines share"):
        check_shared(tmp_path, told)
    (tmp_path / "load").mkdir()
    (tmp_path / "load" / staged_name(0, 9)).touch()
    check_shared(tmp_path, told)
