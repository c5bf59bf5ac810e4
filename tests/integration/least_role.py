"""The role of docs/security.md, by which relays connect wherever a test says nothing else."""

from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.integration.databases import Database
from tests.integration.documented import role_statements

_NAME = "pgrelay"
_PASSWORD = "least"  # asked for by servers that are set up so; ours trust this machine


def let_in(database: Database) -> str:
    """Has the role made and let into the database; returns the DSN by which it connects."""
    create, grant, _ = role_statements(_PASSWORD)
    with database.connect() as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [_NAME]).fetchone() is None:
            connection.execute(create.encode())
        connection.execute(grant.replace(" app ", f" {_quoted(database.name)} ").encode())
    return make_conninfo(database.dsn, user=_NAME, password=_PASSWORD)


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()


def publish(database: Database) -> None:
    """Makes the publication of all tables, which the role may not, unless the test has made one."""
    with database.connect() as connection:
        if connection.execute("SELECT FROM pg_publication WHERE pubname = 'pgrelay'").fetchone() is None:
            connection.execute("CREATE PUBLICATION pgrelay FOR ALL TABLES")
