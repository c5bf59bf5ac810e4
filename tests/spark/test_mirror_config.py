"""The configuration of `pgrelay spark-mirror`: what loads, and the line for each mistake."""

from pathlib import Path

import pytest

from pgrelay.errors import SetupError
from pgrelay.spark_mirror.config import load
from tests.docs.pages import blocks

LEAST = (
    "kafka: {servers: 'localhost:9092'}\nlake:\n  warehouse: /lake\n  tables: {app.public.orders: orders}\n"
)


def test_the_smallest_file_has_the_documented_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mirror.yaml"
    path.write_text(LEAST)
    config = load(path, {})
    assert (config.kafka.prefix, config.lake.using, config.spark.master) == ("app", "delta", "local[*]")
    assert config.checkpoint == "/lake/_checkpoints/app"
    assert config.http.address == ("127.0.0.1", 8081)


@pytest.mark.parametrize("warehouse", ["s3a://bucket/lake", "dbfs:/lake", "file:/lake", "S3A://bucket/lake"])
def test_a_warehouse_with_a_scheme_is_kept(tmp_path: Path, warehouse: str) -> None:
    path = tmp_path / "mirror.yaml"
    path.write_text(LEAST.replace("/lake", f"{warehouse}/"))
    config = load(path, {})
    assert config.lake.warehouse == warehouse
    assert config.checkpoint == f"{warehouse}/_checkpoints/app"


@pytest.mark.parametrize("warehouse", ["lake", "./lake"])
def test_a_warehouse_without_a_scheme_is_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warehouse: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mirror.yaml").write_text(LEAST.replace("/lake", warehouse))
    assert load("mirror.yaml", {}).lake.warehouse == str(tmp_path / "lake")


@pytest.mark.parametrize(("unchanged", "placeholder"), [("omit", None), ("placeholder", True)])
def test_kafka_unchanged_decides_whether_the_placeholder_is_expected(
    tmp_path: Path, unchanged: str, placeholder: bool | None
) -> None:
    path = tmp_path / "mirror.yaml"
    path.write_text(LEAST.replace("}", f", unchanged: {unchanged}}}", 1))
    assert load(path, {}).kafka.placeholder is placeholder


def test_configurations_in_the_documentation_load(tmp_path: Path) -> None:
    shown = [block for block in blocks("yaml") if "warehouse:" in block.text]
    assert shown
    for block in shown:
        path = tmp_path / "mirror.yaml"
        path.write_text(block.text)
        load(path, {"KAFKA_PASSWORD": "secret"})


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("lake: {warehouse: /lake, tables: {a.b.c: d}}", "kafka.servers: missing; set it to the brokers"),
        (LEAST + "  using: hudi", "lake.using: got 'hudi'; write delta or iceberg"),
        (LEAST + "  usign: delta", "lake.usign: unknown key; did you mean using?"),
        (LEAST + "  every_s: 0", "lake.every_s: got '0'; write more than 0"),
        (LEAST + "  upkeep_every_h: 0", "lake.upkeep_every_h: got '0'; write more than 0"),
        (
            LEAST + "  text_columns: {app.public.order: [at]}",
            "lake.text_columns.app.public.order: no such topic",
        ),
        (
            LEAST + "  history: true\n  whole_transactions: true",
            "lake.history: a history has no whole_transactions; set one of the two",
        ),
        (LEAST + "http: {listen: here}", "http.listen: 'here' is not host:port"),
        (
            "kafka: {servers: x}\nlake: {warehouse: /lake, tables: {}}",
            "lake.tables: got an empty mapping; write at least 1 entry",
        ),
        (
            "kafka: {servers: ''}\nlake: {warehouse: /lake, tables: {a.b.c: d}}",
            "kafka.servers: got ''; write text that is not empty",
        ),
        (
            "kafka: {servers: 'k1:9092 k2:9092'}\nlake: {warehouse: /lake, tables: {a.b.c: d}}",
            "kafka.servers: 'k1:9092 k2:9092' is not host:port; write host:port,host:port",
        ),
        (
            LEAST + "  text_columns: {app.public.orders: at}",
            "lake.text_columns.app.public.orders: got 'at'; write a list, such as [a, b]",
        ),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, more: str, line: str) -> None:
    path = tmp_path / "mirror.yaml"
    path.write_text(more)
    with pytest.raises(SetupError) as caught:
        load(path, {})
    assert str(caught.value).startswith(f"{path}: {line}")
    assert "\n" not in str(caught.value)
