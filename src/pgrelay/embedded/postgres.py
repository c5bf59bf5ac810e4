"""An embedded Postgres server, set up for logical decoding, that runs while its block does."""

import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from pgrelay.embedded.account import server_account, server_folder
from pgrelay.embedded.binaries import postgres_programs
from pgrelay.embedded.daemon import Daemon, StrPath, run_tool
from pgrelay.embedded.ports import reserved_ports

StopMode = Literal["smart", "fast", "immediate"]

_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

# These settings exist in every version since 10.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket's path is limited to about 100 bytes; our folders are longer
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_prepared_transactions": "20",
    "fsync": "off",  # the data survive a crash of the server, though not one of the machine
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
}
_SETTINGS_FILE = "pgrelay.conf"

_INITDB_OPTIONS = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")

_TIMEOUT = 60.0  # seconds to start, crash recovery included, or to stop


class Postgres:
    """A server of major version "10" to "18" on 127.0.0.1: superuser `postgres`, no password, UTF8, locale C.

    `directory` keeps the data after the block; without it they are deleted. `settings` override ours, and may
    be changed before a restart. `contrib` adds hstore, citext, ltree, test_decoding and more, but then psql
    and pgbench are missing. Entering the block sets the attributes; it raises Unavailable if the programs are
    not available, and ServerFailed if the server does not start.
    """

    port: int
    bin: Path  # the folder of the programs
    data: Path
    log: Path

    def __init__(
        self,
        directory: Path | None = None,
        *,
        version: str = "18",
        contrib: bool = False,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self.settings = dict(settings or {})
        self._contrib = contrib
        self._directory = directory
        self._port = port

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.bin = postgres_programs(self.version, contrib=self._contrib)
            self._account = server_account()
            folder = stack.enter_context(server_folder(self._directory, "postgres", self._account))
            [port] = stack.enter_context(reserved_ports(1))
            self.port = self._port or port
            self.data = folder / "data"
            self.log = folder / "postgres.log"
            self._daemon = Daemon(
                f"Postgres {self.version}", self.log, self._account, abort=_SIGNALS["immediate"]
            )
            if not self.data.exists():
                self._create_cluster()
            stack.callback(self._end)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def dsn(self) -> str:
        """The URI of the database `postgres`."""
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        """The URI of a database of this server."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str, **options: str) -> str:
        """Create a database, with options as in `create_database` below, and return its URI."""
        create_database(self.dsn, name, **options)
        return self.dsn_of(name)

    @property
    def running(self) -> bool:
        return self._daemon.running

    @property
    def pid(self) -> int | None:
        return self._daemon.pid

    def start(self) -> None:
        """Start the server with the current `settings`, and wait until it accepts connections."""
        settings = _SETTINGS | {"port": str(self.port)} | self.settings
        lines = [f"{key} = {_quoted(value)}\n" for key, value in settings.items()]
        settings_file = self.data / _SETTINGS_FILE
        settings_file.write_text("".join(lines))
        settings_file.chmod(0o644)  # we own it, and the server's account reads it
        self._daemon.start(
            [self.bin / "postgres", "-D", self.data],
            ready=self._is_ready,
            timeout=_TIMEOUT,
            cwd=self.data.parent,
        )

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server if it runs: `smart`, `fast` and `immediate` (a crash) are the modes of pg_ctl."""
        self._daemon.stop(_SIGNALS[mode], timeout=_TIMEOUT)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start the server, on the same port."""
        self.stop(mode)
        self.start()

    def _create_cluster(self) -> None:
        command: list[StrPath] = [self.bin / "initdb", "-D", self.data, *_INITDB_OPTIONS]
        run_tool(command, cwd=self.data.parent, account=self._account)
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"include '{_SETTINGS_FILE}'\n")

    def _is_ready(self) -> bool:
        """The check of `pg_ctl -w`: the file's first line is the server's PID, the eighth its state."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self._daemon.pid) and lines[7].strip() == "ready"

    def _end(self) -> None:
        # A clean stop waits for a slot's client, and data that are deleted anyway don't need one.
        self.stop("immediate" if self._directory is None else "fast")


def create_database(dsn: str, name: str, **options: str) -> None:
    """Create a database, with options of CREATE DATABASE: encoding="LATIN1", template="template0"."""
    clauses = [sql.SQL("{} = {}").format(sql.Identifier(key), value) for key, value in options.items()]
    statement = sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), sql.SQL(" ").join(clauses))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
