"""Opens connections to Postgres, for the stream and for queries, with our session settings."""

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgrelay.errors import SetupError, SourceUnavailable
from pgrelay.postgres.errors import connection_error, one_line

# Whatever role, database, dsn or environment say, values are printed in one way (manual, "Client Connection
# Defaults"). These are set in the walsender's session, too, because that is where pgoutput prints.
_PINNED: Final[Mapping[str, str]] = {
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "lc_monetary": "C",
    "quote_all_identifiers": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    # Otherwise CREATE PUBLICATION could be refused.
    "default_transaction_read_only": "off",
}
# Since PostgreSQL 14 and 17. Decoding itself runs in a transaction, which lasts for as long as Kafka is slow.
_UNLIMITED: Final = "'idle_session_timeout', 'transaction_timeout'"
PIN: Final = "SELECT {}, count(set_config(name, '0', false)) FROM pg_settings WHERE name IN ({})".format(
    ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _PINNED.items()), _UNLIMITED
)

# Run before any other statement. A hot standby refuses every query of a serializable session. And functions
# in users' schemas might match a call better than the server's own, and would run with our rights.
_FIRST: Final = (
    "SET default_transaction_isolation TO 'read committed'",
    "SET search_path TO pg_catalog",
)

# When the server was started, in microseconds since 1970: it differs between two servers of a cluster.
STARTED_US: Final = "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"

_CONNECT_TIMEOUT_S: Final = 10
# How long the first answer may take after the connection is established.
_ANSWER_TIMEOUT_S: Final = 10.0
# How long what we send may go without a TCP acknowledgement. The default is a quarter of an hour, and nothing
# else would show that the network swallows only the stream.
_UNACKNOWLEDGED_MS: Final = 60_000


async def connect(dsn: str, **extra: str) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    """An autocommit connection with our session settings and only pg_catalog in its search_path.

    Raises SourceUnavailable, or SetupError if the server refuses us.
    """
    given = conninfo_to_dict(dsn)
    if not (given.get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT")):
        extra["connect_timeout"] = str(_CONNECT_TIMEOUT_S)
    if not given.get("tcp_user_timeout"):
        extra["tcp_user_timeout"] = str(_UNACKNOWLEDGED_MS)
    options = make_conninfo(dsn, client_encoding="UTF8", fallback_application_name="pgrelay", **extra)
    try:
        connection = await psycopg.AsyncConnection.connect(options, autocommit=True)
        await _pin(connection)
    except psycopg.Error as error:
        raise connection_error(error, dsn) from error
    except UnicodeError as error:
        # A host name that can't be encoded for a look-up. One in the configuration was refused before.
        raise SetupError(f"invalid host name: {one_line(error)}; correct PGHOST") from error
    return connection


async def _pin(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
    """Pin the session's settings, or close it. Raises SourceUnavailable if the server does not answer."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(_ANSWER_TIMEOUT_S, hang_up, connection)
    try:
        for statement in _FIRST:
            await connection.execute(statement)
        await connection.execute(PIN)
    except BaseException as error:
        await connection.close()
        if isinstance(error, psycopg.OperationalError) and loop.time() >= timer.when():
            text = f"Postgres has let us in, but has not answered for {_ANSWER_TIMEOUT_S:g} s"
            raise SourceUnavailable(text) from error
        raise
    finally:
        timer.cancel()


def hang_up(connection: psycopg.AsyncConnection[Any]) -> None:
    """Shut the socket down, to end the wait for an answer that does not come.

    Cancelling psycopg's query would not help: it asks the server to cancel, and waits for an answer again.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)
