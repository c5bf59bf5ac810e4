"""The servers' addresses in the configuration: Postgres, Kafka and the schema registry.

An address can hold a user and a password. An unescaped special character can make a piece of the password
look like the host or the port, and those are shown. So such an address is refused here and never quoted.
"""

import re
from difflib import get_close_matches
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

_BROKER: Final = re.compile(
    r"(?:(?:plaintext|ssl|sasl_plaintext|sasl_ssl)://)?"
    r"(?:\[(?P<bracketed>[^\]]+)\]|[^\s/:@\[\]]+)(?::(?P<port>\d{1,5}))?",
    re.IGNORECASE,
)
_LAST_PORT: Final = 65535
_REFUSED_PARAMETER: Final = re.compile('invalid (?:connection option|URI query parameter):? "(.*)"')


def is_host(text: str) -> bool:
    """Whether a resolver can look this name up at all: each label must have 1 to 63 bytes."""
    try:
        # socket does the same encoding, and raises UnicodeError, not OSError, for an impossible name.
        return bool(text.encode("idna"))
    except UnicodeError:
        return False


def check_dsn(value: str) -> str:
    """A libpq connection string. Raises ValueError with the cure."""
    # libpq's own message can quote a piece of the password, so it is not passed on. An unescaped slash in a
    # password turns the rest of the password into a port, and ports are shown.
    suggestion = ""
    try:
        parameters = {name: str(given) for name, given in conninfo_to_dict(value).items()}
        ports = parameters.get("port", "")
        readable = all(port.isdecimal() for port in ports.split(",") if port)
    except ProgrammingError as error:
        parameters, readable, suggestion = {}, False, _suggested_parameter(str(error))
    if not readable:
        raise ValueError(
            f"libpq can't read it{suggestion}; write postgresql://user@host:5432/dbname, "
            "special characters as %XX, or host=... dbname=..., values with spaces in single quotes"
        )
    if _holds_user_info(value, parameters):
        raise ValueError("its host or database contains an @; write an @ in user or password as %40")
    if not _has_valid_hosts(parameters):
        raise ValueError("its host is not a valid name: each part between dots has 1 to 63 bytes; correct it")
    if "replication" in parameters:
        raise ValueError("sets replication, which pgrelay sets itself; leave it out")
    return value


def _suggested_parameter(refusal: str) -> str:
    """The known parameter closest to the one that libpq refuses, which is not shown as it may be secret."""
    if not (refused := _REFUSED_PARAMETER.match(refusal)):
        return ""
    known = [option.keyword.decode() for option in Conninfo.get_defaults()]
    near = get_close_matches(refused[1], known, n=1, cutoff=0.75)
    return f": did you mean the parameter {near[0]}?" if near else ""


def _holds_user_info(value: str, parameters: dict[str, str]) -> bool:
    """Whether libpq took the rest of a password for a host or the database."""
    # A host that begins with @ is an abstract socket; one that begins with a slash is a directory.
    hosts = parameters.get("host", "").split(",")
    database = parameters.get("dbname", "")
    return any("@" in host[1:] and not host.startswith("/") for host in hosts) or (
        "@" in database and f"/{database}" in value
    )


def _has_valid_hosts(parameters: dict[str, str]) -> bool:
    """Whether every host that will be looked up can be; hostaddr and socket directories need no lookup."""
    if parameters.get("hostaddr"):
        return True
    hosts = parameters.get("host", "").split(",")
    return all(not host or host.startswith("/") or is_host(host) for host in hosts)


def brokers_fault(value: str) -> str | None:
    """What is wrong with `host:port,host:port`, with the cure; None if nothing is."""
    cure = "write host:port,host:port, an IPv6 host in brackets"
    if "@" in value:
        return f"a broker's address can't contain a user or password; {cure}, and set sasl.username"
    entries = [entry.strip() for entry in value.split(",")]
    wrong = next((entry for entry in entries if entry and not _is_broker(entry)), None)
    return None if wrong is None else f"{wrong!r} is not host:port; {cure}"


def _is_broker(entry: str) -> bool:
    match = _BROKER.fullmatch(entry)
    if match is None:
        return _is_ipv6(entry)
    return 0 < int(match["port"] or 1) <= _LAST_PORT and _is_ipv6(match["bracketed"] or "::1")


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def registry_fault(value: str) -> str | None:
    """What is wrong with the registry's URL, or comma-separated URLs, with the cure; None if nothing is."""
    if all(_is_registry(url.strip()) for url in value.split(",")):
        return None
    return "not a registry's address; write http://host:8081 or https://..., special characters as %XX"


def _is_registry(url: str) -> bool:
    try:
        parts = urlsplit(url)
        legal_port = parts.port != 0
    except ValueError:
        return False
    escaped = parts.netloc.count("@") <= 1 and "@" not in parts.path
    return parts.scheme in ("http", "https") and is_host(parts.hostname or "") and legal_port and escaped
