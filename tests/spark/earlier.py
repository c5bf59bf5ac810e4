"""What earlier sessions left in the warehouse: a Delta target, and one that was being created."""

import json
from pathlib import Path
from typing import Final

from pgrelay.spark.lake.applied_positions import AppliedPositions
from pgrelay.spark.lake.positions import positions_table
from pgrelay.spark.lake.tables import LakeTable

EARLIER: Final = "earlier.t"
UNMADE: Final = "unmade.t"


def leave_target(warehouse: Path) -> None:
    """Leave a target and its positions table, as a session does."""
    for name in ("t", "t__positions"):
        fields = [{"name": "id", "type": "integer", "nullable": True, "metadata": {}}]
        metadata: dict[str, object] = {
            "id": name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {"pgrelay.topic": "app.public.t"},
            "createdTime": 0,
        }
        protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        log = warehouse / "earlier.db" / name / "_delta_log"
        log.mkdir(parents=True)
        actions = [{"protocol": protocol}, {"metaData": metadata}]
        (log / f"{0:020}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def leave_unmade(warehouse: Path) -> None:
    """Leave what a CREATE TABLE leaves that is killed before its commit has its name."""
    log = warehouse / "unmade.db" / "t" / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    (log / f".{0:020}.json.1.tmp").touch()
    (log / f"..{0:020}.json.1.tmp.crc").touch()


def forget(target: LakeTable, topic: str) -> None:
    """Leave beside a target what a mirror of an earlier release does if it is killed in its first batch.

    It announced no commit.
    """
    positions_table(target).set_properties({"pgrelay.applied": AppliedPositions(topic).mark()})
