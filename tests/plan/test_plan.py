"""A plan, before any server is asked."""

import os
from pathlib import Path
from typing import Any

import pytest

from pgrelay.errors import SetupError, SourceUnavailable
from pgrelay.plan import plan

# Port 1, where no server ever answers.
CONFIGURATION = "source: {dsn: host=127.0.0.1 port=1}\nsink: {kafka: {bootstrap.servers: a}}\n"


async def test_a_folder_that_we_may_not_search_is_left_to_the_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, hidden, looked = tmp_path / "relay.yaml", tmp_path / "hidden", os.stat
    file.write_text(CONFIGURATION)

    def stat(path: Any, *arguments: Any, **more: Any) -> os.stat_result:
        if str(path).startswith(str(hidden)):
            raise PermissionError(13, "Permission denied")
        return looked(path, *arguments, **more)

    # The superuser, whom tests may run as, may search them all.
    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(SourceUnavailable, match="Connection refused"):
        await plan(file, 2, hidden)


async def test_a_configuration_from_a_pipe_is_refused_by_name(tmp_path: Path) -> None:
    """As of `--config <(sops -d relay.yaml)`."""
    reading, writing = os.pipe()
    os.write(writing, CONFIGURATION.encode())
    os.close(writing)
    with pytest.raises(
        SetupError, match=rf"^/dev/fd/{reading}: is not a regular file, .*; save it as a file$"
    ):
        await plan(Path(f"/dev/fd/{reading}"), 2, tmp_path)
    os.close(reading)
