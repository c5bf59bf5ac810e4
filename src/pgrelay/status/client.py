"""Fetches the status of a running relay."""

import json
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from pgrelay.config import StatusEndpoint
from pgrelay.errors import SetupError
from pgrelay.status.listening import format_address

_TIMEOUT_S: Final = 10.0

# A relay that listens on every address is asked on the loopback address.
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def ask(config: StatusEndpoint, file: str) -> dict[str, Any]:
    """The answer of /status at `http.listen`; errors name the configuration `file`.

    Raises SetupError if nothing answers, or something other than this configuration's relay.
    """
    if config.http.address is None:
        raise SetupError(
            f"{file}: http.listen is null, so the relay has no status server; set it, and restart the relay"
        )
    host, port = config.http.address
    if port == 0:
        raise SetupError(
            f"{file}: http.listen has port 0, so the relay took any that was free; name one, and restart the "
            "relay"
        )
    host = _WILDCARDS.get(host, host)
    where = format_address(host, port)
    try:
        document = _get(host, port)
        slot = document["slot"]
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise SetupError(
            f"no relay answers at {where} ({reason}); start it with pgrelay run --config {file}, "
            "or correct http.listen"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(
            f"the program at {where} is not a pgrelay of this version; correct http.listen"
        ) from error
    if slot != config.source.slot:
        raise SetupError(
            f"the relay at {where} has slot {slot}, but {file} names {config.source.slot}; "
            "correct http.listen, or use that relay's file"
        )
    return document


def _get(host: str, port: int) -> dict[str, Any]:
    # Not urllib, which would use a proxy from the environment.
    connection = HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/status")
        document: dict[str, Any] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return document
