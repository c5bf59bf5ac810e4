"""Whether the server can serve the stream: its version, settings, and free slots and WAL senders."""

from pgrelay.check.findings import Finding, error, first_few, ok, refusal_finding, warning
from pgrelay.check.queries import ServerFacts
from pgrelay.config import SourceConfig
from pgrelay.errors import SetupError
from pgrelay.postgres.negotiation import stream_options


def server_findings(server: ServerFacts, config: SourceConfig, slot_exists: bool) -> list[Finding]:
    return [
        ok(f"Postgres {server.name}, database {server.database}, role {server.role}"),
        negotiated(server, config),
        *standby(server),
        wal_level(server),
        *free_slots(server, config, slot_exists),
        free_senders(server),
        *encoding(server),
    ]


def negotiated(server: ServerFacts, config: SourceConfig) -> Finding:
    try:
        options = stream_options(config, server.version)
    except SetupError as refusal:
        return refusal_finding(refusal, "a run stops before it streams")
    chosen = [f"streaming {options.streaming}", f"{'binary' if options.binary else 'text'} values"]
    chosen += ["messages"] if options.messages else []
    chosen += ["two-phase"] if options.two_phase else []
    return ok(f"protocol version {options.proto_version}: {', '.join(chosen)}")


def standby(server: ServerFacts) -> list[Finding]:
    if not server.standby:
        return []
    cure = "point source.dsn at the primary"
    if server.version < 160000:
        return [error("the server is a standby", "before Postgres 16 a standby can't decode", cure)]
    why = "the stream pauses while the primary is away; publications can only be created on the primary"
    return [warning("the server is a standby", why, f"{cure}, if that is not intended")]


def wal_level(server: ServerFacts) -> Finding:
    level = server.wal_level
    if level.suffices:
        return ok(str(level))
    return error(str(level), "below logical, the WAL lacks what logical replication needs", level.cure)


def free_slots(server: ServerFacts, config: SourceConfig, slot_exists: bool) -> list[Finding]:
    """Only matters if a run must still create the slot."""
    if slot_exists or not config.create:
        return []
    free = server.max_slots - server.slots
    if free > 0:
        return [ok(f"{free} of {server.max_slots} replication slots are free")]
    cure = f"ALTER SYSTEM SET max_replication_slots = {server.max_slots + 10}; then restart Postgres"
    if server.unread_slots:
        unread = first_few(server.unread_slots)
        cure += f"; or SELECT pg_drop_replication_slot('...') for one that nobody reads: {unread}"
    return [
        error(
            f"all {server.max_slots} replication slots are taken",
            f"slot {config.slot} can't be created",
            cure,
        )
    ]


def free_senders(server: ServerFacts) -> Finding:
    """Warn before all senders are in use; after that, the replication connection is refused."""
    free = server.max_senders - server.senders
    if free > 1 or server.max_senders == 0:
        return ok(f"{max(free, 0)} of {server.max_senders} WAL senders are free")
    return warning(
        f"{server.senders} of {server.max_senders} WAL senders are in use",
        "each replica, backup and relay needs one; when all are in use, Postgres refuses the next",
        f"ALTER SYSTEM SET max_wal_senders = {server.max_senders + 10}; then restart Postgres",
    )


def encoding(server: ServerFacts) -> list[Finding]:
    if server.encoding != "SQL_ASCII":
        return []
    return [
        warning(
            f"the encoding of database {server.database} is SQL_ASCII",
            "Postgres does not validate text there, and a value that is not UTF-8 stops the relay",
            "move the data to a database created with ENCODING 'UTF8'",
        )
    ]
