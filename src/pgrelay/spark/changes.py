"""Changes as a DataFrame: the records of a table's topic, their rows typed as the table's columns are."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from pgrelay.spark.json_records import json_changes
from pgrelay.spark.kafka import read_topic
from pgrelay.spark.schema import TableSchema


def read_changes(
    spark: SparkSession,
    servers: str,
    topic: str,
    *,
    schema: TableSchema,
    streaming: bool = False,
    options: Mapping[str, str] | None = None,
    placeholder: bool | None = None,
) -> DataFrame:
    """The changes of one table, in one row each; tombstones, which repeat their deletes, are left out.

    | column | type | |
    |---|---|---|
    | topic, partition, offset | string, int, bigint | where the record is |
    | op | string | c create, u update, d delete, r row of a snapshot, t truncate |
    | commit_lsn, seq | bigint | order and identify the change |
    | txid, ts | bigint, timestamp | the transaction and when it committed |
    | key | struct | the key's columns; null where the record has no key |
    | before, after | struct | the table's columns in force, under their names; null where there is no row |
    | unchanged | array of string | columns that are null in `after` because their large value was not sent |
    | corrupt | string | null, or why the record can't be read exactly, and the record |

    Nothing is rounded, nulled or dropped in silence: where a value is not exactly of its column's type, or a
    column is not in the schema, `corrupt` says so. `options` are those of Spark's Kafka source. Of records
    that were written with `unchanged: placeholder`, say `placeholder=True`; False takes the placeholder for a
    text, and by default it is corrupt.
    """
    records = read_topic(spark, servers, topic, options, streaming=streaming)
    return changes_of(records, schema, placeholder=placeholder)


def changes_of(records: DataFrame, schema: TableSchema, *, placeholder: bool | None = None) -> DataFrame:
    """The same of records that were read already, as Kafka's source gives them."""
    return json_changes(records, schema, placeholder)
