"""A run logs the findings of a check once, but none about itself, such as its slot being in use."""

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay


def told(relay: Relay) -> list[str]:
    return [event["event"] for event in relay.log if event["event"].startswith("check: ")]


def test_a_run_logs_the_warning_and_cure_for_a_table_without_identity(
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
