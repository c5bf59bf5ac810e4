"""The transaction topic in Avro, and each record's place in its transaction."""

from pgrelay.encode.avro.body import NULL, PRESENT, array, long, optional_long, sized, string
from pgrelay.encode.avro.names import utf8_safe
from pgrelay.encode.boundaries import Boundaries, transaction_id
from pgrelay.encode.envelope import Envelope


class AvroBoundaries(Boundaries):
    def _place(self, envelope: Envelope, order: int) -> bytes:
        return PRESENT + sized(transaction_id(envelope)) + long(envelope.seq + 1) + long(order)

    def _key(self, envelope: Envelope) -> bytes:
        return self.schema_header.key + sized(transaction_id(envelope))

    def _value(self, envelope: Envelope, status: str, counts: dict[str, int] | None) -> bytes:
        ends = NULL + NULL
        if counts is not None:
            items = [string(utf8_safe(name)) + long(count) for name, count in counts.items()]
            ends = optional_long(sum(counts.values())) + PRESENT + array(items)
        times = long(envelope.commit_us // 1000) + long(envelope.commit_lsn)
        return self.schema_header.value + string(status) + sized(transaction_id(envelope)) + ends + times
