"""The configuration of `pgrelay spark-mirror`: every key, its default and what it means."""

import os
from collections.abc import Mapping
from typing import Final, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from pgrelay.config import fields
from pgrelay.config.document import load_as, read
from pgrelay.config.model import Http, Log
from pgrelay.config.section import Section

_EXAMPLE: Final = "the one in docs/spark-operations.md"


class Kafka(Section):
    """The relay's topics, and how to read them."""

    servers: fields.Brokers = Field(min_length=1, description="the brokers, host:port,host:port")
    prefix: fields.Prefix = Field(default="app", description="records.prefix of the relay")
    options: fields.Options = Field(
        default_factory=dict,
        repr=False,
        description="of Spark's Kafka source: maxOffsetsPerTrigger, kafka.security.protocol, ...",
    )
    schema_registry: fields.Options = Field(
        default_factory=dict,
        repr=False,
        description="url and the client's own options, where records are in Avro",
    )
    unchanged: Literal["omit", "placeholder"] = Field(
        default="omit", description="records.unchanged of the relay"
    )

    @property
    def placeholder(self) -> bool | None:
        """As in `read_changes`: if none is expected, a placeholder is corrupt, not a text."""
        return True if self.unchanged == "placeholder" else None


class Lake(Section):
    """The tables: where they are, and how they are written."""

    warehouse: str = Field(min_length=1, description="the folder or URI (s3a://...) that the tables are in")
    tables: dict[str, str] = Field(
        min_length=1, description="a target for each topic: {app.public.orders: lake.orders}"
    )
    using: Literal["delta", "iceberg"] = Field(default="delta", description="the tables' format")
    checkpoint: str = Field(
        default="",
        description="where the query remembers; '': the warehouse's folder _checkpoints/PREFIX, "
        "or PREFIX__history",
    )
    every_s: fields.Seconds = Field(default=5.0, description="seconds from one micro-batch to the next")
    upkeep_every_h: fields.HoursOrNone = Field(
        default=None,
        description="hours after which a target is compacted and purged again, between batches; null: never",
    )
    whole_transactions: fields.Switch = Field(
        default=False,
        description="show whole transactions only; needs records.transaction_topic of the relay",
    )
    history: fields.Switch = Field(
        default=False,
        description="keep every version of every row (SCD type 2) instead; the tables need keys",
    )
    on_missing: Literal["fail", "null"] = Field(
        default="fail",
        description="an update without a large value, and no row in the target to have it from",
    )
    corrupt_to: str | None = Field(
        default=None, description="a table for records that can't be read exactly; null: they end the mirror"
    )
    text_columns: dict[str, list[str]] = Field(
        default_factory=dict, description="columns to read as text, by topic: {app.public.orders: [at]}"
    )


class Spark(Section):
    """The Spark session."""

    master: str = Field(
        default="local[*]", description="local[*], spark://host:7077, ...; spark-submit's goes before it"
    )
    jars: list[str] = Field(
        default_factory=list,
        description="Maven coordinates of more jars than ours; with spark-submit, in its --jars instead",
    )
    options: fields.Options = Field(default_factory=dict, description="Spark's own: spark.driver.memory, ...")


class Listen(Http):
    """The metrics."""

    listen: fields.ListenOrNone = Field(
        default="127.0.0.1:8081", description="host:port of /metrics; null: none"
    )


class MirrorConfig(Section):
    """The configuration of one mirror: the topics of one relay to tables of one lake."""

    kafka: Kafka = Field(description="the relay's topics, and how to read them")
    lake: Lake = Field(description="the tables: where they are, and how they are written")
    spark: Spark = Field(default=Spark(), description="the Spark session")
    http: Listen = Field(default=Listen(), description="the metrics")
    log: Log = Field(default=Log(), description="what is logged, on stderr")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        unknown = sorted(self.lake.text_columns.keys() - self.lake.tables.keys())
        if unknown:
            raise _mistake("no such topic under lake.tables", "lake", "text_columns", unknown[0])
        if self.lake.history and self.lake.whole_transactions:
            raise _mistake("a history has no whole_transactions; set one of the two", "lake", "history")
        return self

    @property
    def checkpoint(self) -> str:
        """Where the query remembers what it has done."""
        named = f"{self.kafka.prefix}__history" if self.lake.history else self.kafka.prefix
        return self.lake.checkpoint or f"{self.lake.warehouse.rstrip('/')}/_checkpoints/{named}"


def _mistake(text: str, *key: str) -> ValidationError:
    """A mistake at a key that another key makes one."""
    fault = PydanticCustomError("fault", "{text}", {"text": text})
    details = InitErrorDetails(type=fault, loc=key, input=None)
    return ValidationError.from_exception_data("MirrorConfig", [details], hide_input=True)


def load(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> MirrorConfig:
    """Read and validate the file; `${NAME}` in a value is read from the environment.

    Raises SetupError: one line for each mistake.
    """
    config = load_as(MirrorConfig, path, read(path, _EXAMPLE), environ, example=_EXAMPLE)
    from pgrelay.spark.hadoop import (
        absolute_location,
    )  # takes a second, so only after the file was found valid

    warehouse = absolute_location(config.lake.warehouse)
    return config.model_copy(update={"lake": config.lake.model_copy(update={"warehouse": warehouse})})
