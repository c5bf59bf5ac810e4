"""The configuration: parsed once from a YAML file and the environment, then passed down, never changed.

`load` is the only entry point for a file. It reports mistakes as one SetupError with one line for each: the
file (or the environment variable), the key, what is wrong and the cure. No line shows a secret.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pgrelay.config.document import load_as, read
from pgrelay.config.environment import find_overrides
from pgrelay.config.model import Config, Errors, Http, Log, Records, SinkConfig, SourceConfig, Transactions
from pgrelay.config.status_endpoint import StatusEndpoint

__all__ = [
    "Config",
    "Errors",
    "Http",
    "Log",
    "Records",
    "SinkConfig",
    "SourceConfig",
    "StatusEndpoint",
    "Transactions",
    "example",
    "load",
    "load_status_endpoint",
]

_EXAMPLE: Final = "config.example.yaml, which pgrelay example prints"


def example() -> str:
    """The text of config.example.yaml: every key, with its default where it has one."""
    here = Path(__file__)
    # Only an installed package has a copy; in a checkout the file itself is two folders above src/pgrelay.
    copy, original = here.with_name("example.yaml"), here.parents[3] / "config.example.yaml"
    return (copy if copy.exists() else original).read_text(encoding="utf-8")


def load(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Config:
    """Read and validate a configuration file; apply substitutions and overrides from the environment.

    Raises SetupError: one line for each mistake.
    """
    text = read(path, _EXAMPLE)
    overrides = find_overrides(environ, Config, text)
    return load_as(Config, path, text, environ, overrides, example=_EXAMPLE)


def load_status_endpoint(
    path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ
) -> StatusEndpoint:
    """Read where the relay of a configuration file listens; everything else may be missing, secrets included.

    Raises SetupError: one line for each mistake.
    """
    text = read(path, _EXAMPLE)
    overrides = find_overrides(environ, Config, text)
    return load_as(StatusEndpoint, path, text, environ, overrides, example=_EXAMPLE, ignore_unknown=True)
