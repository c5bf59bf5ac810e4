"""The flat envelope in Avro: the row's columns, then what a consumer needs to order and apply it."""

from librt.strings import BytesWriter

from pgrelay.encode.avro.body import NULL, PRESENT, array, boolean, long, string
from pgrelay.encode.avro.envelope import AvroEnvelope
from pgrelay.encode.avro.plan import AvroPlan
from pgrelay.encode.plan import Plan
from pgrelay.encode.records import DELETE, MESSAGE, TRUNCATE


class FlatAvro(AvroEnvelope):
    """The fields of `flat.FlatJson`; `__unchanged` and `__truncate` are null where JSON leaves them out."""

    def changed(self) -> None:
        """Nothing is kept."""

    def open_after(self, writer: BytesWriter, plan: Plan) -> None:
        writer.write(plan.opening.value)

    def open_before(self, writer: BytesWriter, plan: Plan) -> None:
        writer.write(plan.opening.value)

    def close_before(self, writer: BytesWriter) -> None:
        """There is no other row."""

    def both(self, writer: BytesWriter, plan: Plan, before: bytes, after: bytes) -> None:
        writer.write(plan.opening.value)
        writer.write(after)

    def truncate(self, writer: BytesWriter, plan: Plan, cascade: bool, restart_identity: bool) -> None:
        assert isinstance(plan, AvroPlan)
        writer.write(plan.opening.value)
        nothing_unchanged = NULL
        writer.write(plan.nulls + nothing_unchanged + PRESENT + boolean(cascade) + boolean(restart_identity))

    def close(
        self, writer: BytesWriter, plan: Plan | None, lsn: int, op: str, unchanged: list[bytes], place: bytes
    ) -> None:
        if op != TRUNCATE and op != MESSAGE:
            writer.write(PRESENT + array(unchanged) if unchanged else NULL)
            writer.write(NULL)
        writer.write(string(op) + boolean(op == DELETE))
        writer.write(long(self.commit_lsn) + long(self.seq) + long(self.commit_us // 1000))
