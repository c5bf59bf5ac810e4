"""What is left of a configuration without its defaults."""

from pathlib import Path

import yaml

from pgrelay.config import Config, load
from pgrelay.config.defaults import without_defaults

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"
SET = """\
source:
  dsn: dbname=app host=db
sink:
  kafka:
    bootstrap.servers: a:9092
    sasl.password: '***'
records:
  json: inline
  routes:
  - match: a
    topic: '{table}'
  columns:
    drop: []
    mask: [x]
    mask_with: '***'
    hash: []
    hash_key: null
http:
  listen: null
"""


def test_of_the_example_with_all_defaults_the_servers_are_left() -> None:
    shown = load(EXAMPLE, {}).masked()
    assert without_defaults(shown) == {
        "source": {"dsn": "dbname=app host=localhost port=5432"},
        "sink": {"kafka": {"bootstrap.servers": "localhost:9092"}},
    }


def test_what_was_set_is_left() -> None:
    tree = yaml.safe_load(SET)
    tree["sink"]["kafka"]["sasl.password"] = "hunter2"
    assert without_defaults(Config.model_validate(tree).masked()) == yaml.safe_load(SET)


def test_what_another_version_has_is_left() -> None:
    shown = {"log": {"level": "info", "colour": "red"}, "more": {"a": 1}}
    assert without_defaults(shown) == {"log": {"colour": "red"}, "more": {"a": 1}}
