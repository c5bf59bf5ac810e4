"""Read a configuration file into a model: parse, substitute, validate; report one line for each mistake."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from pgrelay.config import mistakes
from pgrelay.config.environment import Override, apply_overrides, substitute
from pgrelay.config.yaml_document import Tree, parse_yaml
from pgrelay.errors import SetupError

Model = TypeVar("Model", bound=BaseModel)


def load_as(
    model: type[Model],
    path: str | os.PathLike[str],
    text: str,
    environ: Mapping[str, str],
    overrides: Sequence[Override] = (),
    *,
    example: str,
    ignore_unknown: bool = False,
) -> Model:
    """Validate the text of a file of sections, each a mapping of keys. Errors name `example` as a template.

    `ignore_unknown`: ignore sections and keys that `model` does not have. Raises SetupError: one line for
    each mistake.
    """
    name = os.fspath(path)
    tree = _sections(parse_yaml(text, name), name, model, example)
    apply_overrides(tree, overrides)
    if ignore_unknown:
        tree = _known_part(tree, model)
    # An override's value already comes from the environment, so a ${ in it is literal.
    skip = frozenset(override.path for override in overrides)
    return _validate(model, substitute(tree, environ, name, skip), name, overrides)


def read(path: str | os.PathLike[str], example: str) -> str:
    """The file's text. Raises SetupError, one line, if it can't be read."""
    name = os.fspath(path)
    if not name:
        raise SetupError("the name of the configuration file is empty; write --config relay.yaml")
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SetupError(f"{name}: no such file; begin with a copy of {example}") from None
    except IsADirectoryError:
        raise SetupError(f"{name}: is a directory; name the file in it") from None
    except OSError as error:
        raise SetupError(f"{name}: can't be read: {error.strerror}; check its permissions") from None
    except UnicodeDecodeError:
        raise SetupError(f"{name}: is not UTF-8 text; save it as UTF-8") from None


def _sections(document: Tree, name: str, model: type[BaseModel], example: str) -> dict[str, Tree]:
    """The document as a mapping with every section; a missing one is empty, so its keys have defaults."""
    if document is None:
        raise SetupError(f"{name}: is empty; begin with a copy of {example}")
    if not isinstance(document, dict):
        raise SetupError(
            f"{name}: has no sections; write {', '.join(model.model_fields)}, each a mapping of keys"
        )
    for section in model.model_fields:
        if document.get(section) is None:
            document[section] = {}
    return document


def _known_part(tree: dict[str, Tree], model: type[BaseModel]) -> dict[str, Tree]:
    """Those sections and keys of the document that the model has."""
    part: dict[str, Tree] = {}
    for section, field in model.model_fields.items():
        keys = tree[section]
        assert isinstance(field.annotation, type)
        assert issubclass(field.annotation, BaseModel)
        known = field.annotation.model_fields
        part[section] = (
            {name: keys[name] for name in keys.keys() & known.keys()} if isinstance(keys, dict) else keys
        )
    return part


def _validate(model: type[Model], tree: Tree, name: str, overrides: Sequence[Override]) -> Model:
    variables = {override.path: override.variable for override in overrides}

    def place(path: tuple[str, ...]) -> str:
        """The variable that set the key or a mapping around it, else the file."""
        given = (variables[path[:n]] for n in range(len(path), 0, -1) if path[:n] in variables)
        return next(given, name)

    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise SetupError("\n".join(mistakes.lines(error, model, place))) from None
