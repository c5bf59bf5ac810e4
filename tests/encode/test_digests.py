"""Compiled and interpreted code give the same bytes, from text and from binary values."""

import json

import pytest

from pgrelay.wire.replication import HEADER_SIZE
from tests.encode.digests import CHOICES, FILE, SEED, digest
from tests.encode.stream import Stream


def test_the_stream_has_every_kind_of_message_that_matters() -> None:
    tags = {frame[HEADER_SIZE] for frame in Stream(SEED, False).fill() if frame.startswith(b"w")}
    assert bytes(sorted(tags)).decode() == "ABCDEIKMOPRSTUbc"


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("name", CHOICES)
def test_the_records_of_a_stream_have_not_changed(name: str, binary: bool) -> None:
    assert digest(name, binary) == json.loads(FILE.read_text())[name]
