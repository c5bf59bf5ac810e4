"""Writer schemas from a schema registry, through Confluent's client: fetched per plan, never per row."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pgrelay.errors import PgrelayError, SetupError

# The user's own options override these. By default the client waits for an answer for ever.
_DEFAULTS: Final[Mapping[str, object]] = {"timeout": 10}

_NO_SUCH_SCHEMA: Final = 40403
_TIMEOUT_S: Final = 5.0
_POLL_INTERVAL_S: Final = 0.5

# Also of a URL without a scheme, which the client refuses.
_USER_INFO: Final = re.compile(r"[^/\s]+(?=@)")


class Registry:
    """One registry, by its URL or the options of Confluent's client; caches the schemas that it returned.

    Raises SetupError if the options can't be right, and PgrelayError if the registry does not answer, or
    lacks the subject that it is asked for.
    """

    def __init__(self, where: str | Mapping[str, Any]) -> None:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError as error:
            raise SetupError(
                f"reading Avro needs {error.name}, which is missing: pip install 'pgrelay[avro]'"
            ) from error
        if not isinstance(where, str | Mapping):
            raise SetupError(f"registry={where!r}: write its URL, or a dict of options, {{'url': ...}}")
        options = {**_DEFAULTS, **({"url": where} if isinstance(where, str) else where)}
        self._url = _redacted(options.get("url", ""))
        try:
            self._client = SchemaRegistryClient(options)
        except (ValueError, TypeError, OSError) as error:
            raise SetupError(
                f"schema registry {self._url}: {_redacted(error)}; correct its options"
            ) from None
        self._texts: dict[int, str] = {}
        self._unknown: set[int] = set()

    def topic_schemas(self, topic: str) -> dict[int, str]:
        """The schemas of a topic's values in all versions, as Avro's JSON, by their ids."""
        subject = f"{topic}-value"
        with self._wrap_client_errors(f"subject {subject}"):
            numbers = self._client.get_versions(subject)
            found = [self._client.get_version(subject, number) for number in numbers]
        texts = {
            version.schema_id: str(version.schema.schema_str)
            for version in found
            if version.schema_id is not None and version.schema is not None
        }
        self._texts |= texts
        return texts

    def latest_schemas(self, topic: str) -> tuple[str | None, str]:
        """The last schemas of a topic's keys (None if they have none) and values, as Avro's JSON."""
        with self._wrap_client_errors("its subjects"):
            keyed = f"{topic}-key" in self._client.get_subjects()
        key = self._latest_schema(f"{topic}-key") if keyed else None
        return key, self._latest_schema(f"{topic}-value")

    def _latest_schema(self, subject: str) -> str:
        with self._wrap_client_errors(f"subject {subject}"):
            schema = self._client.get_latest_version(subject).schema
        assert schema is not None
        return str(schema.schema_str)

    def schemas_by_id(self, ids: Iterable[int]) -> dict[int, str]:
        """The schemas with these ids, as far as the registry has them by now."""
        found = {number: self._schema(number) for number in ids}
        return {number: text for number, text in found.items() if text is not None}

    def _schema(self, number: int) -> str | None:
        if number not in self._texts:
            # An id that was waited for in vain may have a schema by now: ask again, without waiting.
            timeout_s = 0 if number in self._unknown else _TIMEOUT_S
            with self._wrap_client_errors(f"the schema of id {number}, which a record begins with"):
                text = self._wait_for_schema(number, timeout_s)
            if text is None:
                self._unknown.add(number)
            else:
                self._texts[number] = text
        return self._texts.get(number)

    def _wait_for_schema(self, number: int, timeout_s: float) -> str | None:
        """The schema of an id; None if the registry still has none after so many seconds."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return str(self._client.get_schema(number).schema_str)
            except SchemaRegistryError as error:
                if error.error_code != _NO_SUCH_SCHEMA:
                    raise
            # One of several registry servers may learn of a schema after readers see its records.
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_INTERVAL_S)

    @contextmanager
    def _wrap_client_errors(self, what: str) -> Iterator[None]:
        """Raises PgrelayError for what the client raises in the block; `what` was asked for."""
        try:
            yield
        except Exception as error:  # its own, or those of its two HTTP libraries
            text = _redacted(error) or type(error).__name__
            raise PgrelayError(f"schema registry {self._url}, asked for {what}: {text}") from error


def _redacted(text: object) -> str:
    """A text in one line, without the user and password of a URL."""
    return _USER_INFO.sub("***", " ".join(str(text).split()))
