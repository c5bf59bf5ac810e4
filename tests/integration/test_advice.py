"""A run tells in its log what a check finds: what would hurt it later, once, and never what it is itself."""

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay


def told(relay: Relay) -> list[str]:
    return [event["event"] for event in relay.log if event["event"].startswith("check: ")]


def test_a_table_whose_updates_would_fail_is_named_with_the_cure(
    database: Database, new_relay: NewRelay
) -> None:
    database.execute("CREATE TABLE log (line text)")
    relay = new_relay().start().wait_streaming()
    relay.wait_for(lambda: any("public.log" in event for event in told(relay)), "the advice")
    assert relay.stop() == 0
    (advice,) = [event for event in relay.log if "public.log" in event["event"]]
    assert advice["level"] == "warning"
    assert "REPLICA IDENTITY" in advice["cure"]
    assert not [event for event in told(relay) if "in use" in event]
