"""`pgrelay skip`: relay up to one transaction, leave that out, confirm past it, and end.

It is a run like any other, of a slot that must be free: everything before the transaction is relayed and
acknowledged as ever, so that nothing else is lost.
"""

import asyncio

import structlog

from pgrelay.config import Config
from pgrelay.encode.encoder import Encoder
from pgrelay.errors import RecordError, SetupError
from pgrelay.http import Health
from pgrelay.lsn import format_lsn
from pgrelay.metrics import Metrics
from pgrelay.relay.daemon import Daemon, stop_on_signals
from pgrelay.relay.observer import Observer
from pgrelay.relay.session import Session

_log = structlog.get_logger(__name__)


async def skip(config: Config, lsn: int) -> str:
    """Leave out the transaction that commits at `lsn`, or whose change there can't be relayed; says what was.

    Raises SetupError where there is none, and as `pgrelay.relay.run` does; then nothing was left out.
    """
    # A slot that is not there has nothing to skip.
    source = config.source.model_copy(update={"create": False})
    config = config.model_copy(update={"source": source})
    try:
        passing = await _pass(config, lsn)
    except RecordError as error:
        if error.lsn != lsn or not error.commit_lsn:
            raise
        lsn = error.commit_lsn
        passing = await _pass(config, lsn)
    if passing.changes is None:
        raise SetupError(
            f"nothing was left out: no transaction commits at {format_lsn(lsn)} between "
            f"{format_lsn(passing.begin)}, where the slot stood, and {format_lsn(passing.end)}; the error "
            "that ended the relay names the LSN"
        )
    _log.warning("left out a transaction, as asked", commit_lsn=format_lsn(lsn), changes=passing.changes)
    return f"left out the transaction that commits at {format_lsn(lsn)}, with {passing.changes} changes"


async def _pass(config: Config, lsn: int) -> "Passing":
    stop = asyncio.Event()
    metrics, health = Metrics(), Health()
    passing = Passing(metrics, health, lsn, stop)
    daemon = Daemon(config, metrics, health, passing, stop)
    stop_on_signals(daemon)
    await daemon.run()
    return passing


class Passing(Observer):
    """Ends a run behind the transaction that is left out, or where WAL ended when the run began.

    `begin` and `end` are those two ends of the run; `changes` is how many the transaction had, None where it
    never came.
    """

    def __init__(self, metrics: Metrics, health: Health, lsn: int, stop: asyncio.Event) -> None:
        super().__init__(metrics, health)
        self.begin = 0
        self.end = 0
        self.changes: int | None = None
        self._lsn = lsn
        self._encoder: Encoder | None = None
        self._stop = stop

    def turned(self, session: Session) -> None:
        super().turned(session)
        encoder, flush_lsn = session.encoder, session.ledger.flush_lsn
        if encoder is not self._encoder:
            # Before a session has encoded anything, since its first turn is called first.
            encoder.leave_out(self._lsn)
            self._encoder = encoder
        self.begin = self.begin or flush_lsn
        self.end = self.end or session.wal_end
        passed = False
        if encoder.left_out is not None:
            self.changes, end_lsn = encoder.left_out
            passed = flush_lsn >= end_lsn
        if passed or 0 < self.end <= flush_lsn:
            self._stop.set()
