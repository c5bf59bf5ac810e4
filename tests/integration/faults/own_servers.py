"""Servers for a single test, for tests that stop a server, kill it, starve it or misconfigure it.

`@own_postgres(max_slot_wal_keep_size="1MB")` gives the test its own server with these settings, of the test's
version; `@own_kafka(**{"auto.create.topics.enable": "true"})` its own broker. The fixtures `server` and
`broker` return them.
"""

import pytest


def own_postgres(**settings: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("postgres", [settings], indirect=True, ids=["own"])


def own_kafka(**settings: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kafka", [settings], indirect=True, ids=["own"])
