"""A key of hashes that is too short."""

from typing import Any

from pgrelay.check.hash_key import hash_key_findings
from pgrelay.config import Records


def records(**columns: Any) -> Records:
    return Records.model_validate({"columns": columns})


def test_a_short_key_is_a_warning_that_does_not_tell_it() -> None:
    (finding,) = hash_key_findings(records(hash=["a"], hash_key="pepper"))
    assert (finding.level, finding.what) == ("warning", "records.columns.hash_key has 6 bytes")
    assert "pepper" not in f"{finding}"


def test_a_long_key_and_none_that_is_needed_are_fine() -> None:
    assert hash_key_findings(records(hash=["a"], hash_key="x" * 16)) == []
    assert hash_key_findings(records()) == []
