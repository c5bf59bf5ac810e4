"""How secret values are masked."""

import json

import pytest

from pgrelay.config import Config, Records, SinkConfig, SourceConfig
from pgrelay.config.secrets import is_secret, mask_dsn, mask_error, mask_options, mask_text


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "ssl_key",
        "apikey",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.jaas.config",
        "basic.auth.user.info",
        "SASL.PASSWORD",
        "sasl.kerberos.kinit.cmd",
    ],
)
def test_names_of_secrets_are_recognized(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["sasl.username", "ssl.key.location", "client.id", "bootstrap.servers", "key.x", "key"]
)
def test_other_names_are_not_taken_for_secrets(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("", ""),
        ("host=db password='my secret'", "password=*** host=db"),
        ("postgresql://me:s%40cret@h1:1,h2:2/app", "user=me password=*** dbname=app host=h1,h2 port=1,2"),
        ("postgresql://h/app?password=x&sslpassword=y", "password=*** dbname=app host=h sslpassword=***"),
        ("sslkey=/etc/client.key", "sslkey=/etc/client.key"),
        ("password=x not a dsn", "***"),
    ],
)
def test_passwords_in_a_connection_string_are_masked(dsn: str, shown: str) -> None:
    assert mask_dsn(dsn) == shown


def test_secrets_in_options_are_masked() -> None:
    options = {
        "url": "https://me:pw@registry:8081/x,http://me:p@w@other",
        "sasl.password": "x",
        "client.id": "me@home",
        "proxy": "http://proxy/?apikey=x&user=y",
    }
    assert mask_options(options) == {
        "url": "https://***@registry:8081/x,http://***@other",
        "sasl.password": "***",
        "client.id": "me@home",
        "proxy": "http://proxy/?***",
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:hunter2@db/shop", "postgresql://***@db/shop"),
        ("sasl.password:hunter2", "sasl.password:***"),
        ("spark.hadoop.fs.s3a.secret.key = hun ter2", "spark.hadoop.fs.s3a.secret.key = ***"),
        ("host=db password='hun\nter2' user=me", "host=db password=***"),
        ("http://registry/?apikey=hunter2", "http://registry/?***"),
        ("http://registry/?apikey=a,hunter2", "http://registry/?***"),
        ("http://a/?apikey=hunter2,http://b/?apikey=hunter2", "http://a/?***,http://b/?***"),
        ('{"sasl.password": "hunter2"}', '{"sasl.password": ***'),
        ("passwd=hunter2", "passwd=***"),
        (f"postgresql://me:{'hunter2' * 100}@db", "postgresql://***@db"),
        ("shop.public.orders", "shop.public.orders"),
        ("public.key", "public.key"),
    ],
)
def test_what_looks_like_a_secret_in_any_text_is_masked(text: str, shown: str) -> None:
    assert mask_text(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SASL user me, a=hunter2 b=swordfish: denied", "SASL user me, ***: denied"),
        (
            "Unrecognized sasl.oauthbearer.config beginning at: dfish",
            "Unrecognized sasl.oauthbearer.config beginning at: ***",
        ),
        (
            "Unrecognized sasl.oauthbearer.config beginning at: h",
            "Unrecognized sasl.oauthbearer.config beginning at: ***",
        ),
        (
            "not a number: hunter2 (in sasl.oauthbearer.config)",
            "not a number: *** (in sasl.oauthbearer.config)",
        ),
        ("some2 says me2 may not", "some2 says *** may not"),
        ("ssl.key.password must be longer", "ssl.key.password must be longer"),
        ("no host is called 10.0.0.2", "no host is called 10.0.0.2"),
    ],
)
def test_secrets_in_a_clients_error_are_masked(text: str, shown: str) -> None:
    options = {
        "sasl.oauthbearer.config": "a=hunter2 b=swordfish",
        "ssl.key.password": "",
        "sasl.password": "me2",
        "client.id": "me",
    }
    assert mask_error(text, options) == shown


def test_an_empty_secret_changes_nothing() -> None:
    """For instance, of a variable that is not set."""
    assert mask_error("denied for Basic", {"basic.auth.user.info": ""}) == "denied for Basic"


BROKERS = {"bootstrap.servers": "localhost:9092"}


def config_with_secrets() -> Config:
    return Config(
        source=SourceConfig(dsn="postgresql://me:hunter2@db/app?sslpassword=hunter2"),
        sink=SinkConfig(kafka={**BROKERS, "sasl.username": "me", "sasl.password": "hunter2"}),
        records=Records.model_validate(
            {
                "schema_registry": {"url": "http://registry", "basic.auth.user.info": "me:hunter2"},
                "columns": {"hash": ["email"], "hash_key": "hunter2"},
            }
        ),
    )


def test_secrets_are_masked_for_display() -> None:
    shown = config_with_secrets().masked()
    assert shown["source"]["dsn"] == "user=me password=*** dbname=app host=db sslpassword=***"
    assert shown["sink"]["kafka"] == {**BROKERS, "sasl.username": "me", "sasl.password": "***"}
    assert shown["records"]["schema_registry"] == {"url": "http://registry", "basic.auth.user.info": "***"}
    assert shown["records"]["columns"]["hash_key"] == "***"
    assert shown["records"]["json"] == "string"
    assert json.loads(json.dumps(shown)) == shown


def test_a_secret_is_taken_as_it_is() -> None:
    assert config_with_secrets().records.columns.hash_key == "hunter2"


def test_secrets_are_not_in_the_repr() -> None:
    assert "hunter2" not in repr(config_with_secrets())
