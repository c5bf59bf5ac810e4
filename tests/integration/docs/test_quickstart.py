"""The quick start, command by command, on the test's servers instead of the reader's."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgrelay.embedded.postgres import Postgres
from tests.docs.pages import Block, blocks
from tests.integration.servers import KafkaServer
from tests.integration.waiting import wait_until
from tests.ports import held_port

STEPS = [block for block in blocks() if block.page == "docs/quickstart.md"]


class Reader:
    """Somebody who does what the page says, in their own folder."""

    def __init__(self, folder: Path, postgres: Postgres, kafka: KafkaServer, port: int) -> None:
        self._folder = folder
        self._postgres = postgres
        self._addresses = {
            "localhost:5432": f"127.0.0.1:{postgres.port}",
            "localhost:9092": kafka.bootstrap,
            "127.0.0.1:8080": f"127.0.0.1:{port}",
        }
        self._environment = {n: v for n, v in os.environ.items() if not n.startswith("PGRELAY_")}
        self._relay: subprocess.Popen[bytes] | None = None

    def stop(self) -> int:
        if self._relay is None:
            return 0
        self._relay.send_signal(signal.SIGINT)
        return self._relay.wait(60)

    def does(self, block: Block) -> str:
        """Run the block; return its output."""
        text = block.text
        for theirs, ours in self._addresses.items():
            text = text.replace(theirs, ours)
        if block.language == "yaml":
            (self._folder / "relay.yaml").write_text(text)
            return ""
        if block.language == "sql":
            return self._sql(text)
        if block.language == "python":
            return self._run([sys.executable, "-c", text])
        assert block.language == "sh", f"{block}: nobody does this"
        return "".join(self._shell(line) for line in text.splitlines())

    def _shell(self, line: str) -> str:
        if line.startswith(("python3 -m venv ", "pip ")):
            return ""  # .ci/packages tests how the wheel is built, and installed in an environment
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self._environment[name] = value
            return ""
        command = line.replace("pgrelay ", f"{sys.executable} -m pgrelay ", 1).split()
        if "reset" in command:
            assert self.stop() == 0
        if "run" in command:
            self._relay = subprocess.Popen(command, cwd=self._folder, env=self._environment)
            return ""
        if command[0] == "curl":
            assert shutil.which("curl"), "the page uses curl"
            wait_until(lambda: self._answers(command), line)
            return ""
        return self._run(command)

    def _answers(self, command: list[str]) -> bool:
        assert self._relay is not None
        assert self._relay.poll() is None, "the relay ended"
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self._folder, env=self._environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _sql(self, text: str) -> str:
        with psycopg.connect(self._postgres.dsn_of("app"), autocommit=True) as connection:
            for statement in text.split(";"):
                if statement.strip():
                    connection.execute(statement.encode())
        if "wal_level" in text:
            self._postgres.restart()
        return ""


def ask_for_passwords(dsn: str) -> None:
    """Make the server ask for the password of the page's role, as a newly installed one does."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("SHOW hba_file").fetchone()
        assert row is not None
        rules = Path(row[0])
        rules.write_text(f"host all pgrelay 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture
def reader(tmp_path: Path, kafka: KafkaServer) -> Iterator[Reader]:
    with Postgres() as postgres, held_port() as port:
        ask_for_passwords(postgres.create_database("app"))
        reader = Reader(tmp_path, postgres, kafka, port)
        try:
            yield reader
        finally:
            reader.stop()


def test_the_quick_start_works_command_by_command(reader: Reader) -> None:
    printed = [(block, reader.does(block)) for block in STEPS]
    told = {block.language: text for block, text in printed if text}
    [version, findings, forgotten] = [text for block, text in printed if block.language == "sh" and text]
    assert re.fullmatch(r"pgrelay \S+ \((compiled|interpreted)\)\n", version)
    assert findings.endswith("0 errors, 0 warnings\n")
    assert forgotten.startswith("slot pgrelay dropped, and its position in Kafka is forgotten")
    assert re.findall(r'^b\'({.*?})\' b\'.*"op":"(.)"', told["python"], re.MULTILINE) == [
        ('{"id":1}', "c"),
        ('{"id":1}', "u"),
    ]
