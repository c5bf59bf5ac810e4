"""Assemblers with a spool of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from tests.assembly.transactions import UNLIMITED


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path)


@pytest.fixture
def assembler(spool: Spool) -> Iterator[Assembler]:
    assembler = Assembler(spool, PreparedStore(spool), UNLIMITED)
    yield assembler
    assembler.close()


@pytest.fixture
def spilling(spool: Spool) -> Iterator[Assembler]:
    """An assembler that may hold nothing in memory."""
    assembler = Assembler(spool, PreparedStore(spool), 0)
    yield assembler
    assembler.close()
