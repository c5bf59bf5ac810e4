"""The configuration: parsed once from a YAML file and the environment, then passed down, never changed.

`load` is the only entry point for a file. It reports mistakes as one SetupError with one line for each: the
file (or the environment variable), the key, what is wrong and the cure. No line shows a secret.
"""

import os
from collections.abc import Mapping
from typing import Final

from pgrelay.config.document import load_as, read
from pgrelay.config.environment import find_overrides
from pgrelay.config.model import Config, Errors, Http, Log, Records, SinkConfig, SourceConfig, Transactions
from pgrelay.config.whereabouts import Whereabouts

__all__ = [
    "Config",
    "Errors",
    "Http",
    "Log",
    "Records",
    "SinkConfig",
    "SourceConfig",
    "Transactions",
    "Whereabouts",
    "load",
    "load_whereabouts",
]

_EXAMPLE: Final = "config.example.yaml"


def load(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Config:
    """Read and validate a configuration file; apply substitutions and overrides from the environment.

    Raises SetupError: one line for each mistake.
    """
    text = read(path, _EXAMPLE)
    overrides = find_overrides(environ, Config, text)
    return load_as(Config, path, text, environ, overrides, example=_EXAMPLE)


def load_whereabouts(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Whereabouts:
    """Read where the relay of a configuration file listens; the rest, with its secrets, may be missing.

    Raises SetupError: one line for each mistake.
    """
    text = read(path, _EXAMPLE)
    overrides = find_overrides(environ, Config, text)
    return load_as(Whereabouts, path, text, environ, overrides, example=_EXAMPLE, partly=True)
