"""The demo as a user runs it: on real servers, to its end and with an interruption."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pgrelay.demo.shop import TABLES
from tests.integration.waiting import wait_until

_TIMEOUT_S = 120


@pytest.fixture
def folder() -> Iterator[Path]:
    """The demo's folder, by whose name everything is found that the demo leaves behind."""
    with tempfile.TemporaryDirectory(prefix="pgrelay-test-demo-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pgrelay", "demo", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1", **environment},
    )


def finish(process: subprocess.Popen[str], timeout_s: float = _TIMEOUT_S) -> tuple[str, str]:
    """Its stdout and stderr; skips the test if the servers are not available."""
    out, err = process.communicate(timeout=timeout_s)
    if re.search("can't fetch|pip install", err) and not os.environ.get("CI"):
        pytest.skip(err)
    return out, err


def running_in(folder: Path) -> list[str]:
    listed = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(folder) in line]


def test_ends_by_itself_with_the_proof_and_leaves_nothing_behind(folder: Path) -> None:
    process = start(folder, "--rows", "60")
    out, err = finish(process)
    assert (process.returncode, err) == (0, "")
    assert "the topics, folded, equal the 5 tables: " in out
    assert "rows at savepoints; none of them is in Kafka" in out
    assert "1 large transaction sent before commit" in out
    # One line, unless a slow machine shows the rest in parts.
    held_back = re.findall(r"… supplier_prices (\S+) more of transaction", out)
    assert sum(int(count.replace(",", "")) for count in held_back) == 4_991
    assert "60 row changes shown above" in out
    assert "relay        stopped with exit code 0" in out
    assert "\x1b" not in out
    assert running_in(folder) == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("arguments", "code"), [((), 0), (("--rows", "5000"), 130)], ids=["endless", "rows"])
def test_an_interrupted_demo_still_shows_the_proof(
    folder: Path, arguments: tuple[str, ...], code: int
) -> None:
    """What ends it only with so many rows was not done; the other is never done."""
    process = start(folder, *arguments)
    assert process.stdout is not None
    for line in process.stdout:
        if " c customers" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = finish(process)
    assert (process.returncode, err) == (code, "")
    assert "the topics, folded, equal the 5 tables: " in out
    assert running_in(folder) == []
    assert list(folder.iterdir()) == []


def test_a_demo_of_rows_that_is_stopped_before_the_first_tells_by_its_exit_code(folder: Path) -> None:
    process = start(folder, "--rows", "60")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("A shop on Postgres")
    process.send_signal(signal.SIGTERM)
    out, err = finish(process)
    assert (process.returncode, err) == (143, "")
    assert " c customers" not in out
    assert list(folder.iterdir()) == []


def test_the_log_of_a_relay_that_ended_is_shown(folder: Path) -> None:
    process = start(folder)
    assert process.stdout is not None
    for line in process.stdout:
        if " c customers" in line:
            break
    [relay] = folder.glob("pgrelay-demo-*/relay.log")
    pids = subprocess.run(
        ["pgrep", "-f", str(relay.parent / "pgrelay.yaml")], capture_output=True, check=True
    )
    os.kill(int(pids.stdout), signal.SIGKILL)
    _, err = finish(process)
    assert process.returncode == 1
    assert err.startswith("pgrelay: the relay has ended; the end of its log:\n")
    assert '"event": "streaming"' in err
    assert running_in(folder) == []
    assert list(folder.iterdir()) == []


def test_without_network_it_says_that_kafka_can_not_be_fetched(folder: Path) -> None:
    process = start(folder, HOME=str(folder / "home"), https_proxy="http://127.0.0.1:9")
    out, err = process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 1
    assert "fetching lz4-java" in out
    [line] = err.splitlines()
    printed = r"pgrelay: can't fetch \S+\.jar: .*; run again with access to Maven Central, .* names"
    assert re.fullmatch(printed, line)
    assert running_in(folder) == []
    assert list(folder.iterdir()) == []


def test_environment_variables_do_not_lead_to_other_servers(folder: Path) -> None:
    elsewhere = {
        "PGHOSTADDR": "192.0.2.1",
        "PGRELAY_SOURCE__DSN": "host=192.0.2.1",
        "PGOPTIONS": "-c nonsense=1",
    }
    process = start(folder, "--rows", "1", **elsewhere)
    _, err = finish(process)
    assert (process.returncode, err) == (0, "")


def test_kept_servers_can_be_reached_and_stopped_with_the_printed_commands(folder: Path) -> None:
    process = start(folder, "--rows", "1", "--keep")
    out, err = finish(process)
    assert (process.returncode, err) == (0, "")
    printed = dict(
        re.findall(r"^(Postgres|Kafka|go on|stop both) +(.+)$", out.partition("keep running")[2], re.M)
    )
    try:
        counted = shell(f"{printed['Postgres']} -Atc 'SELECT count(*) FROM customers'")
        assert counted.stdout == "1\n"
        client = AdminClient(dict([printed["Kafka"].split("=")]))
        assert "shop.public.customers" in client.list_topics(timeout=60).topics
        assert running_in(folder) != []
    finally:
        shell(printed["stop both"])
    wait_until(lambda: not running_in(folder), "their end")
    assert list(folder.iterdir()) == []


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, shell=True, capture_output=True, text=True, timeout=_TIMEOUT_S)


@pytest.mark.xdist_group("spark")
def test_with_spark_the_lake_equals_the_tables(folder: Path) -> None:
    process = start(folder, "--spark", "--rows", "20")
    out, err = finish(process, 2 * _TIMEOUT_S)
    assert (process.returncode, err) == (0, "")
    tables = re.findall(r"^(\w+) +([\d,]+) +([\d,]+)  equal$", out, re.MULTILINE)
    assert [name for name, _, _ in tables] == list(TABLES)
    assert all(here == there for _, here, there in tables)
    assert re.search(r"lake lag +[\d.]+ s from commit to lake, [\d.]+ s at most; up to LSN \w+/\w+", out)
    assert running_in(folder) == []
    assert list(folder.iterdir()) == []
