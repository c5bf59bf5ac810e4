"""What a question to a running relay needs of its configuration: no secret among it."""

from pgrelay.config import fields
from pgrelay.config.model import Http, SourceConfig
from pgrelay.config.section import Section


class _Slot(Section):
    slot: fields.SlotName = SourceConfig.model_fields["slot"].default


class Whereabouts(Section):
    """Where a relay listens, and the slot by which it is known."""

    source: _Slot = _Slot()
    http: Http = Http()
