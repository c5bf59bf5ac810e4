"""What a configuration sets beyond the defaults."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from pgrelay.config.model import Config


def without_defaults(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a configuration, in the form of `Config.masked`, whose value is not the default."""
    changed: dict[str, Any] = {}
    for section, values in shown.items():
        field = Config.model_fields.get(section)
        if field is None:  # of another version of pgrelay
            changed[section] = values
            continue
        assert isinstance(field.annotation, type)
        assert issubclass(field.annotation, BaseModel)
        defaults = {
            key.alias or name: to_jsonable_python(key.get_default(call_default_factory=True), by_alias=True)
            for name, key in field.annotation.model_fields.items()
            if not key.is_required()
        }
        kept = {
            name: value for name, value in values.items() if name not in defaults or value != defaults[name]
        }
        if kept:
            changed[section] = kept
    return changed
