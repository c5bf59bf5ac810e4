"""The lake's process in the demo: it runs the mirror, and answers questions about the tables.

`python -m pgrelay.demo.lake_process SERVERS PREFIX WAREHOUSE TABLE...`. It answers each line of input with a
line of JSON: `progress` with `{"rows": {table: count}, "lsn": {table: commit LSN}}`, `rows` with each table's
rows. It ends at the end of its input.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pgrelay import spark as pg

_OPTIONS: Final = {
    "spark.driver.memory": "1g",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}
_TO_JSON: Final = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def main(servers: str, prefix: str, warehouse: str, *tables: str) -> None:
    # Keep stdout for the answers: what Java writes there goes to stderr.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    targets = {f"{prefix}.public.{table}": f"shop.{table}" for table in tables}
    metrics = CollectorRegistry()
    spark = pg.session(warehouse, "local[2]", options=_OPTIONS)
    spark.streams.addListener(pg.MirrorListener(spark, servers, targets, metrics=metrics))
    query = pg.mirror(
        spark,
        servers,
        targets,
        prefix=prefix,
        checkpoint=f"{warehouse}/_checkpoint",
        trigger={"processingTime": "500 milliseconds"},
    )
    _answer(answers, {"rows": {}, "lsn": {}})  # the mirror runs
    for line in sys.stdin:
        if query.exception() is not None:
            break
        if line == "progress\n":
            _answer(answers, _progress(spark, metrics, targets))
        else:
            _answer(answers, _rows(spark, servers, prefix, targets))
    if query.exception() is not None:
        query.awaitTermination()  # raises the query's exception
    query.stop()
    spark.stop()


def _answer(to: TextIO, answer: Mapping[str, Any]) -> None:
    print(json.dumps(answer), file=to, flush=True)


def _progress(spark: SparkSession, metrics: CollectorRegistry, targets: Mapping[str, str]) -> dict[str, Any]:
    lsn = {
        target.partition(".")[2]: metrics.get_sample_value("pgrelay_mirror_lsn", {"table": topic}) or 0
        for topic, target in targets.items()
    }
    existing = [target for target in targets.values() if spark.catalog.tableExists(target)]
    return {"rows": {name.partition(".")[2]: spark.table(name).count() for name in existing}, "lsn": lsn}


def _rows(spark: SparkSession, servers: str, prefix: str, targets: Mapping[str, str]) -> dict[str, Any]:
    """Each table's rows as JSON. The lake stores a jsonb document as text; here it is parsed."""
    schemas = pg.table_schemas(spark, servers, prefix)
    found: dict[str, Any] = {target.partition(".")[2]: [] for target in targets.values()}
    for topic, target in targets.items():
        if not spark.catalog.tableExists(target):
            continue  # no row was ever in it
        documents = [c.name for c in schemas[topic].columns if c.type_name == "jsonb"]
        table = spark.table(target).drop("__commit_lsn", "__seq")
        rows = [json.loads(row[0]) for row in table.select(F.to_json(F.struct("*"), _TO_JSON)).collect()]
        for row in rows:
            row |= {name: json.loads(row[name]) for name in documents if row[name] is not None}
        found[target.partition(".")[2]] = rows
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
