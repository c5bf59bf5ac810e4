"""What a question to a running relay needs of its configuration: no secret among it."""

from pgrelay.config import fields
from pgrelay.config.model import Http
from pgrelay.config.section import Section


class _Slot(Section):
    slot: fields.SlotName = "pgrelay"


class Whereabouts(Section):
    """Where a relay listens, and the slot by which it is known."""

    source: _Slot = _Slot()
    http: Http = Http()

    @classmethod
    def has(cls, path: tuple[str, ...]) -> bool:
        """Whether `path`, a section and a key, is one of these."""
        return path in {("source", "slot"), ("http", "listen")}
