"""Changes as a DataFrame: the records of a table's topic, with rows typed like the table's columns."""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay.errors import SetupError
from pgrelay.spark.kafka import read_topics
from pgrelay.spark.records.avro_records import AvroRecords, schema_id
from pgrelay.spark.records.json_records import JsonRecords
from pgrelay.spark.schemas.registry import Registry
from pgrelay.spark.schemas.schema import TableSchema, require_schema

_JSON: Final = -1  # in place of a schema's id

_VARIABLE: Final = "${"
_SUBSTITUTE: Final = "spark.sql.variable.substitute"


def read_changes(
    spark: SparkSession,
    servers: str,
    topic: str,
    *,
    schema: TableSchema,
    streaming: bool = False,
    options: Mapping[str, str] | None = None,
    registry: str | Mapping[str, Any] | None = None,
    placeholder: bool | None = None,
) -> DataFrame:
    """The changes of one table, one row for each; tombstones, which repeat their deletes, are left out.

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

    Nothing is silently rounded, nulled or dropped: if a value is not exactly of its column's type, or a
    column is not in the schema, `corrupt` says so. `registry`, for records in Avro, is the URL of the schema
    registry or the options of Confluent's client; a stream knows the schemas that are registered when it is
    created. `options` are those of Spark's Kafka source. Pass `placeholder=True` if the relay has
    `records.unchanged: placeholder`; False reads a placeholder as text, and by default it is corrupt.
    """
    require_schema(schema)
    if not isinstance(topic, str) or not topic:
        raise SetupError(f"topic={topic!r}: write one topic: another has other columns")
    refuse_invalid_placeholder(placeholder)
    schema.refuse_clash()
    _refuse_variables(spark, schema)
    records = read_topics(spark, servers, topic, options=options, streaming=streaming)
    if registry is None:
        changes = JsonRecords(schema, placeholder).changes(records)
    else:
        changes = AvroRecords(schema, Registry(registry).topic_schemas(topic), placeholder).changes(records)
    return _with_pushdown_barrier(changes)


def refuse_invalid_placeholder(placeholder: object) -> None:
    """Raise SetupError unless it is a choice of `read_changes`: any text would count as True."""
    if not isinstance(placeholder, bool | None):
        raise SetupError(
            f"placeholder={placeholder!r}: write True if the relay has records.unchanged: placeholder"
        )


def _refuse_variables(spark: SparkSession, schema: TableSchema) -> None:
    """Raise SetupError if Spark would put the value of a setting, or of the environment, in a column's name.

    It does so wherever a statement has `${...}`, even in quotes, and nothing escapes that.
    """
    name = next((name for name in schema.known_names() if _VARIABLE in name), None)
    if name is not None and spark.conf.get(_SUBSTITUTE, "true") != "false":
        raise SetupError(
            f"{schema.topic}: Spark takes a part of the name of column {name!r} for a variable: set "
            f"{_SUBSTITUTE} to false in the session"
        )


def _with_pushdown_barrier(changes: DataFrame) -> DataFrame:
    """The same changes, behind a barrier through which Spark pushes no filter.

    Spark pushes filters down as far as it can, and computes what they pass once more for each mention:
    `corrupt IS NULL` would parse a record hundreds of times. It pushes none through a sample, which a stream
    can't have; nor through what is not deterministic, which a copy-on-write MERGE refuses in its source. Both
    cost a read a few per cent at most, though rows that are filtered out were parsed whole. Projections are
    pushed through them, so only the columns that are asked for are parsed.
    """
    if not changes.isStreaming:
        return changes.sample(1.0, seed=0)
    return changes.withColumn("__task", F.spark_partition_id()).where("__task >= 0").drop("__task")


class Decoder:
    """Decodes records that were read already; each schema's reader is kept for all batches."""

    def __init__(self, registry: Registry | None = None, placeholder: bool | None = None) -> None:
        self._registry = registry
        self._placeholder = placeholder
        self._json: dict[str, JsonRecords] = {}  # by topic
        self._avro: dict[str, AvroRecords] = {}  # by topic

    def changes(self, records: DataFrame, schema: TableSchema) -> DataFrame:
        """The columns of `read_changes`. Avro is decoded only by the schemas whose ids are in the records."""
        schema.refuse_clash()
        _refuse_variables(records.sparkSession, schema)
        if self._registry is None:
            return self._json_changes(records, schema)
        kind = F.when(_is_json(), _JSON).otherwise(schema_id(F.col("value")))
        kinds = records.select(kind.alias("kind")).where("kind IS NOT NULL").distinct()
        found = {row["kind"] for row in kinds.collect()}
        ids = found - {_JSON}
        if not ids:
            return self._json_changes(records, schema)
        texts = self._registry.schemas_by_id(ids)
        if _JSON not in found:
            return self._avro_changes(records, schema, texts)
        # Some are JSON, from before the relay wrote Avro: other partitions were read further.
        in_avro = self._avro_changes(records.where(~_is_json()), schema, texts)
        return self._json_changes(records.where(_is_json()), schema).unionByName(in_avro)

    def _json_changes(self, records: DataFrame, schema: TableSchema) -> DataFrame:
        json = self._json.get(schema.topic)
        if json is None or json.schema != schema:
            json = self._json[schema.topic] = JsonRecords(schema, self._placeholder)
        return json.changes(records)

    def _avro_changes(self, records: DataFrame, schema: TableSchema, texts: dict[int, str]) -> DataFrame:
        avro = self._avro.get(schema.topic)
        if avro is None or (avro.schema, avro.texts) != (schema, texts):
            avro = self._avro[schema.topic] = AvroRecords(schema, texts, self._placeholder)
        return avro.changes(records)


def _is_json() -> Expression:
    """Whether a value is a JSON object; null for a tombstone."""
    return F.substring("value", 1, 1) == F.lit(b"{")
