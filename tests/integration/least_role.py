"""The role of docs/security.md. Relays connect with it unless a test says otherwise."""

from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.integration.databases import Database
from tests.integration.documented import role_statements

_NAME = "pgrelay"
_PASSWORD = "least"  # only for servers that require one; ours trust this machine


def let_in(database: Database) -> str:
    """Create the role and give it access to the database; return its DSN."""
    create, grant, _ = role_statements(_PASSWORD)
    with database.connect() as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [_NAME]).fetchone() is None:
            connection.execute(create.encode())
        connection.execute(grant.replace(" app ", f" {_quoted(database.name)} ").encode())
    return make_conninfo(database.dsn, user=_NAME, password=_PASSWORD)


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()


def publish(database: Database) -> None:
    """Create the publication of all tables, unless the test has; the role itself may not create it."""
    with database.connect() as connection:
        if connection.execute("SELECT FROM pg_publication WHERE pubname = 'pgrelay'").fetchone() is None:
            connection.execute("CREATE PUBLICATION pgrelay FOR ALL TABLES")
