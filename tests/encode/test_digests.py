"""The same bytes from both forms, compiled and interpreted, and whichever form the server sends values in."""

import json

import pytest

from pgrelay.wire.replication import HEADER_SIZE
from tests.encode.digests import FILE, OPTIONS_OF, SEED, digest
from tests.encode.stream import Stream


def test_the_stream_has_every_kind_of_message_that_leads_to_records() -> None:
    tags = {frame[HEADER_SIZE] for frame in Stream(SEED, False).fill() if frame.startswith(b"w")}
    assert bytes(sorted(tags)).decode() == "ABCDEIKMOPRSTUbc"


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("name", OPTIONS_OF)
def test_the_records_of_a_stream_are_what_they_were(name: str, binary: bool) -> None:
    assert digest(OPTIONS_OF[name], binary) == json.loads(FILE.read_text())[name]
