"""What a session must await before encoding goes on: a need or a commit. The loop turns meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine

from pgrelay.relay.tasks import cancelled


class Errand:
    """At most one is under way. `committing`: it is a commit to Kafka."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called when one has ended."""
        self.committing = False
        self._wake = wake
        self._task: asyncio.Task[None] | None = None

    @property
    def under_way(self) -> bool:
        """One was begun, and `over` has not said that it is over."""
        return self._task is not None

    def begin(self, work: Coroutine[None, None, None], *, commit: bool = False) -> None:
        assert self._task is None, "one errand at a time"
        self.committing = commit
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda _: self._wake())

    def over(self) -> bool:
        """Whether none is under way any more. Raises the error that ended it, once."""
        if self._task is None:
            return True
        if not self._task.done():
            return False
        ended, self._task = self._task, None
        self.committing = False
        ended.result()
        return True

    async def wait(self, timeout_s: float) -> None:
        """Wait for its end, for so long at most."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=timeout_s)

    async def cancel(self) -> None:
        """End it; what it raises no longer matters."""
        await cancelled(self._task)
        self._task = None
        self.committing = False
