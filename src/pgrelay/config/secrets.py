"""Which values are secret, and how they are masked.

This module masks two kinds of values: the Postgres connection string, and the mappings of client options
(librdkafka's, the schema registry's). Only values are hidden, never names.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

MASK: Final = "***"

_SECRET = re.compile(
    r"password|passphrase|secret|token|.key$|key\.pem|jaas|basic\.auth|oauthbearer\.config|kinit\.cmd"
)
# A URL's query may hold a key, `?apikey=...`; a comma ends it only before another URL.
_QUERY = re.compile(r"(?<=\?)(?:(?!,\s*\w+://)\S)+")
# A name that may be that of a secret, and its value, in text that holds both by mistake.
_NAMED = re.compile(
    r"(?i)((?:passw(?:or)?d|passphrase|secret|token|key|jaas|user\.info)[\w.-]{0,40}[\"']?\s{0,9}[:=]\s{0,9})\S.*",
    re.DOTALL,
)
# Up to the last @ of the host's part: a password may contain an unescaped @, although it should not.
_USER_INFO = re.compile(r"(?<=://)[^/\s]+(?=@)")

_WORD_ENDS = re.compile(r"[\s,;=]+")
_MIN_WORD_LENGTH: Final = 4


def is_secret(name: str) -> bool:
    """Whether the value of this option (librdkafka's, libpq's, the registry client's) is a secret."""
    return _SECRET.search(name.lower()) is not None


def mask_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options with secret values, and user, password and query inside any URL, replaced by `***`."""
    return {name: MASK if is_secret(name) else mask_url(value) for name, value in options.items()}


def mask_url(text: str) -> str:
    """Any text, in which a URL's user, password and query are replaced by `***`."""
    return _QUERY.sub(MASK, _USER_INFO.sub(MASK, text)) if "://" in text else text


def mask_text(text: str) -> str:
    """Text that was written in the wrong place, without what looks like a secret."""
    return _NAMED.sub(rf"\1{MASK}", mask_url(text))


def quoted(text: str) -> str:
    """The masked text in quotes, with escapes for what is not printable."""
    return repr(mask_text(text))


def mask_error(text: str, options: Mapping[str, str]) -> str:
    """A client's error message without the values of secret options, or pieces of them."""
    for name, value in options.items():
        if is_secret(name):
            if value and name.startswith("basic.auth."):
                text = text.replace(b64encode(value.encode()).decode(), MASK)
            # librdkafka quotes single words; at the end it quotes the rest of a value that it can't parse.
            words = [word for word in _WORD_ENDS.split(value) if len(word) >= _MIN_WORD_LENGTH]
            rests = (value[start:] for start in range(len(value)))
            rest = next((rest for rest in rests if text.endswith(f" {rest}")), "")
            text = text.removesuffix(rest) + MASK if rest else text
            for piece in filter(None, (value, *words)):
                text = re.sub(rf"(?<!\w){re.escape(piece)}(?!\w)", MASK, text)
    return text


def mask_dsn(dsn: str) -> str:
    """A connection string (URI or key=value), as key=value with its secrets replaced by `***`."""
    try:
        parameters = conninfo_to_dict(dsn)
    except ProgrammingError:
        return MASK
    shown = {name: MASK if _is_secret_parameter(name) else str(value) for name, value in parameters.items()}
    return make_conninfo("", **shown)


def _is_secret_parameter(name: str) -> bool:
    # sslkey is the path of a file, scram_client_key a key.
    return name != "sslkey" and is_secret(name)
