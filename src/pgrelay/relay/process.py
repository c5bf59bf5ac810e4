"""Runs the daemon as a process: signals, metrics, the status server and its samples."""

import asyncio
import contextlib
import gc
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from pgrelay import __version__
from pgrelay.assembly.spool_base import base_directory
from pgrelay.config import Config
from pgrelay.early_stop import active_recorder, set_handlers
from pgrelay.metrics import Metrics
from pgrelay.relay.daemon import Advise, Daemon
from pgrelay.relay.tasks import start_optional
from pgrelay.status.health import Health
from pgrelay.status.http import StatusServer
from pgrelay.status.status import Status

# New objects between garbage collections. What is in flight dies young and is in no cycle; Python's default,
# 700, takes an eighth of the CPU if transactions are small.
_GC_THRESHOLD: Final = 50_000

_SAMPLE_EVERY_S: Final = 1.0


async def run(config: Config, advise: Advise) -> None:
    """Relay until SIGTERM or SIGINT. Raises the PgrelayError that ended it otherwise.

    `advise` is run once, beside the first stream; if it fails, that is logged.
    """
    gc.set_threshold(_GC_THRESHOLD)
    metrics, health = Metrics(), Health()
    daemon = Daemon(config, metrics, health, advise)
    metrics.set_labels(version=__version__, slot=config.source.slot, prefix=config.records.prefix)
    metrics.set_sources(lambda: health.ready, base_directory(config.transactions.spool_dir))
    status = Status(config, metrics, health)
    sampling = start_optional(_sample(status, daemon), "the status page's samples")
    address = config.http.address
    pages = StatusServer(address, metrics, health, status.json) if address else contextlib.nullcontext()
    try:
        with stop_on_signals(daemon.stop), pages:
            await daemon.run()
    finally:
        sampling.cancel()


async def _sample(status: Status, daemon: Daemon) -> None:
    while True:
        status.sample(daemon.open_transactions)
        await asyncio.sleep(_SAMPLE_EVERY_S)


@contextlib.contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` in the running loop on each SIGTERM or SIGINT, and now if one came before the block.

    After the block they are ignored, since the exit code is decided.
    """
    loop = asyncio.get_running_loop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop)

    earlier = active_recorder()
    # Not the loop's own handlers: as it closes, it restores the defaults, and a second signal would kill the
    # process. So it would with any handler of ours as Python exits, but not with SIG_IGN.
    set_handlers(on_signal)
    if earlier is not None and earlier.number:
        stop()
    try:
        yield
    finally:
        set_handlers(signal.SIG_IGN)
