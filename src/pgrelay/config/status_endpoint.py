"""The part of a configuration that says where its relay can be asked: it holds no secret."""

from pgrelay.config import fields
from pgrelay.config.model import Http, SourceConfig
from pgrelay.config.section import Section


class _Slot(Section):
    slot: fields.SlotName = SourceConfig.model_fields["slot"].default


class StatusEndpoint(Section):
    """Where a relay listens, and the slot that identifies it."""

    source: _Slot = _Slot()
    http: Http = Http()
