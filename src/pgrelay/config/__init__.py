"""The configuration: parsed once from a YAML file and the environment, then passed down, never changed.

`load` is the only entry point for a file. It reports mistakes as one SetupError with one line for each: the
file (or the environment variable), the key, what is wrong and the cure. No line shows a secret.
"""

import os
from collections.abc import Mapping

from pgrelay.config.document import load_as
from pgrelay.config.environment import find_overrides
from pgrelay.config.model import Config, Errors, Http, Log, Records, SinkConfig, SourceConfig, Transactions

__all__ = ["Config", "Errors", "Http", "Log", "Records", "SinkConfig", "SourceConfig", "Transactions", "load"]


def load(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Config:
    """Read and validate a configuration file; apply substitutions and overrides from the environment.

    Raises SetupError: one line for each mistake.
    """
    overrides = find_overrides(environ, Config)
    return load_as(Config, path, environ, overrides, example="config.example.yaml")
