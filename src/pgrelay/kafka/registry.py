"""The schema registry: schemas in, ids out, by Confluent's own client, which works with several registries.

It is asked when a table's schema is announced, never for a row. Answers are cached until another session
begins, since a registry that was restored, or lost its data, may give other ids by then. Nothing blocks: the
client is asynchronous. If the registry does not answer, or answers with a server error, it is asked again
later (RegistryUnavailable). If it refuses a schema, or us, that is a SetupError. Source: Confluent's "Schema
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

# The user's own options override these. The timeouts are short, since a longer wait would delay a stop.
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
_RETRIABLE: Final = (408, 429)
_SERVER_ERROR: Final = 500
# Not an HTTP status but the registry's own code, with 422: its mode, or the subject's, permits no writes.
_NOT_PERMITTED: Final = 42205
# The statuses by which a token endpoint refuses us if it does not use OAuth's words (RFC 6749, 5.2).
_TOKEN_REFUSED: Final = (400, 401)
# Members of a token that the client takes for granted, though RFC 6749, 5.1, does not require them.
_LIFETIME: Final = ("expires_in", "expires_at")


class Registry:
    """The registry of `records.schema_registry`. Raises SetupError if these options can't be right."""

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
        self._token_failure = OAuthTokenError
        self._http = _http_library()
        self._options = options
        self._url = mask_url(options["url"])
        try:
            self._client: AsyncSchemaRegistryClient = AsyncSchemaRegistryClient(
                {**_DEFAULTS, **{name: _typed_option(name, value) for name, value in options.items()}}
            )
        except ImportError as error:
            # Raised only for a proxy, which the environment may name.
            text = self._masked(str(error))
            raise SetupError(
                f"records.schema_registry: {text.rstrip('.')}; or name an http:// proxy in proxy or ALL_PROXY"
            ) from None
        except (ValueError, TypeError, OSError) as error:
            text = unreadable_file(options) or self._masked(str(error))
            raise SetupError(f"records.schema_registry: {text}; correct or leave out the option") from None

    async def connect(self) -> None:
        """Return once the registry answers, even if it refuses us. Clears the cache.

        Raises RegistryUnavailable, or SetupError if we are refused the token for it.
        """
        clear: Callable[[], Any] = self._client.clear_caches
        clearing = clear()
        if isawaitable(clearing):  # in later versions of the client
            await clearing
        try:
            await self._answer(self._client.get_schema_types())
        except self._refusal as error:
            if error.http_status_code >= _SERVER_ERROR:
                raise self._unavailable_error(str(error)) from error

    async def register(self, schemas: Schemas) -> SchemaIds:
        """Register a topic's schemas, and return their ids."""
        key = None
        if schemas.key is not None:
            key = await self._register(f"{schemas.topic}-key", schemas.key, schemas.about)
        return SchemaIds(key, await self._register(f"{schemas.topic}-value", schemas.value, schemas.about))

    async def incompatible_subjects(self, topics: Iterable[str], envelope: str) -> list[str]:
        """The subjects of these topics' values that have another writer's schema and would not accept ours.

        Raises RegistryUnavailable, or SetupError if we may not look.
        """
        try:
            existing = await self._answer(self._subjects())
            wanted = sorted({f"{topic}-value" for topic in topics}.intersection(existing))
            incompatible = await asyncio.gather(
                *(self._is_incompatible(subject, envelope) for subject in wanted)
            )
        except self._refusal as error:
            raise self._refusal_error(error, "(any of our topics)", "registered schemas") from error
        return [subject for subject, refuses in zip(wanted, incompatible, strict=True) if refuses]

    async def _subjects(self) -> set[str]:
        return set(await self._client.get_subjects())

    async def _is_incompatible(self, subject: str, envelope: str) -> bool:
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
            raise self._refusal_error(error, subject, about) from error
        if not isinstance(found, int):
            raise self._unavailable_error("what answers is not a schema registry: it gives no id")
        return found

    async def _answer(self, request: Awaitable[T]) -> T:
        """The client's answer. Raises the client's own error if the registry refuses."""
        try:
            return await request
        except (self._http.HTTPError, OSError) as error:
            # OSError, too: the library does not wrap a refusal of our certificate by TLS 1.3.
            raise self._no_answer_error(error) from error
        except self._token_failure as error:
            raise self._token_error(error) from error
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if isinstance(error, KeyError) and error.args[0] in _LIFETIME:
                raise SetupError(
                    f"no token for schema registry {self._url}: what its endpoint gives has no expires_in, "
                    "which the client needs; have it say how long a token lives, or use another "
                    "bearer.auth.credentials.source"
                ) from error
            # The client expects JSON of the right form, which a web page is not.
            raise self._unavailable_error(
                f"what answers is not a schema registry ({type(error).__name__}: {error})"
            ) from error

    def _no_answer_error(self, error: Exception) -> PgrelayError:
        text = self._masked(str(error)) or type(error).__name__
        if UNTRUSTED in text:
            return SetupError(
                f"schema registry {self._url}: its certificate is not trusted: {text}; correct "
                "ssl.ca.location, or the host in url, in records.schema_registry"
            )
        return self._unavailable_error(text)

    def _masked(self, text: str) -> str:
        """What the client or the registry said, on one line and without any secret of ours."""
        return mask_error(printable(" ".join(text.split())), self._options)

    def _unavailable_error(self, reason: str) -> RegistryUnavailable:
        return RegistryUnavailable(
            f"schema registry {self._url}: {self._masked(reason)}; start the registry, or correct url in "
            "records.schema_registry"
        )

    def _token_error(self, error: "OAuthTokenError") -> PgrelayError:
        # The client's error lacks the status and OAuth's error code; the error that caused it has them.
        reason = error.__context__ or error
        shown = next(iter(str(reason).splitlines()), "") or type(reason).__name__
        text = f"no token for schema registry {self._url}: {self._masked(shown)}"
        status = reason.response.status_code if isinstance(reason, self._http.HTTPStatusError) else None
        if UNTRUSTED in shown:
            # The client has no option for this: ssl.ca.location is only for the registry.
            return SetupError(f"{text}; set SSL_CERT_FILE in the environment to its authority's file")
        if status in _TOKEN_REFUSED or str(getattr(reason, "error", "")).startswith(TOKEN_REFUSALS):
            return SetupError(f"{text}; correct the bearer.auth.* options in records.schema_registry")
        return RegistryUnavailable(
            f"{text}; start the token endpoint, or correct bearer.auth.* in records.schema_registry"
        )

    def _refusal_error(self, error: "SchemaRegistryError", subject: str, about: str) -> PgrelayError:
        status, reason = error.http_status_code, self._masked(str(error.error_message))
        if status >= _SERVER_ERROR or status in _RETRIABLE:
            return self._unavailable_error(str(error))
        if status in _DENIED:
            return SetupError(
                f"schema registry {self._url} denies access to subject {subject}: {reason}; correct "
                "basic.auth.user.info in records.schema_registry, or grant the right to register"
            )
        text = f"{about}: schema registry {self._url} refuses the schema of subject {subject}: {reason}"
        if status == _INCOMPATIBLE:
            return SetupError(
                f"{text}; nothing was sent with the new schema. Set the subject's compatibility to what its "
                "consumers can handle (NONE accepts all), or route the table to a new topic (records.routes)"
            )
        if error.error_code == _NOT_PERMITTED:
            return SetupError(f"{text}; set its mode, and the subject's if it has one, to READWRITE")
        if status == _MALFORMED:
            return SetupError(f"{text}; a bug in pgrelay or the registry: please report it, and use json")
        return SetupError(f"{text} (status {status}); check records.schema_registry.url")


def _http_library() -> Any:
    """The module whose errors the client raises if no answer came: it uses one or the other."""
    return import_module("httpx2" if find_spec("httpx2") else "httpx")


def _typed_option(name: str, value: str) -> Any:
    """An option as the client wants it. Raises ValueError if it must be a number, 0 or more, and is not."""
    if name in _NUMBERS:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise ValueError(f"{name} is not a number, 0 or more: {value}")
        return number
    return False if name == "ssl.ca.location" and value == "false" else value
