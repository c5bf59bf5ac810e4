"""Topic names: legal for Kafka, and never the same for two tables by accident.

Kafka allows [a-zA-Z0-9._-] and 249 characters. A plain name stays as it is. Any run of other characters in an
identifier, dots included, becomes its UTF-8 bytes in hexadecimal between two pairs of dots: table `a b` of
schema `public` is `app.public.a..20..b`. No dot of an identifier survives, so a single dot is the template's
and a pair of dots is an escape's: names by the default template can be read back, so it is injective. A name
that is too long keeps its head and ends in `..h` and 128 bits of its SHA-256.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from pgrelay.encode.selection import matches
from pgrelay.errors import SetupError

MAX_LENGTH: Final = 249

_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_-]+")


def escape(identifier: str) -> str:
    """An identifier as part of a topic name."""
    return _UNSAFE.sub(_hexadecimal, identifier)


def _hexadecimal(match: re.Match[str]) -> str:
    return f"..{match[0].encode('utf-8', 'surrogateescape').hex()}.."


def shorten(topic: str) -> str:
    if len(topic) <= MAX_LENGTH:
        return topic
    # "h" is not a hexadecimal digit, so a digest can't be taken for an escape.
    digest = "..h" + sha256(topic.encode()).hexdigest()[:32]
    return topic[: MAX_LENGTH - len(digest)] + digest


class Topics:
    """The topics of one relay: its own, and those that tables have claimed.

    `routes`: pairs of a regular expression over `schema.table` and the template for the topic of all tables
    that match it. The first match decides; tables without one use `template`.
    """

    def __init__(self, prefix: str, template: str, routes: Sequence[tuple[str, str]] = ()) -> None:
        self._prefix = prefix
        self._template = template
        self._routes = routes
        self.message = shorten(f"{prefix}.message")
        self.schema = shorten(f"{prefix}.schema")
        self.transaction = shorten(f"{prefix}.transaction")
        self.offsets = shorten(f"{prefix}.offsets")
        self.dead_letter = shorten(f"{prefix}.dead_letter")
        # Kafka refuses two topics that differ only by dot and underscore, so that is what must be unique.
        # For each: the topic, its owner, and what another table must have in common to share it.
        self._owners: dict[str, tuple[str, str, str]] = {}
        for topic, owner in (
            (self.message, "logical messages"),
            (self.schema, "the schemas"),
            (self.transaction, "the transactions"),
            (self.offsets, "the offsets"),
            (self.dead_letter, "the dead letters"),
        ):
            self._owners[collision_key(topic)] = topic, owner, owner

    def claim(self, schema: str, table: str) -> str:
        """Give the table its topic, which belongs to it from now on.

        Raises SetupError if the topic belongs to another already, and no route says that they share it.
        """
        owner = sharing = f"table {schema}.{table}"
        template = self._template
        route = self._route(schema, table)
        if route is not None:
            sharing, template = route
        topic = shorten(template.format(prefix=self._prefix, schema=escape(schema), table=escape(table)))
        owned, holder, shared = self._owners.setdefault(collision_key(topic), (topic, owner, sharing))
        if owned != topic or shared != sharing:
            clash = (
                f"share the topic {topic!r}"
                if owned == topic
                else f"need the topics {topic!r} and {owned!r}, which Kafka takes for one ('.' counts as '_')"
            )
            raise SetupError(
                f"{owner} and {holder} would {clash}; use records.routes to send one of them elsewhere, or "
                "both to one topic by one route"
            )
        return topic

    def is_routed(self, schema: str, table: str) -> bool:
        """Whether a route, not the template, decides the table's topic."""
        return self._route(schema, table) is not None

    def _route(self, schema: str, table: str) -> tuple[str, str] | None:
        name = f"{schema}.{table}"
        return next((route for route in self._routes if matches(route[0], name)), None)


def collision_key(topic: str) -> str:
    """The same for two topics that Kafka takes for one: it can't have both."""
    return topic.replace(".", "_")
