"""The configuration: parsed once from a YAML file and the environment, then passed down, never changed.

`load` is the only way in for a file. Mistakes are a SetupError with one line each: the file (or the
environment variable), the key, what is wrong and the cure. No line shows a secret.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from pgrelay.config import mistakes
from pgrelay.config.environment import Override, apply_overrides, find_overrides, substitute
from pgrelay.config.model import Config, Errors, Http, Log, Records, Sink, Source, Transactions
from pgrelay.config.yaml_document import Tree, parse_yaml
from pgrelay.errors import SetupError

__all__ = ["Config", "Errors", "Http", "Log", "Records", "Sink", "Source", "Transactions", "load"]


def load(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Config:
    """Read and validate a configuration file, with the environment's substitutions and overrides.

    Raises SetupError: one line for each mistake.
    """
    name = os.fspath(path)
    tree = _sections(parse_yaml(_read(name), name), name)
    overrides = find_overrides(environ, Config)
    apply_overrides(tree, overrides)
    # An override is text that the environment gave already: a ${ in it stands for itself.
    skip = frozenset(override.path for override in overrides)
    return _validate(substitute(tree, environ, name, skip), name, overrides)


def _read(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SetupError(f"{name}: no such file; begin with a copy of config.example.yaml") from None
    except IsADirectoryError:
        raise SetupError(f"{name}: is a directory; name the file in it") from None
    except OSError as error:
        raise SetupError(f"{name}: can't be read: {error.strerror}; check the file's rights") from None
    except UnicodeDecodeError:
        raise SetupError(f"{name}: is not UTF-8 text; save it as UTF-8") from None


def _sections(document: Tree, name: str) -> dict[str, Tree]:
    """The document as a mapping in which every section is there; one without keys has its defaults."""
    if document is None:
        raise SetupError(f"{name}: is empty; begin with a copy of config.example.yaml")
    if not isinstance(document, dict):
        raise SetupError(
            f"{name}: expected sections ({', '.join(Config.model_fields)}), each a mapping of keys"
        )
    for section in Config.model_fields:
        if document.get(section) is None:
            document[section] = {}
    return document


def _validate(tree: Tree, name: str, overrides: list[Override]) -> Config:
    variables = {override.path: override.variable for override in overrides}

    def place(path: tuple[str, ...]) -> str:
        """The variable that gave the key or what holds it, else the file."""
        given = (variables[path[:n]] for n in range(len(path), 0, -1) if path[:n] in variables)
        return next(given, name)

    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise SetupError("\n".join(mistakes.lines(error, Config, place))) from None
