"""One errand at a time, beside the loop."""

import asyncio

import pytest

from pgrelay.errors import KafkaUnavailable
from pgrelay.relay.errand import Errand

pytestmark = pytest.mark.timeout(30)


async def test_an_errand_wakes_the_loop_at_its_end() -> None:
    woken, answer = asyncio.Event(), asyncio.Event()

    async def commit() -> None:
        await answer.wait()

    errand = Errand(woken.set)
    assert errand.over()
    errand.begin(commit(), commit=True)
    assert errand.under_way
    assert errand.committing
    assert not errand.over()
    answer.set()
    await woken.wait()
    assert errand.over()
    assert not errand.under_way
    assert not errand.committing


async def test_what_ends_an_errand_is_raised_once() -> None:
    async def fail() -> None:
        raise KafkaUnavailable("no broker")

    errand = Errand(lambda: None)
    errand.begin(fail())
    await errand.wait(10)
    with pytest.raises(KafkaUnavailable):
        errand.over()
    assert errand.over()


async def test_a_wait_for_an_errand_ends_in_time() -> None:
    errand = Errand(lambda: None)
    errand.begin(asyncio.sleep(3600))
    await errand.wait(0.001)
    assert not errand.over()
    await errand.cancel()
    assert errand.over()
