"""Turn pydantic's errors into lines for the operator: which key, what is wrong with it, and the cure."""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pgrelay.config.environment import KeyPath
from pgrelay.config.secrets import is_secret, mask_text
from pgrelay.config.suggest import unknown_key
from pgrelay.printable import printable

_LONGEST_SHOWN: Final = 60

_EXPECTED: Final[Mapping[str, str]] = {
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "switch": "true or false",
    "tuple_type": "a list, such as [a, b]",
    "list_type": "a list, such as [a, b]",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "path_type": "a path",
    "greater_than_equal": "{ge:g} or more",
    "less_than_equal": "{le} or less",
    "greater_than": "more than {gt:g}",
    "too_short": "at least {min_length} entry",
    "literal_error": "{expected}",
}
_SECTIONS: Final = frozenset({"dict_type", "model_type"})


def lines(error: ValidationError, model: type[BaseModel], place: Callable[[KeyPath], str]) -> list[str]:
    """One line for each mistake. `place` gives the file or variable that a key's value came from."""
    return [
        f"{place(_path(details))}: {_key(details)}{_fault(details, model)}"
        for details in error.errors(include_url=False)
        if not _is_consequence(details)
    ]


def _is_consequence(details: ErrorDetails) -> bool:
    """Whether a list counts as too short only because its entries are invalid; those have their own lines."""
    return details["type"] == "too_short" and bool(details["input"])


def _path(details: ErrorDetails) -> KeyPath:
    return tuple(str(part) for part in details["loc"])


def _key(details: ErrorDetails) -> str:
    """The key as users write it, up to the colon: `source.tables[1]: `."""
    shown = ""
    for part in details["loc"]:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            # A key may contain anything: line breaks, and a whole `sasl.password:hunter2` without the space.
            shown += f".{printable(mask_text(part))}"
    return f"{shown.lstrip('.')}: "


def _fault(details: ErrorDetails, model: type[BaseModel]) -> str:
    path = _path(details)
    kind = details["type"]
    context: dict[str, Any] = details.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(path[-1], _known(model, path[:-1]))
    if kind == "missing":
        return f"missing; set it to {_description(model, path)}"
    if kind == "value_error":
        return str(context["error"])
    if kind in _SECTIONS and isinstance(details["input"], str):
        # The text may be meant for one of its keys: a connection string, a password.
        return f"got text; write {_EXPECTED[kind]}"
    if kind in _EXPECTED:
        expected = _EXPECTED[kind].format_map(context).replace("'", "")
        return f"got {_shown(details['input'], path)}; write {expected}"
    return details["msg"]


def _shown(value: object, path: KeyPath) -> str:
    """The rejected value, shortened; not shown at all if it may be a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if path[-1] == "dsn" or is_secret(path[-1]):
        return "a value that is not shown here"
    text = mask_text(str(value))
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "...")


def _inner(model: type[BaseModel], path: KeyPath) -> type[BaseModel]:
    for name in path:
        if name.isdigit():
            continue  # an index: the list's name has already led to the model of its elements
        annotation = model.model_fields[name].annotation
        annotation = next(iter(get_args(annotation)), annotation)
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        model = annotation
    return model


def _known(model: type[BaseModel], path: KeyPath) -> list[str]:
    return [field.alias or name for name, field in _inner(model, path).model_fields.items()]


def _description(model: type[BaseModel], path: KeyPath) -> str:
    return str(_inner(model, path[:-1]).model_fields[path[-1]].description)
