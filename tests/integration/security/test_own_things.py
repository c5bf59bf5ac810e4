"""What the relay keeps private: spool files for its account only, and the status for this machine only."""

import contextlib
import os
import socket
import stat
from pathlib import Path

import psycopg
import pytest

from pgrelay.config.fields import split_listen
from pgrelay.config.model import Http
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WRONG, last_words
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until

_LISTENS = "0A"


@pytest.mark.parametrize("umask", [0o000, 0o177], ids=["open", "closed"])
def test_spool_files_are_private_under_any_umask(
    database: Database, secured: NewRelay, tmp_path: Path, umask: int
) -> None:
    """Files of open and of prepared transactions. We can read them when they are needed."""
    database.execute("ALTER DATABASE app SET logical_decoding_work_mem = '64kB'")
    spool = tmp_path / "new" / "spool"
    relay = secured(source={"two_phase": True}, transactions={"memory_mb": 1, "spool_dir": str(spool)})
    ours = os.umask(umask)
    try:
        relay.start()
    finally:
        os.umask(ours)
    relay.wait_streaming()
    insert = "INSERT INTO orders SELECT i, repeat('x', 300) FROM generate_series(%s::int, %s) i"
    with psycopg.connect(database.dsn) as writer:
        writer.execute(insert, [1, 10_000])
        with database.connect() as other:
            other.execute(f"BEGIN; {insert % (10_001, 10_010)}; PREPARE TRANSACTION 'p'")
        kinds = {".spool", ".frames", ".prepared"}
        relay.wait_for(lambda: {path.suffix for path in files(spool)} == kinds, "each kind of file")
        assert {stat.S_IMODE(path.stat().st_mode) for path in files(spool)} == {0o600}
        folders = [spool.parent, spool, *(path for path in spool.rglob("*") if path.is_dir())]
        assert len(folders) == 3
        assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    database.execute("COMMIT PREPARED 'p'")
    relay.caught_up()
    assert len(relay.records("orders")) == 10_010
    assert relay.stop() == 0


def test_a_link_made_by_another_account_is_not_followed(
    database: Database, secured: NewRelay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a configured spool_dir. The links stand for those that anybody can create in /tmp."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    relay = secured(transactions={"spool_dir": None})
    with database.connect() as connection:
        row = connection.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone()
    assert row is not None
    links, ours = tmp_path / "links", tmp_path / "ours"
    ours.mkdir()
    (ours / "draft.tmp").write_text("unsaved")
    links.mkdir()
    (links / f"{row[0]}-{relay.prefix}").symlink_to(ours)
    (tmp_path / f"pgrelay-{os.getuid()}").symlink_to(links)
    assert "another account may have created it" in relay.command("reset").stderr
    assert "another account may have created it" in last_words(relay.start(), WRONG)
    assert (ours / "draft.tmp").exists()


def files(spool: Path) -> list[Path]:
    return [path for path in spool.rglob("*") if path.is_file()]


def test_by_default_the_status_is_only_on_this_machine(database: Database, secured: NewRelay) -> None:
    """This is the default of http.listen."""
    default = Http().listen
    assert default is not None
    relay = secured(http={"listen": default})
    try:
        with socket.create_server(split_listen(default)):
            pass
    except OSError:
        pytest.skip(f"{default} is taken by something else")
    relay.start()
    addresses = wait_until(lambda: listening(relay), "the status server")
    assert addresses == {"127.0.0.1"}


def listening(relay: Relay) -> set[str]:
    """The addresses on which the relay's process listens (proc(5), /proc/pid/net/tcp)."""
    process = Path(f"/proc/{relay.pid}")
    sockets = set()
    for path in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed just now
            sockets.add(os.readlink(path))
    found = set()
    for file, family in ("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6):
        for line in (process / "net" / file).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in sockets:
                packed = bytes.fromhex(fields[1].split(":")[0])
                words = [packed[at : at + 4][::-1] for at in range(0, len(packed), 4)]
                found.add(socket.inet_ntop(family, b"".join(words)))
    return found
