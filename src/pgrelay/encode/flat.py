"""The flat envelope: only the row, and next to its columns what a consumer needs to order and apply it."""

from librt.strings import BytesWriter

from pgrelay.encode.envelope import JsonEnvelope
from pgrelay.encode.json_text import json_array, json_name
from pgrelay.encode.plan import Collection, Plan
from pgrelay.encode.records import DELETE, FLAT_NAMES, Unchanged
from pgrelay.errors import SetupError


def refuse_name_clashes(plan: Plan, what: str) -> None:
    """Raises SetupError if a column is named like a member of the envelope (in Avro a field: `what`)."""
    for column in plan.columns:
        if column.name in FLAT_NAMES and not column.dropped:
            raise SetupError(
                f"{plan.table}.{column.name}: the flat envelope has a {what} of that name; "
                "drop the column with records.columns.drop, or set records.envelope: debezium"
            )


class FlatJson(JsonEnvelope):
    """`__op`, `__deleted`, `__commit_lsn`, `__seq` and `__ts_ms` (the commit's time) follow the columns.

    The row of a delete is what the server sent of the old row. `__unchanged` is there only if columns are
    absent because their TOAST value was not sent.
    """

    def refresh(self) -> None:
        """Nothing is derived in advance."""

    def write_member(self, writer: BytesWriter, name: str, content: bytes) -> None:
        writer.write(b"{" + json_name("__" + name) + b":" + content + b"}")

    def close(
        self,
        writer: BytesWriter,
        collection: Collection,
        lsn: int,
        op: str,
        unchanged: Unchanged,
        place: bytes,
    ) -> None:
        # The row is a closed object: take its brace away, and add a comma if it has members.
        writer.truncate(len(writer) - 1)
        if len(writer) > 1:
            writer.write(b",")
        if unchanged:
            writer.write(b'"__unchanged":' + json_array(unchanged) + b",")
        writer.write(
            b'"__op":"%b","__deleted":%b,"__commit_lsn":%d,"__seq":%d,"__ts_ms":%d}'
            % (
                op.encode(),
                b"true" if op == DELETE else b"false",
                self.commit_lsn,
                self.seq,
                self.commit_us // 1000,
            )
        )
