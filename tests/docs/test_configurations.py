"""The configurations shown load, and the keys named exist."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from pgrelay.config import Config, load
from tests.docs.pages import ROOT, Block, blocks, pages

_SECTIONS = frozenset(Config.model_fields)
_KEY = re.compile(rf"`({'|'.join(_SECTIONS)})\.([a-z_]+)")
_REFERENCE = re.compile(r"\$\{([A-Z_]+)\}")


def configurations() -> list[Block]:
    """The blocks whose top level has our sections; other YAML is not a configuration of ours."""
    return [block for block in blocks("yaml") if _is_ours(yaml.safe_load(block.text))]


def _is_ours(document: Any) -> bool:
    return isinstance(document, dict) and set(document) <= _SECTIONS


def test_configurations_are_found() -> None:
    assert {"README.md", "docs/avro.md", "docs/security.md"} <= {block.page for block in configurations()}


@pytest.mark.parametrize("block", configurations(), ids=str)
def test_a_configuration_loads(block: Block, tmp_path: Path) -> None:
    document = yaml.safe_load(block.text)
    # Add what every configuration needs, since many blocks show only a part.
    document.setdefault("source", {}).setdefault("dsn", "postgresql://localhost/app")
    document.setdefault("sink", {}).setdefault("kafka", {}).setdefault("bootstrap.servers", "localhost:9092")
    path = tmp_path / "relay.yaml"
    path.write_text(json.dumps(document))
    load(path, dict.fromkeys(_REFERENCE.findall(block.text), "secret"))


@pytest.mark.parametrize("block", [block for block in configurations() if "dsn" in block.text], ids=str)
def test_a_whole_configuration_loads_unchanged(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"
    path.write_text(block.text)
    if "sink" not in yaml.safe_load(block.text):
        pytest.skip("a part of one")
    load(path, dict.fromkeys(_REFERENCE.findall(block.text), "secret"))


SHIPPED = [path.relative_to(ROOT) for path in sorted(ROOT.glob("deploy/**/relay.yaml"))]
SHOWN = [block.text for block in configurations() if "dsn" in block.text]


@pytest.mark.parametrize("text", [*((ROOT / path).read_text() for path in SHIPPED), *SHOWN])
def test_no_password_is_in_a_uri(text: str) -> None:
    """Some of its characters would mean something else there, so a part of it could become the host."""
    dsn = yaml.safe_load(text)["source"]["dsn"]
    assert "${" not in dsn
    assert "password" not in conninfo_to_dict(dsn)


# A function, and an option of Debezium.
_OTHERS = {"errors.verdict", "errors.tolerance"}

# Members of records under `source`, ours or Debezium's, which are no keys of ours.
_MEMBERS = {
    "commit_lsn",
    "seq",
    "lsn",
    "name",
    "ts_",
    "ts_ms",
    "ts_us",
    "ts_ns",
    "origin_lsn",
    "txId",
    "sequence",
    "xmin",
    "op",
    "version",
}


@pytest.mark.parametrize("page", [page for page in pages() if page != "CHANGELOG.md"])
def test_keys_named_in_pages_exist(page: str) -> None:
    models = {name: field.annotation for name, field in Config.model_fields.items()}
    unknown = []
    for section, key in _KEY.findall(pages()[page]):
        model: Any = models[section]
        names = {field.alias or name for name, field in model.model_fields.items()}
        if key not in names and not (section == "source" and key in _MEMBERS):
            unknown.append(f"{section}.{key}")
    assert set(unknown) <= _OTHERS
