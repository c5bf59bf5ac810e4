"""A task that a session must wait for before it encodes more, while its loop goes on."""

import asyncio
from collections.abc import Callable, Coroutine

from pgrelay.relay.tasks import cancel_and_wait


class SideTask:
    """At most one runs at a time. `committing`: it is a commit to Kafka."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called when the task ends."""
        self.committing = False
        self._wake = wake
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """A task was started, and `finished` has not returned true since."""
        return self._task is not None

    def start(self, work: Coroutine[None, None, None], *, commit: bool = False) -> None:
        assert self._task is None, "one side task at a time"
        self.committing = commit
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda _: self._wake())

    def finished(self) -> bool:
        """Whether no task runs any more. Raises the error that ended it, once."""
        if self._task is None:
            return True
        if not self._task.done():
            return False
        task, self._task = self._task, None
        self.committing = False
        task.result()
        return True

    async def wait(self, timeout_s: float) -> None:
        """Wait for the task to end, at most `timeout_s`."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=timeout_s)

    async def cancel(self) -> None:
        """Cancel the task and wait for it, whatever it raises."""
        await cancel_and_wait(self._task)
        self._task = None
        self.committing = False
