"""Every key: its default, its allowed values, and how it is shown."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pgrelay.config import Config, Http, Records, SinkConfig, SourceConfig, Transactions, load
from pgrelay.config.selection import Route

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"
KAFKA = {"bootstrap.servers": "localhost:9092"}


def reason(error: pytest.ExceptionInfo[ValidationError]) -> str:
    (only,) = error.value.errors()
    return only["msg"].removeprefix("Value error, ")


def keys() -> Iterator[tuple[str, str]]:
    for section, field in Config.model_fields.items():
        assert field.annotation is not None
        for name, inner in field.annotation.model_fields.items():
            yield section, inner.alias or name


def test_the_example_holds_the_defaults() -> None:
    assert load(EXAMPLE, {}) == Config(
        source=SourceConfig(dsn="postgresql://localhost:5432/app"), sink=SinkConfig(kafka=KAFKA)
    )


def test_every_key_is_in_the_example() -> None:
    tree = yaml.safe_load(EXAMPLE.read_text())
    assert [(section, key) for section in tree for key in tree[section]] == list(keys())


def test_every_key_has_a_description_for_editors() -> None:
    schema = Config.model_json_schema()
    for section, key in keys():
        definition = schema["$defs"][schema["properties"][section]["$ref"].removeprefix("#/$defs/")]
        assert definition["properties"][key]["description"], f"{section}.{key}"
        assert definition["additionalProperties"] is False


def test_the_json_schema_names_required_keys() -> None:
    schema = Config.model_json_schema()
    sink = schema["$defs"]["SinkConfig"]
    assert schema["required"] == ["source", "sink"]
    assert sink["required"] == ["kafka"]
    assert sink["properties"]["kafka"]["required"] == ["bootstrap.servers"]


def test_names_and_defaults_are_as_promised() -> None:
    """This is promised to users: keys may be added, but these stay."""
    config = Config(source=SourceConfig(dsn=""), sink=SinkConfig(kafka=KAFKA))
    defaults = config.model_dump(by_alias=True)
    assert defaults["source"] == {
        "dsn": "",
        "slot": "pgrelay",
        "publications": ("pgrelay",),
        "create": True,
        "tables": (),
        "snapshot": "never",
        "protocol_version": "auto",
        "streaming": "auto",
        "binary": False,
        "messages": True,
        "two_phase": False,
        "origin": "any",
        "status_interval_s": 1.0,
    }
    assert defaults["sink"] == {
        "kafka": KAFKA,
        "delivery": "at_least_once",
        "create_topics": True,
        "partitions": 1,
        "replication_factor": 1,
        "topic_config": {},
        "shutdown_grace_s": 10.0,
    }
    assert defaults["records"] == {
        "prefix": "app",
        "topic": "{prefix}.{schema}.{table}",
        "routes": (),
        "tables": {"include": (), "exclude": ()},
        "columns": {"drop": (), "mask": (), "mask_with": "***", "hash": (), "hash_key": None},
        "format": "json",
        "envelope": "debezium",
        "key": True,
        "tombstones": True,
        "transaction_topic": False,
        "numeric": "string",
        "time": "iso",
        "binary": "base64",
        "json": "string",
        "unchanged": "omit",
        "headers": False,
        "schema_registry": {},
    }
    assert defaults["transactions"] == {"memory_mb": 64, "spool_dir": None}
    assert defaults["errors"] == {"on_record": "stop"}
    assert defaults["http"] == {"listen": "127.0.0.1:8080"}
    assert defaults["log"] == {"level": "info"}


@pytest.mark.parametrize("word", ["true", "yes", "on", "TRUE", "Yes", True])
def test_yamls_words_for_true_are_accepted(word: object) -> None:
    assert SourceConfig.model_validate({"dsn": "", "binary": word}).binary is True


@pytest.mark.parametrize("word", ["false", "no", "off", "Off", False])
def test_yamls_words_for_false_are_accepted(word: object) -> None:
    assert SourceConfig.model_validate({"dsn": "", "create": word}).create is False


@pytest.mark.parametrize("text", ["off", "on", "'off'"])
def test_streaming_off_is_a_choice_not_a_boolean(text: str, tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text(f"source: {{dsn: '', streaming: {text}}}\nsink: {{kafka: {{bootstrap.servers: a}}}}\n")
    assert load(path, {}).source.streaming == text.strip("'")


@pytest.mark.parametrize("name", ["a", "pgrelay_2", "0", "_", "a" * 63])
def test_valid_slot_names_are_accepted(name: str) -> None:
    assert SourceConfig(dsn="", slot=name).slot == name


@pytest.mark.parametrize("name", ["", "A", "a-b", "a.b", "ä", "a" * 64, "a\n"])
def test_invalid_slot_names_are_refused(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SourceConfig(dsn="", slot=name)
    assert reason(caught) == (
        f"{name!r} is not a valid slot name; use 1 to 63 lower-case letters, digits and underscores"
    )


@pytest.mark.parametrize("name", ["", "a" * 64, "ä" * 32])
def test_invalid_publication_names_are_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="is not a valid publication name; use 1 to 63 bytes"):
        SourceConfig(dsn="", publications=("good", name))


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ("public.orders", ("public", "orders")),
        ("sales.*", ("sales", None)),
        ("Sales.Ümlaut$", ("Sales", "Ümlaut$")),
        ('"a.b"."c d"', ("a.b", "c d")),
        ('"say ""hi""".t', ('say "hi"', "t")),
        ('public."*"', ("public", "*")),
    ],
)
def test_table_entries_are_split_into_schema_and_name(entry: str, names: tuple[str, str | None]) -> None:
    assert SourceConfig(dsn="", tables=(entry,)).table_names() == [names]


@pytest.mark.parametrize(
    "entry", ["orders", "a.b.c", "*.orders", "*", "a.or*", ".b", "a.", "a b.c", '"a.b', ""]
)
def test_invalid_table_entries_are_refused(entry: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(f"{entry!r} is not a table; write schema.table")):
        SourceConfig(dsn="", tables=(entry,))


@pytest.mark.parametrize("version", ["auto", "1", "4", 1, 4])
def test_protocol_versions_may_be_auto_or_numbers(version: object) -> None:
    read = SourceConfig.model_validate({"dsn": "", "protocol_version": version}).protocol_version
    assert read == (version if version == "auto" else int(str(version)))


@pytest.mark.parametrize(
    ("version", "keys", "line"),
    [
        (1, {"streaming": "on"}, "on needs protocol_version 2 or higher, not 1"),
        (3, {"streaming": "parallel"}, "parallel needs protocol_version 4 or higher, not 3"),
        (1, {"two_phase": True}, "true needs protocol_version 3 or higher, not 1"),
        (2, {"two_phase": True}, "true needs protocol_version 3 or higher, not 2"),
    ],
)
def test_a_feature_that_the_protocol_version_lacks_is_refused(
    version: int, keys: dict[str, object], line: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        SourceConfig.model_validate({"dsn": "", "protocol_version": version, **keys})
    assert reason(caught) == f"{line}; set source.protocol_version to auto"


@pytest.mark.parametrize(
    ("version", "keys"),
    [
        (1, {"streaming": "auto", "two_phase": False}),
        (1, {"streaming": "off"}),
        (2, {"streaming": "on"}),
        (3, {"two_phase": True}),
        (4, {"streaming": "parallel", "two_phase": True}),
        ("auto", {"streaming": "parallel", "two_phase": True}),
    ],
)
def test_a_feature_that_the_protocol_version_has_is_accepted(
    version: object, keys: dict[str, object]
) -> None:
    SourceConfig.model_validate({"dsn": "", "protocol_version": version, **keys})


@pytest.mark.parametrize("prefix", ["", "a b", "ä", "a/b", "{x}"])
def test_prefixes_that_kafka_refuses_are_refused(prefix: str) -> None:
    with pytest.raises(ValidationError, match="can't begin a topic name; use letters, digits, dots"):
        Records(prefix=prefix)


@pytest.mark.parametrize("topic", ["{table}", "{prefix}.{schema}.{table}", "cdc-{schema}_{table}.v1"])
def test_valid_topic_templates_are_accepted(topic: str) -> None:
    assert Records(topic=topic).topic == topic


@pytest.mark.parametrize(
    ("topic", "line"),
    [
        ("cdc", "'cdc' has no {table}: all tables would share a topic; add {table}"),
        ("{db}.{table}", "{db} is unknown here; use {prefix}, {schema} and {table}"),
        ("{}.{table}", "{} is unknown here; use {prefix}, {schema} and {table}"),
        ("{table!r}", "{table} takes no conversion or format; write {table} alone"),
        ("{table:>9}", "{table} takes no conversion or format; write {table} alone"),
        ("{table.x}", "{table.x} is unknown here; use {prefix}, {schema} and {table}"),
        (
            "a b.{table}",
            "'a b.' can't be part of a topic name; use letters, digits, dots, underscores and hyphens",
        ),
        ("{table", "'{table': expected '}' before end of string; use {prefix}, {schema} and {table}"),
    ],
)
def test_invalid_topic_templates_are_refused(topic: str, line: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Records(topic=topic)
    assert reason(caught) == line


@pytest.mark.parametrize("topic", ["", ".", ".."])
def test_a_route_to_an_invalid_topic_is_refused(topic: str) -> None:
    """${ORDERS:-} may give one. Without this check the first row of such a table would fail."""
    with pytest.raises(ValidationError) as caught:
        Route(match="public.orders", topic=topic)
    assert reason(caught) == f"{topic!r} names no topic; write one, such as {{prefix}}.orders"


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("[fe80::1%eth0]:80", ("fe80::1%eth0", 80)),
        ("bücher.example.:80", ("bücher.example.", 80)),
        ("null", None),
        (None, None),
    ],
)
def test_listen_is_a_host_and_port_or_null(listen: str | None, address: tuple[str, int] | None) -> None:
    assert Http(listen=listen).address == address


@pytest.mark.parametrize(
    "listen",
    [
        *("", "8080", ":8080", "host", "host:", "host:x", "host:65536", "::1:80", "[x]:80", "[]:80"),
        *("a..b:80", ".:80", f"{'x' * 64}:80", "\udcff:80"),
    ],
)
def test_an_invalid_listen_address_is_refused(listen: str) -> None:
    with pytest.raises(
        ValidationError, match=re.escape(f"{listen!r} is not host:port; write 127.0.0.1:8080")
    ):
        Http(listen=listen)


def test_spool_dir_is_a_path_or_null() -> None:
    assert Transactions.model_validate({"spool_dir": "/var/spool"}).spool_dir == Path("/var/spool")
    assert Transactions.model_validate({"spool_dir": "null"}).spool_dir is None


def test_spool_dir_may_begin_with_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/relay")
    assert Transactions.model_validate({"spool_dir": "~/spool"}).spool_dir == Path("/home/relay/spool")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "~no.such.account/x",
            "'~no.such.account/x': the home directory is not known; write the whole path",
        ),
        ("a\0b", "contains a NUL character, which no path can have; remove it"),
    ],
)
def test_invalid_spool_dirs_are_refused(text: str, line: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Transactions.model_validate({"spool_dir": text})
    assert reason(caught) == line


def test_kafka_options_of_any_type_become_text() -> None:
    options = SinkConfig.model_validate(
        {"kafka": {**KAFKA, "linger.ms": 5, "enable.idempotence": True, "x": 0.5, "y": "0.10"}}
    ).kafka
    assert options == {**KAFKA, "linger.ms": "5", "enable.idempotence": "true", "x": "0.5", "y": "0.10"}


@pytest.mark.parametrize(
    "kafka", [{}, {"bootstrap.servers": ""}, {"bootstrap.servers": " ,"}, {"metadata.broker.list": "a"}]
)
def test_bootstrap_servers_are_required(kafka: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        SinkConfig(kafka=kafka)
    assert reason(caught) == "missing; set it to the brokers, host:port,host:port"
    assert caught.value.errors()[0]["loc"] == ("kafka", "bootstrap.servers")


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        SourceConfig(dsn="").slot = "other"


@pytest.mark.parametrize("escape", ["\b", "\f", "\0"])
def test_a_pattern_that_double_quotes_have_changed_is_refused(escape: str) -> None:
    """`"public.\\border"` in YAML is a backspace and `order`."""
    with pytest.raises(ValidationError) as caught:
        Route.model_validate({"match": f"public.{escape}order", "topic": "t"})
    assert "contains a control character" in reason(caught)
    assert Route.model_validate({"match": "(?x) public\n\t[.] order", "topic": "t"})


def _choices() -> st.SearchStrategy[dict[str, dict[str, object]]]:
    section = st.fixed_dictionaries
    text = st.text().filter(lambda text: "${" not in text)  # in a file it is a variable
    return section(
        {
            "source": section(
                {"dsn": st.sampled_from(["", "dbname='a b'", "postgresql://h/d"])},
                optional={
                    "slot": st.from_regex(r"[a-z0-9_]{1,63}", fullmatch=True),
                    "tables": st.lists(st.sampled_from(["a.b", "c.*", '"x.y".z'])),
                    "streaming": st.sampled_from(["auto", "off", "on", "parallel"]),
                    "binary": st.booleans(),
                    "status_interval_s": st.floats(0.001, 1e6),
                },
            ),
            "sink": section(
                {"kafka": st.just(KAFKA)},
                optional={
                    "partitions": st.integers(1, 10**5),
                    "topic_config": st.dictionaries(text, text),
                },
            ),
        },
        optional={
            "records": section({}, optional={"json": st.sampled_from(["string", "inline"])}),
            "http": section({}, optional={"listen": st.sampled_from([None, "a:1", "[::]:0"])}),
        },
    )


@given(tree=_choices())
def test_a_configuration_written_to_a_file_is_read_back(
    tree: dict[str, dict[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = Config.model_validate(tree)
    path = tmp_path_factory.getbasetemp() / "back.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json", by_alias=True)))
    assert load(path, {}) == config
