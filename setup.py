"""Compiles the pure rooms with mypyc where a C compiler is to be had; without one they run interpreted.

Also puts config.example.yaml into the package, for `pgrelay example`.

The extension is optional twice over: a failing compiler only costs speed, and an editable install (which is
for working on the source) leaves the source in charge. There is one source for both.
"""

import os
import sys
from glob import glob

from setuptools import setup
from setuptools.command.build_py import build_py

COMPILED = [
    *glob("src/pgrelay/wire/*.py"),
    *glob("src/pgrelay/assembly/*.py"),
    *glob("src/pgrelay/encode/**/*.py", recursive=True),
    "src/pgrelay/errors.py",
    "src/pgrelay/handover.py",
    "src/pgrelay/lsn.py",
    "src/pgrelay/progress.py",
]


def extensions() -> list:
    if "editable_wheel" in sys.argv or os.environ.get("PGRELAY_PURE") == "1":
        return []
    from mypyc.build import mypycify

    modules = mypycify(["--strict", "--config-file=", *COMPILED], opt_level="3", debug_level="0")
    for module in modules:
        module.optional = True
    return modules


class WithExample(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file("config.example.yaml", f"{self.build_lib}/pgrelay/config/example.yaml")


setup(ext_modules=extensions(), cmdclass={"build_py": WithExample})
