"""A schema registry that does not answer as it should is told of by its name, and not by its password."""

from collections.abc import Callable

import pytest

from pgrelay.errors import PgrelayError, SetupError
from pgrelay.spark.schemas.registry import Registry
from tests.ports import held_port


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda registry: registry.of_ids([7]), "the schema of id 7, which a record begins with"),
        (lambda registry: registry.of_topic("app.public.t"), "subject app.public.t-value"),
        (lambda registry: registry.latest("app.public.t"), "its subjects"),
    ],
    ids=["of_ids", "of_topic", "latest"],
)
def test_one_that_is_away_is_named(ask: Callable[[Registry], object], what: str) -> None:
    with held_port() as port:
        registry = Registry({"url": f"http://us:sesame@127.0.0.1:{port}", "max.retries": 0})
        with pytest.raises(
            PgrelayError, match=f"registry http://.*127.0.0.1:{port}, asked for {what}: "
        ) as told:
            ask(registry)
    assert str(told.value).startswith(f"schema registry http://***@127.0.0.1:{port}, ")


def test_options_that_cannot_be_right_are_refused() -> None:
    with pytest.raises(SetupError, match=r"schema registry http://r: .*tiemout; correct its options"):
        Registry({"url": "http://r", "tiemout": "5"})
