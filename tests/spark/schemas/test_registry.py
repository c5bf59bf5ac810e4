"""Errors for a schema registry that does not answer properly name it, but not its password."""

import json
import socket
import time
from collections.abc import Callable
from unittest.mock import Mock
from uuid import uuid4

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from pgrelay.embedded.registry import SchemaRegistry
from pgrelay.errors import PgrelayError, SetupError
from pgrelay.spark.schemas.registry import Registry
from tests.ports import held_port


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda registry: registry.schemas_by_id([7]), "the schema of id 7, which a record begins with"),
        (lambda registry: registry.topic_schemas("app.public.t"), "subject app.public.t-value"),
        (lambda registry: registry.latest_schemas("app.public.t"), "its subjects"),
    ],
    ids=["schemas_by_id", "topic_schemas", "latest_schemas"],
)
def test_the_error_for_an_absent_registry_names_it_without_the_password(
    ask: Callable[[Registry], object], what: str
) -> None:
    with held_port() as port:
        registry = Registry({"url": f"http://us:sesame@127.0.0.1:{port}", "max.retries": 0})
        with pytest.raises(
            PgrelayError, match=f"registry http://.*127.0.0.1:{port}, asked for {what}: "
        ) as caught:
            ask(registry)
    assert str(caught.value).startswith(f"schema registry http://***@127.0.0.1:{port}, ")


def test_a_registry_that_never_answers_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgrelay.spark.schemas.registry._DEFAULTS", {"timeout": 0.2})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        registry = Registry({"url": f"http://127.0.0.1:{silent.getsockname()[1]}", "max.retries": 1})
        with pytest.raises(PgrelayError, match=r"asked for the schema of id 7, .*timed out"):
            registry.schemas_by_id([7])


def test_invalid_options_are_refused() -> None:
    with pytest.raises(SetupError, match=r"schema registry http://r: .*tiemout; correct its options"):
        Registry({"url": "http://r", "tiemout": "5"})


def test_a_url_without_its_scheme_is_refused_and_its_password_not_shown() -> None:
    with pytest.raises(SetupError, match=r"^schema registry \*\*\*@r:8081: ") as caught:
        Registry("me:hunter2@r:8081")
    assert "hunter2" not in str(caught.value)


def test_an_unknown_id_is_waited_for_once(
    schema_registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgrelay.spark.schemas.registry._TIMEOUT_S", 0.1)
    client = SchemaRegistryClient({"url": schema_registry.url})
    known = client.register_schema(f"{uuid4()}-value", Schema('"string"', "AVRO"))
    registry = Registry(schema_registry.url)
    assert registry.schemas_by_id([known, 10**6]) == {known: '"string"'}
    clock = Mock(wraps=time)
    monkeypatch.setattr("pgrelay.spark.schemas.registry.time", clock)
    assert registry.schemas_by_id([known, 10**6]) == {known: '"string"'}
    clock.sleep.assert_not_called()
    # An id that it had is not requested again.
    monkeypatch.setattr(registry, "_client", None)
    assert registry.schemas_by_id([known]) == {known: '"string"'}


def test_an_id_registered_later_is_found(
    schema_registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example one of several registries may learn of a schema long after another."""
    monkeypatch.setattr("pgrelay.spark.schemas.registry._TIMEOUT_S", 0.0)
    client = SchemaRegistryClient({"url": schema_registry.url})
    fields = [{"name": f"a{uuid4().hex}", "type": "int"}]
    schema = Schema(json.dumps({"type": "record", "name": "r", "fields": fields}), "AVRO")
    last = client.register_schema(f"{uuid4()}-value", Schema('"string"', "AVRO"))
    registry = Registry(schema_registry.url)
    near = range(last + 1, last + 30)
    unknown = set(near) - registry.schemas_by_id(near).keys()
    later = client.register_schema(f"{uuid4()}-value", schema)
    assert later in unknown
    assert json.loads(registry.schemas_by_id([later])[later])["fields"] == fields


def test_another_server_is_not_taken_for_a_registry_without_the_schema(
    schema_registry: SchemaRegistry,
) -> None:
    """Its 404 has no registry error code."""
    with pytest.raises(PgrelayError, match="asked for the schema of id 7"):
        Registry(f"{schema_registry.url}/elsewhere").schemas_by_id([7])
