"""Setting keys of `source` in a configuration's text: everything else stays byte for byte."""

from pathlib import Path

import pytest
import yaml

from pgrelay.errors import SetupError
from pgrelay.plan.source_keys import Value, set_source_keys

VALUES: dict[str, Value] = {"slot": "s_1", "tables": ["public.a", '"a b".c'], "create": False}
EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"


def read_back(text: str) -> dict[str, object]:
    section = yaml.safe_load(set_source_keys(text, VALUES, "x.yaml"))["source"]
    assert isinstance(section, dict)
    return section


@pytest.mark.parametrize(
    "text",
    [
        "source:\n  dsn: x\n  slot: s\n  tables: [a.b]\n  create: true\nsink: {}\n",
        "source:\n  dsn: x\n  tables:\n  - a.b   # first\n  - c.d\n  slot: s\nsink: {}\n",
        "source:\n  dsn: x\n  tables:   # all of them\n    - a.b\n\n\n# the other end\nsink: {}\n",
        "source: {dsn: x, slot: s}\nsink: {}\n",
        '{"sink": {}, "source": {"slot":"s","dsn":"x","create":true}}',
        "sink: {}\nsource:\n  dsn: x\n  slot:\n  create:",
        "source:\n    'slot': \"s\"\n    dsn: x\nsink: {}\n",
        "source: &ours\n  dsn: x\n  slot: s\nsink: {}\n",
        "source: !!map &ours {dsn: x}\nsink: {}\n",
        "source:\n  slot: |-\n    s\n  tables:\n  - >-\n    a.b\n\n  # ours\n  dsn: x\nsink: {}\n",
    ],
)
def test_keys_are_set_in_every_yaml_style(text: str) -> None:
    assert read_back(text) == {"dsn": "x", **VALUES}
    assert yaml.safe_load(set_source_keys(text, VALUES, "x.yaml"))["sink"] == {}


@pytest.mark.parametrize(
    "text", ["sink: {}\n", "source:\nsink: {}\n", '{"sink": {}}', "sink: {}\nsource: ~\n"]
)
def test_a_missing_section_is_added(text: str) -> None:
    assert read_back(text) == VALUES


def test_everything_else_stays_as_written() -> None:
    before = EXAMPLE.read_text().splitlines()
    after = set_source_keys(EXAMPLE.read_text(), VALUES, "x.yaml").splitlines()
    changed = [(old.split("#"), new.split("#")) for old, new in zip(before, after, strict=True) if old != new]
    assert [old[0].split(":")[0].strip() for old, _ in changed] == ["slot", "create", "tables"]
    assert all(old[1:] == new[1:] for old, new in changed), "a comment was lost"


def test_an_alias_is_refused() -> None:
    text = "sink: {kafka: {client.id: &name s}}\nsource:\n  dsn: x\n  slot: *name\n"
    with pytest.raises(SetupError, match=r"x\.yaml: slot is a YAML alias, .* change; write it out"):
        set_source_keys(text, VALUES, "x.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "sink: {kafka: {client.id: &name a.c}}\nsource:\n  tables:\n  - a.b\n  - *name\n  dsn: x\n",
        "source:\n  tables:\n  - &name a.b\n  - *name\n  dsn: x\nsink: {}\n",
    ],
    ids=["of something else", "of an entry"],
)
def test_an_alias_at_the_end_of_a_list_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match=r"x\.yaml: .*, once source\.tables is set; write out what"):
        set_source_keys(text, VALUES, "x.yaml")


def test_an_anchor_that_an_alias_needs_is_refused() -> None:
    text = "source:\n  dsn: x\n  slot: &name s\nsink: {kafka: {client.id: *name}}\n"
    with pytest.raises(SetupError, match=r"x\.yaml: found undefined alias 'name', once source\.slot is set"):
        set_source_keys(text, VALUES, "x.yaml")
