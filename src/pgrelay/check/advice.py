"""Log the findings of `pgrelay check` once in a run: what would hurt it later, each with its cure."""

from typing import Final

import structlog

from pgrelay.check import check
from pgrelay.config import Config

_log = structlog.get_logger(__name__)

_LEVELS: Final = ("warning", "error")


async def advise(config: Config) -> None:
    """Check, and log each problem. Nothing is stopped here: what stops a run has stopped it already."""
    for finding in await check(config, reads_rows=False):
        if finding.level in _LEVELS and not finding.expected_in_run:
            _log.warning(f"check: {finding.what}", why=finding.why, cure=finding.cure)
