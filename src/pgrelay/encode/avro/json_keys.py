"""A row's key as JSON if records are Avro: if a key changes, headers have the other key in JSON."""

from librt.strings import BytesWriter

from pgrelay.encode.avro.plan import AvroPlan
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Plan
from pgrelay.encode.rows import OldValue, RowWriter


class JsonKeys:
    """Encodes keys a second time, only for changes of the key, which are few."""

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        self._row = RowWriter(options.placeholder)
        self._rest = BytesWriter()

    def of_update(self, plan: Plan, frame: bytes, pos: int) -> tuple[bytes, bytes]:
        """The old and the new key of an update whose old row's TupleData starts at `pos`."""
        assert isinstance(plan, AvroPlan)
        plan_in_json = plan.in_json(self._options)
        old: list[OldValue | None] = []
        self._rest.truncate(0)
        pos = self._row.write(self._rest, plan_in_json, frame, pos, key_only=True, keep=old)
        old_key = self._row.key.getvalue()
        # After the byte that says that the new row follows.
        self._row.write(self._rest, plan_in_json, frame, pos + 1, key_only=True, old=old)
        return old_key, self._row.key.getvalue()
