"""The shop's workload: a thread that commits its transactions one after the other."""

import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import psycopg

from pgrelay.demo.shop import Key, Transaction


class Workload:
    """Runs while its block does, until the transactions end, or until it is stopped between two of them.

    It pauses `pause_s` after each. `rolled_back` has the keys of all rows that a savepoint rolled back.
    """

    def __init__(self, dsn: str, transactions: Iterable[Transaction], pause_s: float) -> None:
        self.rolled_back = set[Key]()
        self.title = ""
        self._dsn = dsn
        self._transactions = transactions
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="shop")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._thread.join()

    def stop(self) -> None:
        """Begin no more transactions."""
        self._stop.set()

    @property
    def running(self) -> bool:
        """Whether more transactions may come. Raises the exception that ended the thread early."""
        if self._thread.is_alive():
            return True
        if self._error is not None:
            raise self._error
        return False

    def _run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True, application_name="shop") as connection:
                for transaction in self._transactions:
                    if self._stop.is_set():
                        break
                    self._commit(connection, transaction)
                    self._stop.wait(self._pause_s)
        except Exception as error:
            self._error = error

    def _commit(self, connection: psycopg.Connection, transaction: Transaction) -> None:
        self.title = transaction.title
        # Before the commit: the keys that must not arrive are known before anything can arrive.
        self.rolled_back |= transaction.rolled_back_keys
        with connection.transaction():
            for statement, parameters in transaction.statements:
                connection.execute(statement, parameters)
