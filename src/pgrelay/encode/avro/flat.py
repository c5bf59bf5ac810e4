"""The flat envelope in Avro: the row's columns, then what a consumer needs to order and apply it."""

from librt.strings import BytesWriter

from pgrelay.encode.avro.body import NULL, PRESENT, boolean, long, string, write_long
from pgrelay.encode.avro.envelope import AvroEnvelope
from pgrelay.encode.avro.plan import AvroPlan
from pgrelay.encode.plan import Collection, Plan
from pgrelay.encode.records import DELETE, Unchanged


class FlatAvro(AvroEnvelope):
    """The fields of `flat.FlatJson`; `__unchanged` and `__truncate` are null if JSON leaves them out."""

    def __init__(self) -> None:
        super().__init__()
        self._commit_lsn: bytes = b""
        self._commit_ms: bytes = b""
        self._ops: dict[str, bytes] = {}

    def refresh(self) -> None:
        self._commit_lsn = long(self.commit_lsn)
        self._commit_ms = long(self.commit_us // 1000)

    def truncate(self, writer: BytesWriter, plan: Plan, cascade: bool, restart_identity: bool) -> None:
        assert isinstance(plan, AvroPlan)
        writer.write(plan.schema_header.value)
        no_row, nothing_unchanged = NULL * len(plan.fields), NULL
        writer.write(no_row + nothing_unchanged + PRESENT + boolean(cascade) + boolean(restart_identity))

    def close(
        self,
        writer: BytesWriter,
        collection: Collection,
        lsn: int,
        op: str,
        unchanged: Unchanged,
        place: bytes,
    ) -> None:
        self.write_after_rows(writer, unchanged)
        writer.write(self._op(op))
        writer.write(self._commit_lsn)
        write_long(writer, self.seq)
        writer.write(self._commit_ms)

    def _op(self, op: str) -> bytes:
        """`__op` and `__deleted`."""
        made = self._ops.get(op)
        if made is None:
            made = string(op) + boolean(op == DELETE)
            self._ops[op] = made
        return made
