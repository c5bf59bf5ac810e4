import threading
from pathlib import Path

import pytest

from pgrelay.embedded import cache
from pgrelay.embedded.cache import cache_folder, cached
from pgrelay.errors import SetupError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    return tmp_path


def _fill(target: Path) -> None:
    (target / "file").write_text("content")


def test_a_folder_is_filled_once() -> None:
    filled = []

    def fill(target: Path) -> None:
        filled.append(target)
        _fill(target)

    assert cached("name", fill) == cached("name", fill)
    assert len(filled) == 1
    assert (cached("name", fill) / "file").read_text() == "content"


def test_a_concurrent_request_waits_until_the_folder_is_filled() -> None:
    filling, may_end = threading.Event(), threading.Event()

    def slow_fill(target: Path) -> None:
        filling.set()
        may_end.wait()
        _fill(target)

    def never(target: Path) -> None:
        raise AssertionError("filled twice")

    first = threading.Thread(target=cached, args=("name", slow_fill))
    first.start()
    filling.wait()
    seen: list[str] = []
    second = threading.Thread(target=lambda: seen.append((cached("name", never) / "file").read_text()))
    second.start()
    may_end.set()
    first.join()
    second.join()
    assert seen == ["content"]


def test_a_failure_leaves_nothing_behind(folder: Path) -> None:
    def fail(target: Path) -> None:
        _fill(target)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cached("name", fail)
    assert [entry.name for entry in folder.iterdir()] == ["name.lock"]
    assert (cached("name", _fill) / "file").exists()


def test_roots_cache_folder_is_open_to_other_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, Path]] = []
    monkeypatch.setattr(Path, "mkdir", lambda self, **_: made.append(("mkdir", self)))
    monkeypatch.setattr(Path, "chmod", lambda self, mode: made.append((oct(mode), self)))
    monkeypatch.setattr(Path, "exists", lambda self: False)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("XDG_CACHE_HOME", "/closed")
    assert cache_folder() == Path("/var/cache/pgrelay")
    assert made == [("mkdir", Path("/var/cache/pgrelay")), ("0o755", Path("/var/cache/pgrelay"))]


def test_other_accounts_have_their_cache_folder_in_their_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pgrelay"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "pgrelay"


@pytest.mark.parametrize("home", ["XDG_CACHE_HOME", "HOME"])
def test_a_cache_that_can_not_be_made_is_one_line_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(home, str(tmp_path / "file"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    expected = r"the cache folder can't be used: .*Not a directory.*; set XDG_CACHE_HOME to"
    with pytest.raises(SetupError, match=expected):
        cache_folder()


def test_without_a_home_the_cure_is_to_set_a_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(SetupError, match=r"Could not determine home directory\.; set XDG_CACHE_HOME"):
        cache_folder()


def test_a_cache_that_can_not_be_written_to_is_one_line_with_the_cure(folder: Path) -> None:
    (folder / "name.lock").mkdir()
    with pytest.raises(SetupError, match=r"the cache folder can't be used: .*name\.lock"):
        cached("name", _fill)
