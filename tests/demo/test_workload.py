import psycopg
import pytest

from pgrelay.demo.shop import transactions
from pgrelay.demo.workload import Workload
from tests.demo.waiting import run_to_end


def test_an_error_that_ends_the_workload_is_raised() -> None:
    workload = Workload("host=127.0.0.1 port=1 connect_timeout=1", transactions(1), 0)
    with pytest.raises(psycopg.OperationalError, match="connection failed"):
        run_to_end(workload)
