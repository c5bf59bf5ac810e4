"""A streaming standby of an embedded server."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from pgrelay.embedded.account import server_account, server_folder
from pgrelay.embedded.binaries import postgres_programs
from pgrelay.embedded.daemon import run_tool
from pgrelay.embedded.postgres import Postgres

# The newest pg_basebackup, which the package of 18 has, speaks to older servers as well.
_TOOLS_OF = "18"

SLOT = "standby"


@contextmanager
def standby_of(primary: Postgres, slot: str = SLOT, **settings: str) -> Iterator[Postgres]:
    """A standby that streams through a physical slot of the primary, which it creates."""
    with psycopg.connect(primary.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot(%s)", [slot])
    account = server_account()
    with server_folder(None, "standby", account) as folder:
        run_tool(
            [
                postgres_programs(_TOOLS_OF, contrib=False) / "pg_basebackup",
                f"--pgdata={folder / 'data'}",
                f"--dbname={primary.dsn}",
                f"--slot={slot}",
                "--checkpoint=fast",
                "--no-sync",
            ],
            cwd=folder,
            account=account,
        )
        (folder / "data" / "standby.signal").touch()
        settings = {
            # pg_basebackup could write this, but the newest writes options that older servers don't know.
            "primary_conninfo": primary.dsn,
            "primary_slot_name": slot,
            "hot_standby_feedback": "on",
            **settings,
        }
        with Postgres(folder, version=primary.version, contrib=True, settings=settings) as standby:
            yield standby
            # A clean stop would wait for the standby's own readers.
            standby.stop("immediate")
