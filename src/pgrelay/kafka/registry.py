"""The schema registry: schemas in, ids out, by Confluent's own client, which works with several registries.

It is asked when a table's schema is announced, never for a row. The client caches the answers until another
session begins: by then a registry that was restored, or lost what it had, may give other ids. Nothing blocks:
the client is asynchronous. If a registry does not answer, or answers with a server error, it will be asked
again (RegistryUnavailable). If it refuses a schema or us, that is a SetupError. Source: Confluent's "Schema
Registry API Reference" and confluent-kafka's SchemaRegistryClient.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pgrelay.config.option_files import unreadable_file
from pgrelay.config.secrets import mask_error, mask_url
from pgrelay.encode.avro.schema import SchemaIds, Schemas, successor
from pgrelay.errors import PgrelayError, RegistryUnavailable, SetupError
from pgrelay.kafka.errors import TOKEN_REFUSALS, UNTRUSTED
from pgrelay.printable import printable

if TYPE_CHECKING:
    from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

T = TypeVar("T")

# The user's own options override these. The limits are short, since a longer wait here would delay a stop.
_DEFAULTS: Final[Mapping[str, object]] = {"timeout": 10, "max.retries": 1, "retries.wait.ms": 200}

# The client wants these as numbers; the configuration has only text.
_NUMBERS: Final = frozenset(
    {
        "timeout",
        "cache.capacity",
        "cache.latest.ttl.sec",
        "max.retries",
        "retries.wait.ms",
        "retries.max.wait.ms",
    }
)

_INCOMPATIBLE: Final = 409
_MALFORMED: Final = 422
_DENIED: Final = (401, 403)
# The request took too long, or there are too many.
_LATER: Final = (408, 429)
_ILL: Final = 500
# Not an HTTP status but the registry's own code, with 422: its mode, or the subject's, lets nobody register.
_NOT_PERMITTED: Final = 42205
# The statuses with which a token endpoint refuses us, if it does not use OAuth's words (RFC 6749, 5.2).
_TOKEN_REFUSED: Final = (400, 401)
# Members of a token that the client takes for granted, though RFC 6749, 5.1, does not require them.
_LIFETIME: Final = ("expires_in", "expires_at")


class Registry:
    """One registry, by `records.schema_registry`. Raises SetupError if these options can't be right."""

    def __init__(self, options: Mapping[str, str]) -> None:
        try:
            from confluent_kafka.schema_registry import AsyncSchemaRegistryClient, Schema
            from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError
        except ImportError as error:
            raise SetupError(
                f"records.format: avro needs {error.name}, which is missing: pip install 'pgrelay[avro]'"
            ) from error
        self._schema = Schema
        self._refusal = SchemaRegistryError
        self._tokenless = OAuthTokenError
        self._http = _http_library()
        self._options = options
        self._url = mask_url(options["url"])
        try:
            self._client: AsyncSchemaRegistryClient = AsyncSchemaRegistryClient(
                {**_DEFAULTS, **{name: _typed(name, value) for name, value in options.items()}}
            )
        except ImportError as error:
            # Raised only for a proxy, which the environment may name.
            told = self._safe(str(error))
            raise SetupError(
                f"records.schema_registry: {told.rstrip('.')}; or name an http:// proxy in proxy or ALL_PROXY"
            ) from None
        except (ValueError, TypeError, OSError) as error:
            told = unreadable_file(options) or self._safe(str(error))
            raise SetupError(f"records.schema_registry: {told}; correct or leave out the option") from None

    async def connect(self) -> None:
        """Return once the registry answers, even if it refuses us. Forgets its earlier answers.

        Raises RegistryUnavailable, or SetupError if we are refused the token for it.
        """
        forget: Callable[[], Any] = self._client.clear_caches
        forgetting = forget()
        if isawaitable(forgetting):  # in later versions of the client
            await forgetting
        try:
            await self._answer(self._client.get_schema_types())
        except self._refusal as error:
            if error.http_status_code >= _ILL:
                raise self._away(str(error)) from error

    async def register(self, schemas: Schemas) -> SchemaIds:
        """The ids of a topic's schemas, which the registry has from then on."""
        key = None
        if schemas.key is not None:
            key = await self._register(f"{schemas.topic}-key", schemas.key, schemas.about)
        return SchemaIds(key, await self._register(f"{schemas.topic}-value", schemas.value, schemas.about))

    async def refusing(self, topics: Iterable[str], envelope: str) -> list[str]:
        """The subjects of these topics' values that have another writer's schema and would not take ours.

        Raises RegistryUnavailable, or SetupError if we may not look.
        """
        try:
            there = await self._answer(self._subjects())
            wanted = sorted({f"{topic}-value" for topic in topics}.intersection(there))
            refused = await asyncio.gather(*(self._refuses(subject, envelope) for subject in wanted))
        except self._refusal as error:
            raise self._refused(error, "(any of our topics)", "registered schemas") from error
        return [subject for subject, refuses in zip(wanted, refused, strict=True) if refuses]

    async def _subjects(self) -> set[str]:
        return set(await self._client.get_subjects())

    async def _refuses(self, subject: str, envelope: str) -> bool:
        latest = await self._answer(self._client.get_latest_version(subject))
        if latest.schema is None or latest.schema.schema_type != "AVRO":
            return True
        ours = successor(latest.schema.schema_str or "null", envelope)
        return ours is not None and not await self._answer(
            self._client.test_compatibility(subject, self._schema(ours, "AVRO"))
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def _register(self, subject: str, text: str, about: str) -> int:
        try:
            found = await self._answer(self._client.register_schema(subject, self._schema(text, "AVRO")))
        except self._refusal as error:
            raise self._refused(error, subject, about) from error
        if not isinstance(found, int):
            raise self._away("what answers is not a schema registry: it gives no id")
        return found

    async def _answer(self, asked: Awaitable[T]) -> T:
        """The client's answer. Raises the client's own error if the registry refuses."""
        try:
            return await asked
        except (self._http.HTTPError, OSError) as error:
            # An OSError too: the library does not translate a refusal of our certificate by TLS 1.3.
            raise self._unanswered(error) from error
        except self._tokenless as error:
            raise self._no_token(error) from error
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if isinstance(error, KeyError) and error.args[0] in _LIFETIME:
                raise SetupError(
                    f"no token for schema registry {self._url}: what its endpoint gives has no expires_in, "
                    "which the client needs; have it say how long a token lives, or use another "
                    "bearer.auth.credentials.source"
                ) from error
            # The client takes JSON of the expected form for granted: a web page is not that.
            raise self._away(
                f"what answers is not a schema registry ({type(error).__name__}: {error})"
            ) from error

    def _unanswered(self, error: Exception) -> PgrelayError:
        told = self._safe(str(error)) or type(error).__name__
        if UNTRUSTED in told:
            return SetupError(
                f"schema registry {self._url}: its certificate is not trusted: {told}; correct "
                "ssl.ca.location, or the host in url, in records.schema_registry"
            )
        return self._away(told)

    def _safe(self, told: str) -> str:
        """What the client or the registry said, in one line and without a secret of ours."""
        return mask_error(printable(" ".join(told.split())), self._options)

    def _away(self, reason: str) -> RegistryUnavailable:
        return RegistryUnavailable(
            f"schema registry {self._url}: {self._safe(reason)}; start the registry, or correct url in "
            "records.schema_registry"
        )

    def _no_token(self, error: "OAuthTokenError") -> PgrelayError:
        # The client's error lacks the status and OAuth's word for it; the error that caused it has them.
        reason = error.__context__ or error
        shown = next(iter(str(reason).splitlines()), "") or type(reason).__name__
        told = f"no token for schema registry {self._url}: {self._safe(shown)}"
        status = reason.response.status_code if isinstance(reason, self._http.HTTPStatusError) else None
        if UNTRUSTED in shown:
            # The client has no option for it: ssl.ca.location is for the registry alone.
            return SetupError(f"{told}; set SSL_CERT_FILE in the environment to its authority's file")
        if status in _TOKEN_REFUSED or str(getattr(reason, "error", "")).startswith(TOKEN_REFUSALS):
            return SetupError(f"{told}; correct the bearer.auth.* options in records.schema_registry")
        return RegistryUnavailable(
            f"{told}; start the token endpoint, or correct bearer.auth.* in records.schema_registry"
        )

    def _refused(self, error: "SchemaRegistryError", subject: str, about: str) -> PgrelayError:
        status, reason = error.http_status_code, self._safe(str(error.error_message))
        if status >= _ILL or status in _LATER:
            return self._away(str(error))
        if status in _DENIED:
            return SetupError(
                f"schema registry {self._url} denies access to subject {subject}: {reason}; correct "
                "basic.auth.user.info in records.schema_registry, or grant the right to register"
            )
        told = f"{about}: schema registry {self._url} refuses the schema of subject {subject}: {reason}"
        if status == _INCOMPATIBLE:
            return SetupError(
                f"{told}; nothing was sent with the new schema. Set the subject's compatibility to what its "
                "consumers can handle (NONE accepts all), or route the table to a new topic (records.routes)"
            )
        if error.error_code == _NOT_PERMITTED:
            return SetupError(f"{told}; set its mode, and the subject's if it has one, to READWRITE")
        if status == _MALFORMED:
            return SetupError(f"{told}; a bug in pgrelay or the registry: please report it, and use json")
        return SetupError(f"{told} (status {status}); check records.schema_registry.url")


def _http_library() -> Any:
    """The module whose errors the client raises if no answer came: the client uses the one or the other."""
    return import_module("httpx2" if find_spec("httpx2") else "httpx")


def _typed(name: str, value: str) -> Any:
    """An option as the client wants it. Raises ValueError if it should be a number, 0 or more, and is not."""
    if name in _NUMBERS:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise ValueError(f"{name} is not a number, 0 or more: {value}")
        return number
    return False if name == "ssl.ca.location" and value == "false" else value
