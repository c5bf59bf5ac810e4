"""A plan before it queries any server, and its files."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import pgrelay.plan
from pgrelay.errors import SetupError, SourceUnavailable
from pgrelay.plan import plan
from pgrelay.plan.tables import Table, Tables

# No server ever answers on port 1.
CONFIGURATION = "source: {dsn: host=127.0.0.1 port=1}\nsink: {kafka: {bootstrap.servers: a}}\n"


async def test_an_unsearchable_folder_is_no_error_before_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, hidden, looked = tmp_path / "relay.yaml", tmp_path / "hidden", os.stat
    file.write_text(CONFIGURATION)

    def stat(path: Any, *arguments: Any, **more: Any) -> os.stat_result:
        if str(path).startswith(str(hidden)):
            raise PermissionError(13, "Permission denied")
        return looked(path, *arguments, **more)

    # Tests may run as root, who may search any directory.
    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(SourceUnavailable, match="Connection refused"):
        await plan(file, 2, hidden)


async def test_a_configuration_from_a_pipe_is_refused(tmp_path: Path) -> None:
    """For example `--config <(sops -d relay.yaml)`."""
    reading, writing = os.pipe()
    os.write(writing, CONFIGURATION.encode())
    os.close(writing)
    with pytest.raises(
        SetupError, match=rf"^/dev/fd/{reading}: is not a regular file, .*; save it as a file$"
    ):
        await plan(Path(f"/dev/fd/{reading}"), 2, tmp_path)
    os.close(reading)


async def test_a_file_that_can_not_be_written_whole_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables((Table("public.a", "public.a", 1), Table("public.b", "public.b", 1)), (), "")

    async def look(_: Any) -> Any:
        return pgrelay.plan._Found(180000, None, published=False, tables=tables)

    def copy_mode(_: Path, copy: Path) -> None:
        if copy.stem == "relay-2":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(pgrelay.plan, "_inspect", look)
    monkeypatch.setattr(shutil, "copymode", copy_mode)
    file, folder = tmp_path / "relay.yaml", tmp_path / "shards"
    file.write_text(CONFIGURATION)
    with pytest.raises(SetupError, match=r"shards/relay-2\.yaml: can't be written: No space left on device"):
        await plan(file, 2, folder)
    assert not folder.exists()
