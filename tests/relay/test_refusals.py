"""What is learnt from a refusal. No broker is there."""

from pgrelay.config import Config
from pgrelay.errors import RecordRefused
from pgrelay.relay.refusals import Refusals

SECTIONS = {
    "source": {"dsn": "host=127.0.0.1", "slot": "s"},
    "sink": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}},
    "records": {"prefix": "app"},
    "errors": {"on_record": "dead_letter"},
}


async def test_nothing_is_learnt_of_a_topic_that_is_not_known() -> None:
    assert not await Refusals(Config.model_validate(SECTIONS)).learn(RecordRefused("some record"))
