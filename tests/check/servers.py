"""A healthy server, which tests then change for the worse."""

from dataclasses import replace
from typing import Any

from pgrelay.check.queries import ServerFacts
from pgrelay.config import SourceConfig
from pgrelay.postgres.wal_level import WalLevel

HEALTHY = ServerFacts(
    version=180004,
    name="18.4",
    database="shop",
    role="relay",
    superuser=False,
    may_create=True,
    encoding="UTF8",
    wal_level=WalLevel("logical"),
    max_slots=10,
    slots=1,
    unread_slots=(),
    max_senders=10,
    senders=1,
    keep_bytes=None,
    idle_timeout_s=0,
)

STANDBY = WalLevel("logical", standby=True)


def server(**changes: Any) -> ServerFacts:
    return replace(HEALTHY, **changes)


def source(**keys: Any) -> SourceConfig:
    return SourceConfig(dsn="", **keys)
