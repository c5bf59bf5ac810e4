"""Programs from Debian packages, for tests: installed ones, or unpacked into the cache with apt-get.

Nothing is installed and no root is needed: the package and its dependencies are downloaded and unpacked into
one folder, and the program gets the paths of its libraries.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgrelay.embedded.cache import cached
from pgrelay.embedded.daemon import ServerFailed, run_tool
from pgrelay.embedded.jars import Unavailable
from tests.unavailable import skip


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and the library folders that it needs in addition to the system's."""

    path: Path
    libraries: tuple[Path, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Our environment, plus the path of the libraries."""
        paths = [*map(str, self.libraries), os.environ.get("LD_LIBRARY_PATH", "")]
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, paths))}


def debian_program(name: str, package: str, inside: str) -> Program:
    """The program from the PATH, or from Debian's package, which has it at `inside`.

    If there is neither, skips the test, or fails it on CI, where a skip would go unnoticed.
    """
    if found := shutil.which(name):
        return Program(Path(found))
    try:
        root = cached(f"debian-{package}", lambda target: _unpack(package, target))
    except (Unavailable, ServerFailed) as error:
        skip(error)
    # Debian has some libraries in separate folders, whose paths are compiled into their users.
    libraries = sorted({path.parent for path in root.glob("**/lib/*-linux-*/**/*.so*")})
    return Program(root / inside, tuple(libraries))


def _unpack(package: str, target: Path) -> None:
    if shutil.which("apt-get") is None:
        raise Unavailable(f"no apt-get here to fetch Debian's package {package} with: install it by hand")
    lists, archives = target / "lists", target / "archives"
    for folder in (lists, archives):
        (folder / "partial").mkdir(parents=True)
    # Use our own package lists: the system's may be old or missing, and belong to root.
    apt = ["apt-get", "-q", "-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={archives}"]
    apt += ["-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=true"]
    run_tool([*apt, "update"], cwd=target)
    run_tool([*apt, "download", *_with_dependencies(apt, package)], cwd=archives)
    for archive in archives.glob("*.deb"):
        run_tool(["dpkg-deb", "-x", archive, target], cwd=target)
    shutil.rmtree(lists)
    shutil.rmtree(archives)


def _with_dependencies(apt: list[str], package: str) -> list[str]:
    """The package, and its dependencies that the system lacks."""
    command = [*apt, "install", "--simulate", "--no-install-recommends", package]
    plan = subprocess.run(command, capture_output=True, text=True)
    if plan.returncode != 0:
        raise Unavailable(f"Debian's package {package} is not to be had: {plan.stderr.strip()}")
    return [line.split()[1] for line in plan.stdout.splitlines() if line.startswith("Inst ")]
