"""How many calls into Java something takes: each takes time, in every batch, and some are for each column."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import SparkSession

# What a column may take: a Column built call by call takes dozens.
A_COLUMN: Final = 15


@dataclass
class Calls:
    """The calls of a block."""

    count: int = 0


@contextmanager
def counted_calls(spark: SparkSession) -> Iterator[Calls]:
    """Counts the block's calls into Java, without those of Python's garbage collection."""
    client: Any = type(spark._jvm._gateway_client)  # type: ignore[union-attr]
    send, calls = client.send_command, Calls()

    def counting(self: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        calls.count += not command.startswith(MEMORY_COMMAND_NAME)
        return send(self, command, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "send_command", counting)
        yield calls
