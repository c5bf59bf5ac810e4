"""Servers of a test's own: for those that stop one, kill it, starve it or set it up badly.

`@own_postgres(max_slot_wal_keep_size="1MB")` gives the test a server with these settings, of the version that
it runs on; `@own_kafka(auto_create_topics_enable="true")` a broker. Fixtures `server` and `broker` are they.
"""

import pytest


def own_postgres(**settings: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("postgres", [settings], indirect=True, ids=["own"])


def own_kafka(**settings: str) -> pytest.MarkDecorator:
    """Dots in the names of settings are underscores here."""
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return pytest.mark.parametrize("kafka", [dotted], indirect=True, ids=["own"])
