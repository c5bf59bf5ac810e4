"""The configuration's section `records`, as the objects that the pure rooms take."""

from pgrelay import __version__
from pgrelay.config import Config
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.options import DeadLetterOptions, RecordOptions
from pgrelay.encode.selection import Selection
from pgrelay.encode.topics import Topics
from pgrelay.postgres.catalog import Catalog


def topics_of(config: Config) -> Topics:
    """The names of topics: our own, and those of tables, none of which is claimed yet."""
    records = config.records
    routes = [(route.match, route.topic) for route in records.routes]
    return Topics(records.prefix, records.topic, routes)


def selection_of(config: Config) -> Selection:
    """The tables and columns that are relayed."""
    tables, columns = config.records.tables, config.records.columns
    return Selection(
        include=tables.include,
        exclude=tables.exclude,
        drop=columns.drop,
        mask=columns.mask,
        hash=columns.hash,
        mask_with=columns.mask_with,
        hash_key=(columns.hash_key or "").encode(),
    )


def encodings_of(config: Config, server_encoding: str, server_version: int) -> Encodings:
    """How values are encoded: as configured, and as the server requires."""
    records = config.records
    return Encodings(
        numeric=records.numeric,
        time=records.time,
        binary=records.binary,
        json=records.json_,
        # The server converts every encoding to UTF-8 except this one, about which it knows nothing.
        validate_utf8=server_encoding == "SQL_ASCII",
        server_transcodes=server_encoding not in ("UTF8", "SQL_ASCII"),
        padded_lsn=server_version >= 190000,
    )


def record_options(
    config: Config,
    catalog: Catalog,
    systemid: str,
    server_encoding: str,
    dead_letters: DeadLetterOptions | None,
) -> RecordOptions:
    """The encoder's options: what is configured, and what it must know about the server."""
    records = config.records
    return RecordOptions(
        version=__version__,
        prefix=records.prefix,
        database=catalog.database,
        systemid=systemid,
        format=records.format,
        envelope=records.envelope,
        key=records.key,
        tombstones=records.tombstones,
        transactions=records.transaction_topic,
        placeholder=records.unchanged == "placeholder",
        headers=records.headers,
        binary_values=config.source.binary,
        encodings=encodings_of(config, server_encoding, catalog.server_version),
        selection=selection_of(config),
        dead_letters=dead_letters,
    )
