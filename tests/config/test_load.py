"""A configuration file loads, or gives a line for each mistake with file, key and cure."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.config import Config, load
from pgrelay.errors import SetupError

MINIMAL = """\
source: {dsn: dbname=app}
sink: {kafka: {bootstrap.servers: "localhost:9092"}}
"""

Write = Callable[[str], str]


@pytest.fixture
def relay_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a text to relay.yaml in its own folder, and return the name by which to load it."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        Path("relay.yaml").write_text(text, encoding="utf-8")
        return "relay.yaml"

    return write


def mistakes(name: str, environ: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(SetupError) as caught:
        load(name, environ or {})
    return str(caught.value).splitlines()


def minimal_with(section: str, **keys: object) -> str:
    """The smallest configuration plus some keys in one section."""
    tree: dict[str, Any] = yaml.safe_load(MINIMAL)
    tree.setdefault(section, {}).update(keys)
    return yaml.safe_dump(tree)


def test_a_dsn_and_brokers_are_enough(relay_yaml: Write) -> None:
    config = load(relay_yaml(MINIMAL), {})
    assert config.source.dsn == "dbname=app"
    assert config.sink.kafka == {"bootstrap.servers": "localhost:9092"}


def test_a_section_without_keys_has_its_defaults(relay_yaml: Write) -> None:
    assert load(relay_yaml(MINIMAL + "log:\nhttp: {}\n"), {}) == load(relay_yaml(MINIMAL), {})


def test_missing_required_keys_are_named_with_their_cure(relay_yaml: Write) -> None:
    assert mistakes(relay_yaml("log: {level: info}")) == [
        "relay.yaml: source.dsn: missing; set it to a libpq URI or key=value string; "
        "PG* variables and .pgpass apply, '' uses only those",
        "relay.yaml: sink.kafka.bootstrap.servers: missing; set it to the brokers, host:port,host:port",
    ]


@pytest.mark.parametrize(
    ("section", "keys", "line"),
    [
        ("source", {"slto": "x"}, "source.slto: unknown key; did you mean slot?"),
        ("source", {"SLOT": "x"}, "source.SLOT: unknown key; did you mean slot?"),
        ("snik", {"kafka": "x"}, "snik: unknown key; did you mean sink?"),
        ("log", {"colour": "x"}, "log.colour: unknown key; known keys: level"),
        ("source", {"slot": ["a"]}, "source.slot: got a list; write text"),
        ("source", {"slot": None}, "source.slot: got nothing; write text"),
        ("source", {"create": "maybe"}, "source.create: got 'maybe'; write true or false"),
        ("source", {"create": "1"}, "source.create: got '1'; write true or false"),
        ("sink", {"partitions": "many"}, "sink.partitions: got 'many'; write a whole number"),
        ("sink", {"partitions": "1.5"}, "sink.partitions: got '1.5'; write a whole number"),
        (
            "sink",
            {"partitions": "9" * 5000},
            "sink.partitions: got '" + "9" * 60 + "...'; write a whole number",
        ),
        ("sink", {"partitions": 0}, "sink.partitions: got '0'; write 1 or more"),
        ("sink", {"replication_factor": 0}, "sink.replication_factor: got '0'; write 1 or more"),
        ("sink", {"partitions": 100_001}, "sink.partitions: got '100001'; write 100000 or less"),
        (
            "sink",
            {"replication_factor": 10_001},
            "sink.replication_factor: got '10001'; write 10000 or less",
        ),
        ("sink", {"topic_config": "x"}, "sink.topic_config: got text; write a mapping of names to values"),
        ("sink", {"topic_config": {"a": [1]}}, "sink.topic_config.a: got a list; write text"),
        ("transactions", {"memory_mb": 0}, "transactions.memory_mb: got '0'; write 1 or more"),
        ("source", {"status_interval_s": 0}, "source.status_interval_s: got '0'; write more than 0"),
        ("source", {"status_interval_s": "inf"}, "source.status_interval_s: got 'inf'; write a number"),
        ("source", {"publications": "a"}, "source.publications: got 'a'; write a list, such as [a, b]"),
        ("source", {"publications": []}, "source.publications: got an empty list; write at least 1 entry"),
        (
            "source",
            {"publications": [""]},
            "source.publications[0]: '' is not a valid publication name; use 1 to 63 bytes",
        ),
        ("source", {"publications": [None]}, "source.publications[0]: got nothing; write text"),
        ("records", {"key": "bogus"}, "records.key: got 'bogus'; write true or false"),
        ("source", {"origin": "all"}, "source.origin: got 'all'; write any or none"),
        ("source", {"snapshot": "always"}, "source.snapshot: got 'always'; write never"),
        ("source", {"streaming": "no"}, "source.streaming: got 'no'; write auto, off, on or parallel"),
        (
            "source",
            {"protocol_version": 5},
            "source.protocol_version: got '5'; write auto, 1, 2, 3 or 4",
        ),
        (
            "log",
            {"level": "x" * 99},
            "log.level: got '" + "x" * 60 + "...'; write debug, info, warning or error",
        ),
    ],
)
def test_a_mistake_is_one_line(relay_yaml: Write, section: str, keys: dict[str, object], line: str) -> None:
    assert mistakes(relay_yaml(minimal_with(section, **keys))) == [f"relay.yaml: {line}"]


def test_all_mistakes_are_reported_together(relay_yaml: Write) -> None:
    text = minimal_with("source", slto="x", create=3) + "log: {level: loud}\n"
    assert mistakes(relay_yaml(text)) == [
        "relay.yaml: source.create: got '3'; write true or false",
        "relay.yaml: source.slto: unknown key; did you mean slot?",
        "relay.yaml: log.level: got 'loud'; write debug, info, warning or error",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "relay.yaml: is empty; begin with a copy of config.example.yaml, which pgrelay example prints"),
        (
            "# only a comment\n",
            "relay.yaml: is empty; begin with a copy of config.example.yaml, which pgrelay example prints",
        ),
        (
            "- a\n",
            "relay.yaml: has no sections; write source, sink, records, transactions, errors, http, log, "
            "each a mapping of keys",
        ),
        (
            "source: [a]\nsink: 3\n",
            "relay.yaml: source: got a list; write a mapping of keys to values\n"
            "relay.yaml: sink: got text; write a mapping of keys to values",
        ),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(relay_yaml: Write, text: str, line: str) -> None:
    assert mistakes(relay_yaml(text)) == line.splitlines()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    name = str(tmp_path / "none.yaml")
    assert mistakes(name) == [
        f"{name}: no such file; begin with a copy of config.example.yaml, which pgrelay example prints"
    ]


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert mistakes(str(tmp_path)) == [f"{tmp_path}: is a directory; name the file in it"]


def test_an_empty_file_name_is_refused() -> None:
    assert mistakes("") == ["the name of the configuration file is empty; write --config relay.yaml"]


def test_a_file_without_permission_is_refused(relay_yaml: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    name = relay_yaml(MINIMAL)
    monkeypatch.setattr(Path, "read_text", denied)
    assert mistakes(name) == ["relay.yaml: can't be read: Permission denied; check its permissions"]


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin1.yaml"
    path.write_bytes("source: {slot: bär}".encode("latin-1"))
    assert mistakes(str(path)) == [f"{path}: is not UTF-8 text; save it as UTF-8"]


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert load(path, {}).source.slot == "pgrelay"


def test_a_feature_of_a_later_version_is_refused_by_name(relay_yaml: Write) -> None:
    path = relay_yaml(minimal_with("source", snapshot="initial"))
    assert mistakes(path) == [
        "relay.yaml: source.snapshot: initial is not supported yet; use never",
    ]


@pytest.mark.parametrize("registry", [{}, {"url": ""}, {"basic.auth.user.info": "me:pw"}])
def test_avro_without_a_registry_address_is_refused(relay_yaml: Write, registry: dict[str, str]) -> None:
    path = relay_yaml(minimal_with("records", format="avro", schema_registry=registry))
    assert mistakes(path) == [
        "relay.yaml: records.schema_registry.url: missing, but records.format: avro needs it; "
        "set it to the registry's address: http://host:8081"
    ]


@pytest.mark.parametrize(
    ("section", "keys", "line"),
    [
        (
            "sink",
            {"kafka": {"bootstrap.servers": "me:hunter2@b:9"}},
            "sink.kafka.bootstrap.servers: a broker's address can't contain a user or password; "
            "write host:port,host:port, an IPv6 host in brackets, and set sasl.username",
        ),
        (
            "sink",
            {"kafka": {"bootstrap.servers": "a", "metadata.broker.list": "b:x"}},
            "sink.kafka.metadata.broker.list: 'b:x' is not host:port; write host:port,host:port, "
            "an IPv6 host in brackets",
        ),
        (
            "records",
            {"schema_registry": {"url": "me:hunter2@b:9"}},
            "records.schema_registry.url: not a registry's address; write http://host:8081 or https://..., "
            "special characters as %XX",
        ),
    ],
)
def test_an_invalid_address_is_refused(
    relay_yaml: Write, section: str, keys: dict[str, object], line: str
) -> None:
    assert mistakes(relay_yaml(minimal_with(section, **keys))) == [f"relay.yaml: {line}"]


def test_avro_with_a_registry_is_accepted(relay_yaml: Write) -> None:
    registry = {"url": "http://registry:8081"}
    config = load(relay_yaml(minimal_with("records", format="avro", schema_registry=registry)), {})
    assert config.records.schema_registry == registry


def test_variables_are_substituted(relay_yaml: Write) -> None:
    text = MINIMAL + 'records: {prefix: "${STAGE}-${TEAM:-shop}"}\nsink: {partitions: "${N}"}\n'
    text = text.replace('sink: {kafka: {bootstrap.servers: "localhost:9092"}}\n', "")
    config = load(
        relay_yaml(text), {"STAGE": "test", "N": "3", "PGRELAY_SINK__KAFKA": "{bootstrap.servers: b}"}
    )
    assert config.records.prefix == "test-shop"
    assert config.sink.partitions == 3


def test_a_missing_variable_is_named_with_its_key(relay_yaml: Write) -> None:
    assert mistakes(relay_yaml(minimal_with("source", slot="${SLOT}", tables=["a.${T}"]))) == [
        "relay.yaml: source.slot: SLOT is not set in the environment; set it, or write ${SLOT:-default}",
        "relay.yaml: source.tables: T is not set in the environment; set it, or write ${T:-default}",
    ]


def test_the_environment_overrides_the_file(relay_yaml: Write) -> None:
    environ = {
        "PGRELAY_SOURCE__SLOT": "mine",
        "PGRELAY_SOURCE__TABLES": "[public.orders, sales.*]",
        "PGRELAY_SINK__KAFKA__BOOTSTRAP_SERVERS": "a:1,b:2",
        "PGRELAY_HTTP__LISTEN": "null",
    }
    config = load(relay_yaml(minimal_with("source", slot="${NOWHERE_SET}")), environ)
    assert config.source.slot == "mine"
    assert config.source.tables == ("public.orders", "sales.*")
    assert config.sink.kafka == {"bootstrap.servers": "a:1,b:2"}
    assert config.http.listen is None


def test_a_mistake_in_an_override_names_the_variable(relay_yaml: Write) -> None:
    environ = {
        "PGRELAY_SINK__PARTITIONS": "x",
        "PGRELAY_SINK__TOPIC_CONFIG": "{a: [1]}",
        "PGRELAY_SINK__KAFKA__CLIENT_ID": "${NOT_READ}",
    }
    assert mistakes(relay_yaml(MINIMAL), environ) == [
        "PGRELAY_SINK__PARTITIONS: sink.partitions: got 'x'; write a whole number",
        "PGRELAY_SINK__TOPIC_CONFIG: sink.topic_config.a: got a list; write text",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "source: {dsn: 'host=x password=hunter2 and more'}",
        "source: {dsn: 'postgresql://me:hunter2@[::1/x'}",
        "source: {dsn: 'postgresql://me:p4ss@hunter2@db/x'}",
        "source: {dsn: [hunter2]}",
        "source: {dsn: dbname=app}\nsink: {kafka: {sasl.password: [hunter2]}}",
        "source: {dsn: dbname=app}\nsink: {kafka: {sasl.password: 'hunter2${'}}",
        "source: {dsn: *hunter2}",
        "source: {dsn: !hunter2 {}}",
        "source: {dsn: !hunter2 }",
        "source: {dsn: &hunter2 }",
        "source: {dsn: !hunter2!x {}}",
        "source: {dsn: hunter2: x}",
        "source: {dsn: 'hunter2",
        'source: {dsn: "hunter2\\q"}',
        "source: {dsn: [hunter2}",
        "source: {dsn: hunter2\x01}",
    ],
)
def test_no_mistake_shows_a_secret(relay_yaml: Write, text: str) -> None:
    found = mistakes(relay_yaml(text))
    assert found
    assert "hunter2" not in "".join(found)


def _values() -> st.SearchStrategy[object]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=3,
    )


def _keys() -> st.SearchStrategy[dict[str, dict[str, object]]]:
    sections = {
        section: st.dictionaries(
            st.sampled_from([inner.alias or key for key, inner in field.annotation.model_fields.items()]),
            _values(),
            max_size=3,
        )
        for section, field in Config.model_fields.items()
        if field.annotation is not None
    }
    return st.fixed_dictionaries({}, optional=sections)


@given(tree=_keys())
def test_any_file_loads_or_gives_one_line_per_mistake(
    tree: dict[str, dict[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any-{os.getpid()}.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    lines: list[str] = []
    try:
        load(path, {})
    except SetupError as error:
        lines = str(error).splitlines()
    assert all(line.startswith(str(path)) for line in lines)
