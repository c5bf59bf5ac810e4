"""The configuration as frozen models: every key, its default and what it means.

Sections are attributes of `Config`, keys are attributes of the sections: `config.source.slot`. `pgrelay
schema` passes each key's description on to editors.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

from pydantic import (
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from pgrelay.config import addresses, fields, kafka_options, secrets
from pgrelay.config.section import Section
from pgrelay.config.selection import Columns, Route, Tables

# The protocol version that first has a feature (manual, "Logical Streaming Replication Parameters").
_STREAMING_SINCE: Final = {"on": 2, "parallel": 4}
_TWO_PHASE_SINCE: Final = 3


class SourceConfig(Section):
    """Postgres: where to connect, and what to ask the server for."""

    dsn: fields.Dsn = Field(
        repr=False,
        description="a libpq URI or key=value string; PG* variables and .pgpass apply, '' uses only those",
    )
    slot: fields.SlotName = Field(default="pgrelay", description="the replication slot's name")
    publications: tuple[fields.PublicationName, ...] = Field(
        default=("pgrelay",), min_length=1, description="the publications to stream"
    )
    create: fields.Switch = Field(
        default=True, description="create the slot and the publication if they are missing"
    )
    tables: tuple[fields.TableName, ...] = Field(
        default=(),
        description="tables of a publication that pgrelay creates: [public.orders, sales.*]; empty: all",
    )
    snapshot: Literal["never"] = Field(default="never", description="copy the rows that exist already")
    protocol_version: fields.ProtocolVersion = Field(
        default="auto", description="pgoutput's version; auto: the highest that the server supports"
    )
    streaming: Literal["auto", "off", "on", "parallel"] = Field(
        default="auto", description="Postgres sends large transactions before they commit"
    )
    binary: fields.Switch = Field(
        default=False, description="column values in binary form where the type has one"
    )
    messages: fields.Switch = Field(default=True, description="relay messages of pg_logical_emit_message")
    two_phase: fields.Switch = Field(
        default=False, description="Postgres sends prepared transactions when they are prepared"
    )
    origin: Literal["any", "none"] = Field(
        default="any", description="none: leave out changes that were replicated from elsewhere"
    )
    status_interval_s: fields.Seconds = Field(
        default=1.0, description="send the server a status update at least every so many seconds"
    )

    @field_validator("snapshot", mode="before")
    @classmethod
    def _check_snapshot(cls, value: object) -> object:
        if value == "initial":
            raise ValueError("initial is not supported yet; use never")
        return value

    @field_validator("streaming", "two_phase")
    @classmethod
    def _check_protocol_version(cls, value: str | bool, info: ValidationInfo) -> str | bool:
        version = info.data.get("protocol_version", "auto")
        since = _TWO_PHASE_SINCE if value is True else _STREAMING_SINCE.get(str(value), 1)
        if isinstance(version, int) and version < since:
            shown = "true" if value is True else value
            raise ValueError(
                f"{shown} needs protocol_version {since} or higher, not {version}; "
                "set source.protocol_version to auto"
            )
        return value

    def table_names(self) -> list[tuple[str, str | None]]:
        """`tables` as (schema, table) with the catalogue's own names; the table is None for `schema.*`."""
        return [fields.split_table(entry) for entry in self.tables]


class SinkConfig(Section):
    """Kafka: where to write, and how topics are created."""

    # Only the editors' schema requires it: a load without it then reports bootstrap.servers, not kafka.
    model_config = ConfigDict(json_schema_extra={"required": ["kafka"]})

    kafka: fields.Options = Field(
        default_factory=dict,
        validate_default=True,
        repr=False,
        description="librdkafka's own options; bootstrap.servers is required",
        json_schema_extra={"required": [kafka_options.BOOTSTRAP]},
    )
    delivery: Literal["at_least_once", "exactly_once"] = Field(
        default="at_least_once",
        description="whether a restart may repeat the records of unconfirmed transactions",
    )
    create_topics: fields.Switch = Field(
        default=True,
        description="create missing topics with the admin client, never by the broker's auto-creation",
    )
    partitions: fields.Partitions = Field(default=1, description="partitions of topics that pgrelay creates")
    replication_factor: fields.Replicas = Field(
        default=1, description="replicas of topics that pgrelay creates"
    )
    topic_config: fields.Options = Field(
        default_factory=dict,
        description="options of topics that pgrelay creates: retention.ms, cleanup.policy, ...",
    )
    shutdown_grace_s: fields.Seconds = Field(
        default=10.0, description="seconds that a stop may wait for Kafka to acknowledge records on their way"
    )

    @field_validator("kafka")
    @classmethod
    def _check_kafka_options(cls, options: dict[str, str]) -> dict[str, str]:
        faults = [*kafka_options.refused_options(options), *kafka_options.broker_faults(options)]
        _raise_faults(((name,), text) for name, text in faults)
        return options


class Records(Section):
    """The records: their topics, their shape, and how column values are written."""

    prefix: fields.Prefix = Field(default="app", description="source.name, and the first part of every topic")
    topic: fields.TopicTemplate = Field(
        default="{prefix}.{schema}.{table}",
        description="a table's topic, built from {prefix}, {schema} and {table}",
    )
    routes: tuple[Route, ...] = Field(
        default=(), description="tables that share a topic: [{match: 'public\\.orders_.*', topic: ...}]"
    )
    tables: Tables = Field(default=Tables(), description="which of the published tables are relayed")
    columns: Columns = Field(default=Columns(), description="columns to drop, to mask or to hash")
    format: Literal["json", "avro"] = Field(default="json", description="how keys and values are written")
    envelope: Literal["debezium", "flat"] = Field(
        default="debezium", description="debezium: before and after with the source; flat: the row alone"
    )
    key: fields.Switch = Field(default=True, description="give records their row's key")
    tombstones: fields.Switch = Field(
        default=True, description="after a delete, send a record with a null value, for compaction"
    )
    transaction_topic: fields.Switch = Field(
        default=False, description="write BEGIN and END of each transaction to {prefix}.transaction"
    )
    numeric: Literal["string", "double", "precise"] = Field(
        default="string", description="how numeric is written"
    )
    time: Literal["iso", "debezium"] = Field(default="iso", description="how dates and times are written")
    binary: Literal["base64", "hex"] = Field(default="base64", description="how bytea is written")
    json_: Literal["string", "inline"] = Field(
        default="string", alias="json", description="json and jsonb as a string, or as the document itself"
    )
    unchanged: Literal["omit", "placeholder"] = Field(
        default="omit",
        description="a large unchanged value that the server did not send: leave it out, or mark it",
    )
    headers: fields.Switch = Field(
        default=False,
        description="op, LSN, seq and txid as headers on every record of a row, truncate or message",
    )
    schema_registry: fields.Options = Field(
        default_factory=dict, repr=False, description="for avro: url and the registry client's own options"
    )

    @field_validator("schema_registry")
    @classmethod
    def _check_registry_url(cls, options: dict[str, str]) -> dict[str, str]:
        fault = addresses.registry_fault(options["url"]) if options.get("url") else None
        _raise_faults(iter([(("url",), fault)] if fault else []))
        return options


class Transactions(Section):
    """Where transactions wait until they commit."""

    memory_mb: fields.Count = Field(
        default=64, description="MiB in memory for all open transactions; above it they spill to disk"
    )
    spool_dir: fields.PathOrNone = Field(
        default=None,
        description="where they spill; null: pgrelay's own directory under the system's temporary one",
    )


class Errors(Section):
    """What to do with a record that can't be encoded or delivered."""

    on_record: Literal["stop", "dead_letter"] = Field(
        default="stop", description="stop the relay, or write the record to {prefix}.dead_letter and go on"
    )


class Http(Section):
    """The status server."""

    listen: fields.ListenOrNone = Field(
        default="127.0.0.1:8080",
        description="host:port of the status page, /metrics, /healthz and /readyz; null: off",
    )

    @property
    def address(self) -> tuple[str, int] | None:
        """`listen` as (host, port), an IPv6 host without its brackets; None if it is off."""
        return None if self.listen is None else fields.split_listen(self.listen)


class Log(Section):
    """What is logged, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="the lowest level that is logged"
    )


class Config(Section):
    """The configuration of one relay: one slot to one Kafka cluster."""

    source: SourceConfig = Field(description="Postgres: where to connect, and what to ask the server for")
    sink: SinkConfig = Field(description="Kafka: where to write, and how topics are created")
    records: Records = Field(default=Records(), description="the records: their topics and their shape")
    transactions: Transactions = Field(
        default=Transactions(), description="where transactions wait for their commit"
    )
    errors: Errors = Field(
        default=Errors(), description="what to do with a record that can't be encoded or delivered"
    )
    http: Http = Field(default=Http(), description="the status server")
    log: Log = Field(default=Log(), description="what is logged, on stderr")

    @model_validator(mode="after")
    def _check_required_keys(self) -> "Config":
        _raise_faults(_missing_keys(self))
        return self

    def masked(self) -> dict[str, Any]:
        """The configuration as a mapping of sections, for display: secrets are `***`."""
        shown = self.model_dump(mode="json", by_alias=True)
        shown["source"]["dsn"] = secrets.mask_dsn(self.source.dsn)
        shown["sink"]["kafka"] = secrets.mask_options(self.sink.kafka)
        if self.records.columns.hash_key is not None:
            shown["records"]["columns"]["hash_key"] = secrets.MASK
        shown["records"]["schema_registry"] = secrets.mask_options(self.records.schema_registry)
        return shown


def _missing_keys(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (path, message) for each key that another one needs."""
    if config.records.format == "avro" and not config.records.schema_registry.get("url"):
        text = (
            "missing, but records.format: avro needs it; set it to the registry's address: http://host:8081"
        )
        yield ("records", "schema_registry", "url"), text


def _raise_faults(faults: Iterator[tuple[tuple[str, ...], str]]) -> None:
    """Raise one ValidationError with every fault, if any: (path below the current model, message)."""
    details = [
        InitErrorDetails(type=PydanticCustomError("fault", "{text}", {"text": text}), loc=path, input=None)
        for path, text in faults
    ]
    if details:
        raise ValidationError.from_exception_data("Config", details, hide_input=True)
