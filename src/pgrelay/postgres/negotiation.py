"""The options of START_REPLICATION for a server of a given version.

`auto` takes the best that the server has. An option that is set explicitly, and that the server lacks, is
refused. Source: PostgreSQL manual, "Logical Streaming Replication Parameters", of each version.
"""

from typing import Final

from pgrelay.config import SourceConfig
from pgrelay.errors import SetupError
from pgrelay.wire.replication import StreamOptions

# server_version_num from which each protocol version is spoken, best first.
_PROTOCOLS: Final = ((4, 160000), (3, 150000), (2, 140000), (1, 100000))
_SINCE: Final = {
    "binary": 140000,
    "messages": 140000,
    "two_phase": 150000,
    "origin": 160000,
}


def stream_options(
    config: SourceConfig, server_version: int, *, allow_streaming: bool = True
) -> StreamOptions:
    """The options for a server of this version, as libpq numbers it (180004). Raises SetupError.

    `allow_streaming`: whether `streaming: auto` asks for transactions before their commit.
    """
    protocol = _protocol(config, server_version)
    return StreamOptions(
        proto_version=protocol,
        publications=config.publications,
        binary=_require_supported("binary", config.binary, server_version),
        messages=_messages(config, server_version),
        streaming=_streaming(config, protocol, server_version, allow_streaming),
        two_phase=_two_phase(config, protocol, server_version),
        origin="none" if _require_supported("origin", config.origin == "none", server_version) else None,
    )


def _protocol(config: SourceConfig, server_version: int) -> int:
    best = next((version for version, since in _PROTOCOLS if server_version >= since), None)
    if best is None:
        raise SetupError(f"Postgres {_name(server_version)} has no pgoutput; pgrelay needs 10 or later")
    if config.protocol_version == "auto":
        return best
    if config.protocol_version > best:
        raise SetupError(
            f"source.protocol_version: Postgres {_name(server_version)} speaks up to {best}, "
            f"not {config.protocol_version}; use auto"
        )
    return config.protocol_version


def _streaming(config: SourceConfig, protocol: int, server_version: int, allow_streaming: bool) -> str:
    best = "parallel" if protocol >= 4 else "on" if protocol >= 2 else "off"
    if config.streaming == "auto":
        return best if allow_streaming else "off"
    needed = {"off": 1, "on": 2, "parallel": 4}[config.streaming]
    if protocol < needed:
        raise SetupError(
            f"source.streaming: {config.streaming} needs protocol version {needed}; Postgres "
            f"{_name(server_version)} with source.protocol_version: {config.protocol_version} has "
            f"{protocol}; use auto"
        )
    return config.streaming


def _messages(config: SourceConfig, server_version: int) -> bool:
    """On by default if the server has them. If it does not, they are refused only if set explicitly."""
    if "messages" not in config.model_fields_set and server_version < _SINCE["messages"]:
        return False
    return _require_supported("messages", config.messages, server_version)


def _two_phase(config: SourceConfig, protocol: int, server_version: int) -> bool:
    wanted = _require_supported("two_phase", config.two_phase, server_version)
    if wanted and protocol < 3:
        raise SetupError("source.two_phase: needs protocol version 3; set source.protocol_version to auto")
    return wanted


def _require_supported(option: str, wanted: bool, server_version: int) -> bool:
    if wanted and server_version < _SINCE[option]:
        raise SetupError(
            f"source.{option}: Postgres {_name(server_version)} does not have it, "
            f"{_name(_SINCE[option])} and later do; leave it out"
        )
    return wanted


def _name(server_version: int) -> str:
    return str(server_version // 10000)
