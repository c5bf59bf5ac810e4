"""What a check asks about the server as a whole: its settings, its slots, and its open transactions."""

from dataclasses import dataclass
from typing import Final

from psycopg import sql

from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.wal_level import WalLevel, wal_level

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server and our role there.

    `keep_bytes` is max_slot_wal_keep_size, None if there is no limit; `idle_timeout_s` is
    idle_replication_slot_timeout, 0 if there is none.
    """

    version: int
    name: str
    database: str
    role: str
    superuser: bool
    may_create: bool
    encoding: str
    wal_level: WalLevel
    max_slots: int
    slots: int
    unread_slots: tuple[str, ...]
    max_senders: int
    senders: int
    keep_bytes: int | None
    idle_timeout_s: int

    @property
    def standby(self) -> bool:
        return self.wal_level.standby


@dataclass(frozen=True, slots=True)
class OldestTransaction:
    """The oldest transaction that has written, and how to end it."""

    owner: str
    age_s: float
    end: str


async def server_facts(catalog: Catalog) -> ServerFacts:
    query = sql.SQL(
        "SELECT current_setting('server_version'), current_user::text, r.rolsuper, "
        "has_database_privilege(current_database(), 'CREATE'), current_setting('server_encoding'), "
        "current_setting('max_replication_slots')::int, current_setting('max_wal_senders')::int, "
        "(SELECT count(*)::int FROM pg_stat_replication), "
        "(SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size'), "
        "(SELECT setting::int FROM pg_settings WHERE name = 'idle_replication_slot_timeout') "
        "FROM pg_roles r WHERE r.rolname = current_user"
    )
    row = (await catalog.rows(query))[0]
    name, role, superuser, may_create, encoding, slots, senders, used, keep, idle = row
    held = await catalog.rows(sql.SQL("SELECT slot_name, active FROM pg_replication_slots ORDER BY 1"))
    return ServerFacts(
        version=catalog.server_version,
        name=name.partition(" ")[0],
        database=catalog.database,
        role=role,
        superuser=superuser,
        may_create=may_create,
        encoding=encoding,
        wal_level=await wal_level(catalog),
        max_slots=slots,
        slots=len(held),
        unread_slots=tuple(slot for slot, active in held if not active),
        max_senders=senders,
        senders=used,
        keep_bytes=None if keep is None or keep < 0 else keep * _MIB,
        idle_timeout_s=idle or 0,
    )


async def slot_reader(catalog: Catalog, pid: int) -> str:
    """Who a process is: `pgrelay from 10.0.0.7`; empty if it has gone."""
    query = sql.SQL(
        "SELECT application_name, coalesce(host(client_addr), 'the server itself') "
        "FROM pg_stat_activity WHERE pid = %s"
    )
    rows = await catalog.rows(query, (pid,))
    return f"{rows[0][0] or 'an unnamed program'} from {rows[0][1]}" if rows else ""


async def oldest_transaction(catalog: Catalog) -> OldestTransaction | None:
    """The oldest transaction of the whole cluster that has written, including prepared ones."""
    # As bytes, which a UTF8 server sends unconverted: names of other databases may be in another encoding.
    query = sql.SQL(
        "SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::float8, textsend(application_name), "
        "NULL FROM pg_stat_activity "
        "WHERE backend_xid IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid() "
        "UNION ALL "
        "SELECT NULL, extract(epoch FROM clock_timestamp() - prepared)::float8, textsend(database::text), "
        "textsend(gid) FROM pg_prepared_xacts ORDER BY 2 DESC LIMIT 1"
    )
    rows = await catalog.rows(query)
    if not rows:
        return None
    pid, age_s, *names = rows[0]
    of, gid = (name if name is None else name.decode(errors="replace") for name in names)
    if pid is None:
        quoted = sql.Literal(gid).as_string()
        return OldestTransaction(
            f"prepared transaction {quoted} of database {of}",
            age_s,
            f"COMMIT PREPARED {quoted} or ROLLBACK PREPARED {quoted}, in that database",
        )
    return OldestTransaction(
        f"PID {pid} ({of or 'no name'})", age_s, f"end it, or SELECT pg_terminate_backend({pid})"
    )


async def missing_standbys(catalog: Catalog) -> list[str]:
    """The slots of synchronized_standby_slots that no standby reads now."""
    if catalog.server_version < 170000:
        return []
    # The setting is a list of identifiers, and the names of slots have no upper case.
    query = sql.SQL(
        "SELECT name FROM (SELECT lower(btrim(listed, ' \"')) AS name "
        "FROM regexp_split_to_table(current_setting('synchronized_standby_slots'), ',') AS listed) AS names "
        "WHERE name <> '' AND NOT EXISTS (SELECT FROM pg_replication_slots "
        "WHERE slot_name = name AND slot_type = 'physical' AND active) ORDER BY 1"
    )
    return [name for (name,) in await catalog.rows(query)]
