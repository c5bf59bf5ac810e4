"""The first byte of each message of pgoutput.

Source: PostgreSQL manual, "Logical Replication Message Formats".
"""

from typing import Final

BEGIN: Final = ord("B")
COMMIT: Final = ord("C")
ORIGIN: Final = ord("O")
RELATION: Final = ord("R")
TYPE: Final = ord("Y")
INSERT: Final = ord("I")
UPDATE: Final = ord("U")
DELETE: Final = ord("D")
TRUNCATE: Final = ord("T")
MESSAGE: Final = ord("M")
STREAM_START: Final = ord("S")
STREAM_STOP: Final = ord("E")
STREAM_COMMIT: Final = ord("c")
STREAM_ABORT: Final = ord("A")
BEGIN_PREPARE: Final = ord("b")
PREPARE: Final = ord("P")
COMMIT_PREPARED: Final = ord("K")
ROLLBACK_PREPARED: Final = ord("r")
STREAM_PREPARE: Final = ord("p")

# Sets of tags: changes of a row, descriptions of relations and types, and what the assembler keeps in order
# within a transaction, which is all changes and Origin.
ROWS: Final = b"IUD"
SCHEMA: Final = b"RY"
CHANGES: Final = b"IUDTMO"
