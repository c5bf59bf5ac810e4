"""Servers of a test's own: for those that stop one, kill it, starve it or set it up badly.

`@own_postgres(max_slot_wal_keep_size="1MB")` gives the test a server with these settings, of the version that
it runs on; `@own_kafka(**{"auto.create.topics.enable": "true"})` a broker. The fixtures `server` and `broker`
are the two.
"""

import pytest


def own_postgres(**settings: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("postgres", [settings], indirect=True, ids=["own"])


def own_kafka(**settings: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kafka", [settings], indirect=True, ids=["own"])
