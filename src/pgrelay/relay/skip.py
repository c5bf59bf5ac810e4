"""`pgrelay skip`: relay up to one transaction, leave that one out, confirm past it, and end.

It is a run like any other, of a slot that nobody else may use. Everything before the transaction is relayed
and acknowledged as usual, so that nothing else is lost.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

import structlog

from pgrelay.config import Config, SourceConfig
from pgrelay.errors import RESET_CURE, Interrupted, RecordError, SetupError, SourceUnavailable
from pgrelay.figures import counted
from pgrelay.lsn import format_lsn
from pgrelay.metrics import Metrics
from pgrelay.postgres.catalog import Catalog
from pgrelay.relay.daemon import Daemon
from pgrelay.relay.process import stop_on_signals
from pgrelay.relay.session import Session
from pgrelay.relay.setup import check_not_active
from pgrelay.relay.tasks import force_cancel
from pgrelay.status.health import Health

_log = structlog.get_logger(__name__)

# Earlier runs sent its records up to the refused one and, to other partitions, beyond.
_MAY_BE_THERE: Final = "; with at_least_once, some of its records may be in Kafka already"
_TRIES: Final = 10
_RETRY_S: Final = 0.2


async def skip(config: Config, lsn: int) -> str:
    """Leave out the transaction that commits at `lsn`, or that has a change there which can't be relayed.

    Returns what was left out, for the user. Raises SetupError if there is no such transaction, and whatever
    `pgrelay.relay.run` raises; nothing was left out then. Raises Interrupted if asked to stop before.
    """
    requests = StopRequests()
    with stop_on_signals(requests.stop):
        return await _skip(config, lsn, requests)


async def _skip(config: Config, lsn: int, requests: "StopRequests") -> str:
    # Don't create a slot: a new one has nothing to skip.
    source = config.source.model_copy(update={"create": False})
    config = config.model_copy(update={"source": source})
    # The run itself waits for a server that is not up yet.
    with contextlib.suppress(SourceUnavailable):
        await requests.run_until_stop(_require_inactive(source))
    try:
        goal = await _leave_out(config, lsn, requests)
    except RecordError as error:
        if error.lsn != lsn or not error.commit_lsn:
            raise
        lsn = error.commit_lsn
        goal = await _leave_out(config, lsn, requests)
    if not goal.reached:
        raise Interrupted(
            "stopped as asked, before it was certain that the transaction is left out; run the command again"
        )
    if goal.changes is None:
        raise SetupError(
            f"nothing was left out: no transaction commits at {format_lsn(lsn)} between "
            f"{format_lsn(goal.begin)}, where the slot stood, and {format_lsn(goal.end)}; use the LSN "
            "in the error that ended the relay"
        )
    if goal.message:
        _log.warning("left out a message, as asked", lsn=format_lsn(lsn))
        return f"left out the logical message that ends at {format_lsn(lsn)}"
    _log.warning("left out a transaction, as asked", commit_lsn=format_lsn(lsn), changes=goal.changes)
    changes = counted(goal.changes, "change")
    summary = f"left out the transaction that commits at {format_lsn(lsn)}, with {changes}"
    return f"{summary}{_MAY_BE_THERE}" if config.sink.delivery == "at_least_once" else summary


async def _require_inactive(source: SourceConfig) -> None:
    """Raises SetupError if there is no slot, or if a relay runs: waiting for it would never end."""
    async with Catalog(source.dsn) as catalog:
        slot = await catalog.slot(source.slot)
        if slot is None:
            raise SetupError(
                f"source.slot: {source.slot} does not exist in database {catalog.database}, so there is "
                f"nothing to leave out; correct source.slot or source.dsn or, if it was dropped, {RESET_CURE}"
            )
        for _ in range(_TRIES):
            if slot is None or slot.active_pid is None:
                return
            # A relay that has just ended releases the slot in a moment.
            await asyncio.sleep(_RETRY_S)
            slot = await catalog.slot(source.slot)
    if slot is not None:
        check_not_active(slot, source.slot)


async def _leave_out(config: Config, lsn: int, requests: "StopRequests") -> "SkipGoal":
    """Leave out the transaction, or the message outside transactions that ends at `lsn` and is refused."""
    try:
        return await _run_past(config, lsn, requests, message=False)
    except RecordError as error:
        if error.commit_lsn != lsn:
            raise
    # The transaction was left out, but nothing was confirmed: it is not lost.
    return await _run_past(config, lsn, requests, message=True)


async def _run_past(config: Config, lsn: int, requests: "StopRequests", message: bool) -> "SkipGoal":
    goal = SkipGoal(lsn, message)
    daemon = Daemon(config, Metrics(), Health(), goal=goal)
    requests.forward_to(daemon.stop)
    await daemon.run()
    return goal


class StopRequests:
    """Remembers whether a stop was requested, and forwards the request to what runs now."""

    def __init__(self) -> None:
        self._requested = False
        self._forward: Callable[[], object] | None = None

    def stop(self) -> None:
        self._requested = True
        if self._forward is not None:
            self._forward()

    def forward_to(self, forward: Callable[[], object]) -> None:
        """Have `forward` called when a stop is requested; at once if it already was."""
        self._forward = forward
        if self._requested:
            forward()

    async def run_until_stop(self, work: Coroutine[None, None, None]) -> None:
        """Do the work, or raise Interrupted as soon as a stop is requested."""
        task = asyncio.ensure_future(work)
        self.forward_to(partial(force_cancel, task))
        try:
            await task
        except asyncio.CancelledError:
            if not self._requested:
                raise
            raise Interrupted("stopped as asked; nothing was left out") from None


class SkipGoal:
    """The goal of a skip: to get past the transaction that is left out, or to where WAL ended at the start.

    With `message`, a message outside transactions is left out instead. The run looks for it between the LSNs
    `begin` and `end`. `changes` counts what was left out; None if the transaction never came. `reached` is
    false if the run was stopped earlier.
    """

    def __init__(self, lsn: int, message: bool) -> None:
        self.begin = 0
        self.end = 0
        self.changes: int | None = None
        self.reached = False
        self.message = message
        self._lsn = lsn

    def on_begin(self, session: Session) -> None:
        session.encoder.skip_transaction(self._lsn, self.message)

    def on_turn(self, session: Session) -> None:
        self.begin = self.begin or session.ledger.flush_lsn
        self.end = self.end or session.server_poll.wal_end
        # Confirmed, not just acknowledged: the slot, where the next run starts, must be past the transaction.
        confirmed_lsn = session.confirmations.confirmed_lsn
        passed = False
        if session.encoder.skipped_transaction is not None:
            self.changes, end_lsn = session.encoder.skipped_transaction
            passed = confirmed_lsn >= end_lsn
        self.reached = passed or 0 < self.end <= confirmed_lsn
