"""The types of single keys: how text becomes a value, and what is refused, each with its cure.

A configuration file and the environment hold only text, so the key decides what the text means: in
`slot: 123` it is a name, in `partitions: 123` a number. A value that already has the right Python type is
accepted, for configurations built in code. Users read a ValueError's text after the key's name.
"""

import re
from pathlib import Path
from string import Formatter
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from pgrelay.config import addresses
from pgrelay.config.secrets import quoted

_SWITCH_WORDS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NULL_WORDS: Final = frozenset({"", "~", "null"})
_SLOT: Final = re.compile(r"[a-z0-9_]{1,63}")
# What YAML's double quotes turn \a, \b, \e, \f, \v and \0 into.
_CONTROL_CHARACTERS: Final = "\a\b\x1b\f\v\0"
_KAFKA_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_TABLE: Final = re.compile(r'("(?:[^"]|"")+"|[^".*\s]+)\.("(?:[^"]|"")+"|[^".*\s]+|\*)')
_PLACEHOLDERS: Final = frozenset({"prefix", "schema", "table"})


def _switch(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _SWITCH_WORDS:
        return _SWITCH_WORDS[value.lower()]
    raise PydanticCustomError("switch", "expected true or false")


def _null(value: object) -> object:
    return None if isinstance(value, str) and value.lower() in _NULL_WORDS else value


def _off(value: object) -> object:
    # Empty text does not turn it off: it may come from a variable that somebody forgot to set.
    return _null(value) if value != "" else value


def _expand_home(path: Path | None) -> Path | None:
    """Expand `~/x` to a path below the home directory, as a shell does."""
    if path is not None and "\0" in str(path):
        raise ValueError("contains a NUL character, which no path can have; remove it")
    try:
        return path and path.expanduser()
    except RuntimeError:
        raise ValueError(
            f"{quoted(str(path))}: the home directory is not known; write the whole path"
        ) from None


def _version(value: object) -> object:
    return int(value) if isinstance(value, str) and value in {"1", "2", "3", "4"} else value


def _option(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _slot(value: str) -> str:
    if _SLOT.fullmatch(value) is None:
        raise ValueError(
            f"{quoted(value)} is not a valid slot name; "
            "use 1 to 63 lower-case letters, digits and underscores"
        )
    return value


def _publication(value: str) -> str:
    if not 1 <= len(value.encode()) <= 63:
        raise ValueError(f"{quoted(value)} is not a valid publication name; use 1 to 63 bytes")
    return value


def _prefix(value: str) -> str:
    if _KAFKA_NAME.fullmatch(value) is None:
        raise ValueError(
            f"{quoted(value)} can't begin a topic name; use letters, digits, dots, underscores and hyphens"
        )
    return value


def _topic(value: str) -> str:
    _template(value)
    if all(name != "table" for _, name, _, _ in Formatter().parse(value)):
        raise ValueError(f"{quoted(value)} has no {{table}}: all tables would share a topic; add {{table}}")
    return value


def _route(value: str) -> str:
    if value in {"", ".", ".."}:
        raise ValueError(f"{quoted(value)} names no topic; write one, such as {{prefix}}.orders")
    return _template(value)


def _template(value: str) -> str:
    try:
        parts = list(Formatter().parse(value))
    except ValueError as error:
        raise ValueError(f"{quoted(value)}: {error}; use {{prefix}}, {{schema}} and {{table}}") from None
    for literal, name, spec, conversion in parts:
        if literal and _KAFKA_NAME.fullmatch(literal) is None:
            raise ValueError(
                f"{literal!r} can't be part of a topic name; "
                "use letters, digits, dots, underscores and hyphens"
            )
        if name is not None and name not in _PLACEHOLDERS:
            raise ValueError(f"{{{name}}} is unknown here; use {{prefix}}, {{schema}} and {{table}}")
        if spec or conversion:
            raise ValueError(f"{{{name}}} takes no conversion or format; write {{{name}}} alone")
    return value


def split_listen(value: str) -> tuple[str, int]:
    """Split `host:port` or `[ipv6]:port`. Raises ValueError with the cure."""
    host, colon, port = value.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    legal_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    if not (colon and addresses.is_host(bare) and legal_port) or bracketed != (":" in bare):
        raise ValueError(
            f"{quoted(value)} is not host:port; write 127.0.0.1:8080, 0.0.0.0:8080 for every interface, "
            "[::1]:8080 for IPv6, or null to turn it off"
        )
    return bare, int(port)


def _listen(value: str) -> str:
    split_listen(value)
    return value


def split_table(value: str) -> tuple[str, str | None]:
    """Split an entry of `source.tables` into the catalogue's (schema, table); the table is None for `*`.

    Raises ValueError with the cure.
    """
    match = _TABLE.fullmatch(value)
    if match is None:
        raise ValueError(
            f"{quoted(value)} is not a table; write schema.table or schema.*, "
            "and put a name with a dot, a space or a quote in double quotes"
        )
    return _unquote(match[1]), None if match[2] == "*" else _unquote(match[2])


def _table(value: str) -> str:
    split_table(value)
    return value


def _unquote(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _brokers(value: str) -> str:
    fault = addresses.brokers_fault(value)
    if fault is not None:
        raise ValueError(fault)
    return value


def _pattern(value: str) -> str:
    if any(character in value for character in _CONTROL_CHARACTERS):
        raise ValueError(
            f"{quoted(value)} contains a control character, as \\b in double quotes is; use single quotes"
        )
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(
            f"{quoted(value)} is not a regular expression: {error}; escape a dot as \\."
        ) from None
    return value


Switch = Annotated[bool, BeforeValidator(_switch)]
Dsn = Annotated[str, AfterValidator(addresses.check_dsn)]
SlotName = Annotated[str, AfterValidator(_slot)]
PublicationName = Annotated[str, AfterValidator(_publication)]
TableName = Annotated[str, AfterValidator(_table)]
Prefix = Annotated[str, AfterValidator(_prefix)]
TopicTemplate = Annotated[str, AfterValidator(_topic)]
RouteTemplate = Annotated[str, AfterValidator(_route)]
Brokers = Annotated[str, AfterValidator(_brokers)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Listen = Annotated[str, AfterValidator(_listen)]
ListenOrNone = Annotated[Listen | None, BeforeValidator(_off)]
PathOrNone = Annotated[Path | None, BeforeValidator(_null), AfterValidator(_expand_home)]
ProtocolVersion = Annotated[Literal["auto", 1, 2, 3, 4], BeforeValidator(_version)]
_Duration = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = _Duration
HoursOrNone = Annotated[_Duration | None, BeforeValidator(_off)]
Count = Annotated[int, Field(ge=1, le=2_147_483_647)]
# librdkafka's limits for a new topic.
Partitions = Annotated[int, Field(ge=1, le=100_000)]
Replicas = Annotated[int, Field(ge=1, le=10_000)]

# A str once validated; the JSON schema lets editors accept unquoted numbers and booleans.
_OptionValue = Annotated[
    str, BeforeValidator(_option), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
Options = dict[str, _OptionValue]
