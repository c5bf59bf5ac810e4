"""What the environment adds to the file: `${NAME}` in values, and variables that override keys.

Substitution: `${NAME}` is the variable's text, and the variable must be set; `${NAME:-default}` is the
default if the variable is unset or empty. The result is neither substituted again nor read as YAML.

Overrides: `PGRELAY_SOURCE__DSN` sets `source.dsn` to the variable's text, unchanged. If the key is a list or
a mapping, the variable is YAML and replaces all of it: `PGRELAY_SOURCE__TABLES=[public.orders]`. A third
level sets one entry of a mapping, with dots for underscores: `PGRELAY_SINK__KAFKA__BOOTSTRAP_SERVERS` sets
`bootstrap.servers`. A `PGRELAY_` variable without `__` is not an override; one that looks like a section, a
key or an entry (`PGRELAY_SOURCE_DSN`) is refused unless the file refers to it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, get_origin

from pydantic import BaseModel

from pgrelay.config.suggest import unknown_key
from pgrelay.config.yaml_document import Tree, parse_yaml
from pgrelay.errors import SetupError

_PREFIX: Final = "PGRELAY_"
_SEPARATOR: Final = "__"
# A default may contain anything except a closing brace or another reference.
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-((?:[^}$]|\$(?!\{))*))?\}")

_NOT_UTF8: Final = "contains bytes that are not UTF-8; write them as text, such as base64"

KeyPath = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Override:
    """A variable that sets one key: `path` is (section, key) or (section, key, entry)."""

    variable: str
    path: KeyPath
    value: Tree


def find_overrides(environ: Mapping[str, str], model: type[BaseModel], text: str = "") -> list[Override]:
    """Every override in the environment, outer keys before the entries inside them.

    `text` is that of the file. Raises SetupError naming the variables whose key `model` doesn't have.
    """
    found: list[Override] = []
    mistakes = _misspelled_overrides(environ, model, text)
    for variable in sorted(environ):
        if not (variable.startswith(_PREFIX) and _SEPARATOR in variable):
            continue
        try:
            found.append(_override(variable, environ[variable], model))
        except SetupError as error:
            mistakes.append(str(error))
    if mistakes:
        raise SetupError("\n".join(mistakes))
    return sorted(found, key=lambda override: len(override.path))


def _misspelled_overrides(environ: Mapping[str, str], model: type[BaseModel], text: str) -> list[str]:
    """A line for each variable that would set a key if its name had two underscores."""
    mistakes = []
    unused = sorted(environ.keys() - _names_in(text))
    for section, keys in _kinds(model).items():
        alone = _variable(section)
        if alone in unused:
            example = _variable(section, next(iter(keys)))
            mistakes.append(f"{alone}: overrides nothing; name a key of {section} too, such as {example}")
        for key, kind in keys.items():
            whole = f"{_PREFIX}{section}_{key}".upper()
            meant = _variable(section, key)
            for variable in unused:
                if variable == whole:
                    mistakes.append(f"{variable}: overrides nothing; write {meant} for {section}.{key}")
                elif _is_entry(variable, whole, kind):
                    entry = variable.removeprefix(f"{whole}_")
                    mistakes.append(
                        f"{variable}: overrides nothing; write {meant}{_SEPARATOR}{entry} for an entry of "
                        f"{section}.{key}"
                    )
    return mistakes


def _variable(*path: str) -> str:
    """The variable that overrides a key or an entry: `PGRELAY_SOURCE__DSN`."""
    return f"{_PREFIX}{_SEPARATOR.join(path)}".upper()


def _is_entry(variable: str, whole: str, kind: type) -> bool:
    """Whether a variable would set an entry of the mapping that `whole` would set."""
    if not variable.startswith(f"{whole}_") or _SEPARATOR in variable:
        return False
    entry = variable.removeprefix(f"{whole}_").lower()
    return kind is dict or (issubclass(kind, BaseModel) and entry in kind.model_fields)


def _names_in(text: str) -> set[str]:
    """All names in a text, among them those of the variables that it refers to."""
    return set(re.findall(r"\w+", text))


def _override(variable: str, text: str, model: type[BaseModel]) -> Override:
    path, kind = _target(variable, model)
    if not _is_text(text):
        raise SetupError(f"{variable}: {'.'.join(path[:2])}: {_NOT_UTF8}")
    return Override(variable, path, text if kind is str else parse_yaml(text, variable))


def _target(variable: str, model: type[BaseModel]) -> tuple[KeyPath, type]:
    """The path that a variable names, and the kind of value there, as in `_kinds`."""
    section, *rest = variable.removeprefix(_PREFIX).lower().split(_SEPARATOR, 2)
    if not rest:
        shape, example = _variable("section", "key"), _variable("source", "dsn")
        raise SetupError(f"{variable}: names no key; write {shape}, such as {example}")
    key, *entries = rest
    kinds = _kinds(model)
    kind = _look_up(variable, (section, key), _look_up(variable, (section,), kinds))
    if not entries:
        return (section, key), kind
    [entry] = entries
    if issubclass(kind, BaseModel):
        path = section, key, entry
        return path, _kind(_look_up(variable, path, kind.model_fields).annotation)
    if kind is not dict:
        whole = _variable(section, key)
        raise SetupError(f"{variable}: {section}.{key}: has no keys of its own; set {whole}")
    if _SEPARATOR in entry:
        meant = _variable(section, key, re.sub("_+", "_", entry))
        raise SetupError(f"{variable}: {section}.{key}: one underscore stands for a dot; write {meant}")
    return (section, key, entry.replace("_", ".")), str


def _look_up(variable: str, path: KeyPath, choices: Mapping[str, T]) -> T:
    """The choice that the last name of `path` names. Raises SetupError if it names none."""
    if path[-1] not in choices:
        raise SetupError(f"{variable}: {'.'.join(path)}: {unknown_key(path[-1], list(choices))}")
    return choices[path[-1]]


def _kinds(model: type[BaseModel]) -> dict[str, dict[str, type]]:
    """section -> key -> dict, tuple or a model if the key holds a mapping, a list or keys, else str."""
    kinds: dict[str, dict[str, type]] = {}
    for section, field in model.model_fields.items():
        assert isinstance(field.annotation, type)
        assert issubclass(field.annotation, BaseModel)
        kinds[section] = {
            inner.alias or name: _kind(inner.annotation)
            for name, inner in field.annotation.model_fields.items()
        }
    return kinds


def _kind(annotation: object) -> type:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    origin = get_origin(annotation)
    return origin if origin in (dict, tuple) else str


def apply_overrides(tree: dict[str, Tree], overrides: Sequence[Override]) -> None:
    """Put each override's value in its place in `tree`, and create missing levels above it."""
    for override in overrides:
        *above, last = override.path
        level = tree
        for name in above:
            below = level.get(name)
            if below is None:
                below = level[name] = {}
            if not isinstance(below, dict):
                break  # not a mapping in the file: validation says so
            level = below
        else:
            level[last] = override.value


def substitute(tree: Tree, environ: Mapping[str, str], origin: str, skip: frozenset[KeyPath]) -> Tree:
    """`tree` with the references in its values replaced, except at the paths in `skip`.

    Raises SetupError with a line for each reference that can't be resolved: the key and what is wrong.
    """
    mistakes: list[str] = []

    def walk(node: Tree, path: KeyPath) -> Tree:
        if path in skip:
            return node
        if isinstance(node, dict):
            return {name: walk(value, (*path, name)) for name, value in node.items()}
        if isinstance(node, list):
            return [walk(item, path) for item in node]
        if node is None or "${" not in node:
            return node
        mistakes.extend(f"{origin}: {'.'.join(path)}: {text}" for text in _bad_references(node, environ))
        return _REFERENCE.sub(lambda match: environ.get(match[1]) or match[3] or "", node)

    replaced = walk(tree, ())
    if mistakes:
        raise SetupError("\n".join(mistakes))
    return replaced


def _bad_references(value: str, environ: Mapping[str, str]) -> list[str]:
    """What is wrong with the references in one value; the value itself is not quoted, as it may be secret."""
    if "${" in _REFERENCE.sub(" ", value):
        return [
            "contains a ${ without a variable's name, or a nested one; write ${NAME} or ${NAME:-default}, "
            "or put all of the value into a variable if it is meant as it stands"
        ]
    names = [(match[1], match[2]) for match in _REFERENCE.finditer(value)]
    return [
        f"{name} is not set in the environment; set it, or write ${{{name}:-default}}"
        for name, default in names
        if name not in environ and default is None
    ] + [f"{name} {_NOT_UTF8}" for name, _ in names if not _is_text(environ.get(name, ""))]


def _is_text(value: str) -> bool:
    """Whether a variable's bytes were UTF-8: Python decodes other bytes to lone surrogates."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
