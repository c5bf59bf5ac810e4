"""What differs by format and envelope: the classes that write it, and the schemas that it needs."""

from pgrelay.encode.avro.boundaries import AvroBoundaries
from pgrelay.encode.avro.debezium import DebeziumAvro
from pgrelay.encode.avro.flat import FlatAvro
from pgrelay.encode.avro.json_keys import JsonKeys
from pgrelay.encode.avro.plan import AvroPlan, names_in_avro
from pgrelay.encode.avro.rows import AvroRowWriter
from pgrelay.encode.avro.schema import (
    Schemas,
    message_schemas,
    namespace_of,
    table_schemas,
    transaction_schemas,
)
from pgrelay.encode.boundaries import Boundaries
from pgrelay.encode.debezium import DebeziumJson
from pgrelay.encode.envelope import Envelope
from pgrelay.encode.flat import FlatJson, refuse_name_clashes
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Collection, Plan, RelationFacts, names_in_json
from pgrelay.encode.rows import RowWriter
from pgrelay.encode.topics import Topics
from pgrelay.wire.pgoutput import Relation


def envelope_of(options: RecordOptions) -> Envelope:
    if options.format == "avro":
        return DebeziumAvro(options) if options.envelope == "debezium" else FlatAvro()
    return DebeziumJson(options) if options.envelope == "debezium" else FlatJson()


def row_writer(options: RecordOptions) -> RowWriter:
    make = AvroRowWriter if options.format == "avro" else RowWriter
    return make(options.placeholder)


def json_keys(options: RecordOptions) -> JsonKeys | None:
    """Writes keys as JSON if records are not JSON; None if they are."""
    return JsonKeys(options) if options.format == "avro" else None


def boundaries_of(options: RecordOptions, topic: str) -> Boundaries | None:
    """Writes the transaction topic; None if there is none."""
    if not options.transactions:
        return None
    return AvroBoundaries(topic) if options.format == "avro" else Boundaries(topic)


def plan_of(relation: Relation, facts: RelationFacts, topics: Topics, options: RecordOptions) -> Plan:
    """Raises SetupError if the topic or a column's name is taken, or if a key would be hidden."""
    topic = topics.claim(relation.namespace, relation.name)
    if options.format == "avro":
        plan: Plan = AvroPlan(relation, facts, topic, options, namespace_of(relation, topic, options, topics))
    else:
        plan = Plan(relation, facts, topic, options)
    if options.envelope == "flat":
        refuse_name_clashes(plan, "field" if options.format == "avro" else "member")
    return plan


def messages_of(options: RecordOptions, topic: str) -> Collection:
    """The logical messages, which have neither schema nor table."""
    names_in = names_in_avro if options.format == "avro" else names_in_json
    return Collection("message", topic, names_in("", ""), options)


def schemas_of(plan: Plan, options: RecordOptions) -> Schemas | None:
    """The schemas to register before the plan's first record; None in JSON."""
    return table_schemas(plan, options) if isinstance(plan, AvroPlan) else None


def schemas_of_topic(topic: str, topics: Topics, options: RecordOptions) -> Schemas | None:
    """The same for the topic of logical messages or of transactions."""
    if options.format == "json":
        return None
    of_topic = message_schemas if topic == topics.message else transaction_schemas
    return of_topic(topic, options)
