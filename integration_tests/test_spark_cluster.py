"""The same query on a cluster through the collector, and on this machine through the files; commands, and programs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from integration_tests.processes import Process
from integration_tests.spark_cluster import spark_cluster
from integration_tests.spark_parts import collector_process, java_or_skip
from mqloom.core.command import main
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import BatchHeader, BrokerRecord, LoadRecord, encode_batch, encode_record
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.ports import free_port
from mqloom.spark_analytics.java import find_java
from mqloom.spark_analytics.spool import SpoolWriter

PROGRAM = """
import json, sys
from pyspark.sql import functions as f
from mqloom.spark_analytics.sessions import SMALL, session
from mqloom.spark_analytics.tables import tables

master, place, where, scratch = sys.argv[1:]
with session(master, SMALL) as spark:
    source = spark.read.format("mqloom").option(place, where).option("partition_records", 5_000)
    executors = source.load().select(f.spark_partition_id().alias("task")).distinct().count()
    kinds = source.load().groupBy("kind").agg(f.count("*"), f.sum("position")).orderBy("kind").collect()
    with tables(spark, scratch=scratch, **{place: where}) as found:
        load = found["load"].groupBy("gateway").agg(
            f.count("*"), f.min("at").cast("string"), f.max("at").cast("string"), f.sum("subscriptions"),
            f.percentile("cpu_ratio", 0.95), f.round(f.sum("input_rate"), 6),
        ).orderBy("gateway").collect()
        findings = found.findings
print(json.dumps({"tasks": executors, "kinds": kinds, "load": load, "findings": findings}))
"""


def fill(folder: Path, batches: int) -> None:
    writer = SpoolWriter(folder, 200_000)
    for number in range(batches):
        records = [
            LoadRecord(1.7e9 + number, 10.0, 0.1, 0.2, 0.3, (number % 97) / 97, 0.5, number / 7, 7.0, 8.0, index)
            if index % 2
            else BrokerRecord(1.7e9 + number, "messages/received", float(index))
            for index in range(100)
        ]
        header = BatchHeader(1, GatewayId(f"gateway-{number % 5}"), 1, number // 5 * 100 + 1, len(records))
        writer.append(len(records), encode_batch(header, [encode_record(record) for record in records]))
    writer.commit()
    writer.close()


def ask(folder: Path, *arguments: str) -> dict[str, Any]:
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr.decode()[-5_000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.timeout(900)
def test_a_cluster_reads_from_the_collector_what_this_machine_reads_from_the_files(tmp_path: Path) -> None:
    java_or_skip()
    spool, scratch = tmp_path / "spool", tmp_path / "scratch"
    scratch.mkdir()
    fill(spool, 500)
    local = ask(tmp_path, "local[2]", "spool", "spool", str(scratch))
    with spark_cluster(tmp_path / "cluster") as url, collector_process(spool) as collector:
        remote = ask(scratch, url, "endpoint", collector.serving, str(scratch))
        worked = [home for home in (tmp_path / "cluster").glob("worker-*") if list(home.glob("work/*/*"))]
    assert remote == local
    assert remote["tasks"] > 1
    assert sum(count for _, count, _ in remote["kinds"]) == 50_000
    assert len(worked) == 2
    assert list(scratch.iterdir()) == []


DOCS = Path(__file__).parents[1] / "docs" / "spark-source.md"
BATCHES = 100
COMMAND_S_MAX = 240.0


def submitted(folder: Path, url: str, program: str) -> str:
    """Return what a program says that spark-submit runs on a cluster."""
    (folder / "program.py").write_text(program)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    environment = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [submit, "--master", url, "program.py"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-5_000:]
    return done.stdout.decode()


@pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
@pytest.mark.timeout(900)
def test_sql_and_stream_and_a_program_that_is_submitted_run_on_a_cluster_with_a_key(tmp_path: Path) -> None:
    java_or_skip()
    spool, scratch, keys, port = tmp_path / "spool", tmp_path / "scratch", tmp_path / "telemetry.keys", free_port()
    scratch.mkdir()
    fill(spool, BATCHES)
    assert main(["keys", "new", str(tmp_path / "all.keys")]) == 0
    assert main(["keys", "telemetry", str(tmp_path / "all.keys"), "--to", str(keys)]) == 0
    (tmp_path / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    (example,) = re.findall(r"```python\n(# utilisation\.py\n.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    with (
        mosquitto_process(tmp_path / "mosquitto.conf", port),
        spark_cluster(tmp_path / "cluster") as url,
        collector_process(spool, key_file=keys) as collector,
    ):
        words = ["--endpoint", collector.serving, "--key-file", str(keys), "--master", url]
        words += ["--set", "spark.driver.host=127.0.0.1", "--scratch", str(scratch)]
        query = "SELECT gateway, count(*) AS records FROM telemetry_load GROUP BY gateway ORDER BY gateway"
        sql = Process(["spark", "sql", *words, "--format", "csv", query], scratch)
        assert sql.wait(COMMAND_S_MAX) == 0, sql.log[-20:]
        where = ["--checkpoint", str(tmp_path / "watch"), "--host", "127.0.0.1", "--port", str(port)]
        stream = Process(["spark", "stream", *words, *where, "--once"], scratch)
        assert stream.wait(COMMAND_S_MAX) == 0, stream.log[-20:]
        option = f'.option("endpoint", "{collector.serving}").option("key_file", "{keys}")'
        program = example.replace('.option("endpoint", "tcp://collector.example:5571")', option)
        assert program != example
        told = submitted(scratch, url, program)
    each = BATCHES // 5 * 50
    assert sql.output == ["gateway,records", *(f"gateway-{number},{each}" for number in range(5))]
    # By what `fill` writes, four gateways use too much processor, and two of them less again.
    assert "6 alerts on mqloom/v1/alerts" in stream.log
    assert [line for line in told.splitlines() if "gateway-" in line]
