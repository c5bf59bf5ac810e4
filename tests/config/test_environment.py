"""Variables in values, and variables that override keys."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.config import Config
from pgrelay.config.environment import Override, apply_overrides, find_overrides, substitute
from pgrelay.config.yaml_document import Tree
from pgrelay.errors import SetupError

# What the environment can hold: any text without NUL characters.
anything = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def replaced(value: Tree, environ: Mapping[str, str]) -> Tree:
    return substitute(value, environ, "f.yaml", skip=frozenset())


def mistake(value: Tree, environ: Mapping[str, str]) -> str:
    with pytest.raises(SetupError) as caught:
        replaced({"a": {"b": value}}, environ)
    return str(caught.value)


@given(text=anything)
def test_a_variables_value_is_kept_and_not_substituted_again(text: str) -> None:
    environ = {"V": text, "W": "not this"}
    assert replaced({"a": {"b": ["<${V}>"]}}, environ) == {"a": {"b": [f"<{text}>"]}}


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        ("${SET}", "yes"),
        ("${SET:-no}", "yes"),
        ("${EMPTY}", ""),
        ("${EMPTY:-no}", "no"),
        ("${UNSET:-no}", "no"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a:-b $c}", "a:-b $c"),
        ("${SET}${SET}", "yesyes"),
        ("$${SET}{", "$yes{"),
        ("$SET $ $$ {SET} {prefix}", "$SET $ $$ {SET} {prefix}"),
    ],
)
def test_values_with_variables_are_substituted(value: str, becomes: str) -> None:
    assert replaced(value, {"SET": "yes", "EMPTY": ""}) == becomes


@pytest.mark.parametrize(
    "value", ["${", "${}", "${1X}", "${X", "${X-y}", "${X:y}", "${X }", "a${X:-b", "${X:-${X}}", "${X:-${Y}}"]
)
def test_a_dollar_brace_without_a_variable_name_is_refused(value: str) -> None:
    assert mistake(value, {"X": "1"}) == (
        "f.yaml: a.b: contains a ${ without a variable's name, or a nested one; "
        "write ${NAME} or ${NAME:-default}, "
        "or put all of the value into a variable if it is meant as it stands"
    )


def test_a_missing_variable_is_named() -> None:
    assert (
        mistake("${X}", {}) == "f.yaml: a.b: X is not set in the environment; set it, or write ${X:-default}"
    )


def test_a_variable_that_is_not_utf8_is_named_and_not_shown() -> None:
    assert mistake("${X}", {"X": "key\udcff"}) == (
        "f.yaml: a.b: X contains bytes that are not UTF-8; write them as text, such as base64"
    )
    with pytest.raises(SetupError) as caught:
        find_overrides({"PGRELAY_RECORDS__COLUMNS__HASH_KEY": "key\udcff"}, Config)
    assert str(caught.value) == (
        "PGRELAY_RECORDS__COLUMNS__HASH_KEY: records.columns: contains bytes that are not UTF-8; "
        "write them as text, such as base64"
    )


def test_keys_and_null_values_are_not_substituted() -> None:
    assert replaced({"${X}": None}, {"X": "1"}) == {"${X}": None}


@given(text=anything)
def test_an_override_of_a_text_key_is_kept_as_it_is(text: str) -> None:
    assert find_overrides({"PGRELAY_SOURCE__DSN": text}, Config) == [
        Override("PGRELAY_SOURCE__DSN", ("source", "dsn"), text)
    ]


@pytest.mark.parametrize("text", ["pepper #1", '"pepper"', "null", " pepper", "a: b", "*pepper", ""])
@pytest.mark.parametrize("key", ["hash_key", "mask_with"])
def test_an_override_of_a_text_below_a_key_is_kept_as_it_is(key: str, text: str) -> None:
    """`pepper #1` lost its comment once, so hashes differed from those with ${HASH_KEY}."""
    variable = f"PGRELAY_RECORDS__COLUMNS__{key.upper()}"
    assert find_overrides({variable: text}, Config) == [Override(variable, ("records", "columns", key), text)]


@pytest.mark.parametrize(
    ("variable", "text", "path", "value"),
    [
        ("PGRELAY_RECORDS__JSON", "inline", ("records", "json"), "inline"),
        ("PGRELAY_SOURCE__TABLES", "[a.b, c.*]", ("source", "tables"), ["a.b", "c.*"]),
        ("PGRELAY_SINK__KAFKA", "{linger.ms: 5}", ("sink", "kafka"), {"linger.ms": "5"}),
        ("PGRELAY_RECORDS__TABLES__INCLUDE", "[a, b]", ("records", "tables", "include"), ["a", "b"]),
        ("PGRELAY_SINK__KAFKA__LINGER_MS", "[5", ("sink", "kafka", "linger.ms"), "[5"),
        ("PGRELAY_SINK__KAFKA__linger.ms", "5", ("sink", "kafka", "linger.ms"), "5"),
        ("PGRELAY_SINK__TOPIC_CONFIG__RETENTION_MS", "5", ("sink", "topic_config", "retention.ms"), "5"),
    ],
)
def test_an_override_is_found_by_its_path(
    variable: str, text: str, path: tuple[str, ...], value: Tree
) -> None:
    assert find_overrides({variable: text}, Config) == [Override(variable, path, value)]


def test_variables_without_a_double_underscore_are_not_overrides() -> None:
    environ = {"PGRELAY_TEST_POSTGRES": "x", "PGRELAY_TEST_KAFKA": "x", "SOURCE__DSN": "x", "PGHOST": "x"}
    assert find_overrides(environ, Config) == []


def test_a_key_with_a_single_underscore_is_refused_unless_the_file_refers_to_it() -> None:
    environ = {"PGRELAY_SOURCE_SLOT": "x", "PGRELAY_RECORDS_COLUMNS": "x"}
    with pytest.raises(SetupError) as caught:
        find_overrides(environ, Config, "source: {dsn: '', slot: shop}")
    assert str(caught.value).splitlines() == [
        "PGRELAY_SOURCE_SLOT: overrides nothing; write PGRELAY_SOURCE__SLOT for source.slot",
        "PGRELAY_RECORDS_COLUMNS: overrides nothing; write PGRELAY_RECORDS__COLUMNS for records.columns",
    ]
    assert find_overrides({"PGRELAY_SOURCE_SLOT": "x"}, Config, "slot: ${PGRELAY_SOURCE_SLOT}") == []


def test_a_section_alone_is_refused_unless_the_file_refers_to_it() -> None:
    line = "^PGRELAY_LOG: overrides nothing; name a key of log too, such as PGRELAY_LOG__LEVEL$"
    with pytest.raises(SetupError, match=line):
        find_overrides({"PGRELAY_LOG": "debug"}, Config)
    assert find_overrides({"PGRELAY_LOG": "debug"}, Config, "log: {level: '${PGRELAY_LOG}'}") == []


def test_an_entry_of_a_mapping_with_single_underscores_is_refused_too() -> None:
    variable = "PGRELAY_SINK_KAFKA_BOOTSTRAP_SERVERS"
    with pytest.raises(SetupError) as caught:
        find_overrides({variable: "x", f"{variable}_OF_MINE": "x"}, Config, f"${{{variable}_OF_MINE}}")
    assert str(caught.value) == (
        f"{variable}: overrides nothing; write PGRELAY_SINK__KAFKA__BOOTSTRAP_SERVERS for an entry of "
        "sink.kafka"
    )
    meant = "PGRELAY_RECORDS__COLUMNS__DROP for an entry of records.columns"
    with pytest.raises(SetupError, match=f"^PGRELAY_RECORDS_COLUMNS_DROP: overrides nothing; write {meant}$"):
        find_overrides({"PGRELAY_RECORDS_COLUMNS_DROP": "x", "PGRELAY_RECORDS_COLUMNS_OTHER": "x"}, Config)


@pytest.mark.parametrize(
    ("variable", "line"),
    [
        ("PGRELAY_SOURCE__SLTO", "source.slto: unknown key; did you mean slot?"),
        ("PGRELAY__DSN", "names no key; write PGRELAY_SECTION__KEY, such as PGRELAY_SOURCE__DSN"),
        ("PGRELAY_LOG__", "log.: unknown key; known keys: level"),
        ("PGRELAY_SINKS__KAFKA", "sinks: unknown key; did you mean sink?"),
        (
            "PGRELAY_SOURCE__SLOT__X",
            "source.slot: has no keys of its own; set PGRELAY_SOURCE__SLOT",
        ),
        (
            "PGRELAY_SINK__KAFKA__BOOTSTRAP__SERVERS",
            "sink.kafka: one underscore stands for a dot; write PGRELAY_SINK__KAFKA__BOOTSTRAP_SERVERS",
        ),
        (
            "PGRELAY_sink__kafka__bootstrap___servers",
            "sink.kafka: one underscore stands for a dot; write PGRELAY_SINK__KAFKA__BOOTSTRAP_SERVERS",
        ),
    ],
)
def test_an_override_of_an_unknown_key_is_refused(variable: str, line: str) -> None:
    with pytest.raises(SetupError) as caught:
        find_overrides({variable: "x"}, Config)
    assert str(caught.value) == f"{variable}: {line}"


def test_all_bad_overrides_are_reported_together() -> None:
    with pytest.raises(SetupError) as caught:
        find_overrides({"PGRELAY_LOG__A": "", "PGRELAY_LOG__B": ""}, Config)
    assert str(caught.value).splitlines() == [
        "PGRELAY_LOG__A: log.a: unknown key; known keys: level",
        "PGRELAY_LOG__B: log.b: unknown key; known keys: level",
    ]


def test_bad_yaml_in_an_override_names_the_variable() -> None:
    with pytest.raises(SetupError, match=r"^PGRELAY_SOURCE__TABLES:1: a bracket or quote is never closed"):
        find_overrides({"PGRELAY_SOURCE__TABLES": "[a.b"}, Config)


def test_an_override_of_an_entry_goes_into_an_overridden_mapping() -> None:
    tree: dict[str, Tree] = {"sink": {"kafka": {"acks": "all"}}}
    environ = {"PGRELAY_SINK__KAFKA__LINGER_MS": "5", "PGRELAY_SINK__KAFKA": "{client.id: me}"}
    apply_overrides(tree, find_overrides(environ, Config))
    assert tree == {"sink": {"kafka": {"client.id": "me", "linger.ms": "5"}}}


def test_missing_levels_are_created() -> None:
    tree: dict[str, Tree] = {"sink": None}
    apply_overrides(tree, [Override("V", ("sink", "kafka", "linger.ms"), "5")])
    assert tree == {"sink": {"kafka": {"linger.ms": "5"}}}


def test_a_level_that_is_not_a_mapping_is_left_to_validation() -> None:
    tree: dict[str, Tree] = {"sink": "text"}
    apply_overrides(tree, [Override("V", ("sink", "kafka"), {})])
    assert tree == {"sink": "text"}


def test_a_variable_in_an_overridden_key_is_not_substituted() -> None:
    tree: Tree = {"source": {"dsn": "${secret", "slot": "${S}"}}
    skip = frozenset({("source", "dsn")})
    assert substitute(tree, {"S": "s"}, "f", skip) == {"source": {"dsn": "${secret", "slot": "s"}}
