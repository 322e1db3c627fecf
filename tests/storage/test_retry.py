"""Retries of database operations: which failures are retried, when retrying stops, and the log messages."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from headway.ledger.errors import CommitUncertain, DatabaseBusy, StorageError
from headway.storage.retry import repeat_forever, retry_storage

DELAY_S = 0.001


def fail_with(*errors: Exception) -> Callable[[], Awaitable[str]]:
    """Return an operation that raises each of these errors in turn and then succeeds."""
    remaining: Iterator[Exception] = iter(errors)

    async def attempt() -> str:
        for error in remaining:
            raise error
        return "stored"

    return attempt


def test_an_outage_is_waited_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    assert asyncio.run(retry_storage(fail_with(*[DatabaseBusy()] * 5), "run 7", max_refusals=1, delay_s=DELAY_S)) == "stored"
    assert caplog.messages == [f"run 7 waits for the database: {DatabaseBusy()}"]


def test_another_failure_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(retry_storage(fail_with(DatabaseBusy(), CommitUncertain(), CommitUncertain()), "run 7", delay_s=DELAY_S))
    assert [message.partition(": ")[2] for message in caplog.messages] == [str(DatabaseBusy()), str(CommitUncertain())]


def test_refusals_are_retried_up_to_the_limit_and_transient_failures_do_not_count() -> None:
    refused, busy = StorageError("no such table"), DatabaseBusy()
    assert asyncio.run(retry_storage(fail_with(refused, busy, busy, refused), "run 7", max_refusals=3, delay_s=DELAY_S)) == "stored"
    with pytest.raises(StorageError, match="no such table"):
        asyncio.run(retry_storage(fail_with(refused, busy, refused, refused), "run 7", max_refusals=3, delay_s=DELAY_S))


def test_other_errors_are_raised_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(retry_storage(fail_with(ZeroDivisionError()), "run 7", delay_s=DELAY_S))


def test_a_background_task_survives_every_failure_and_ends_when_it_is_canceled() -> None:
    async def scenario() -> None:
        stored = asyncio.Event()
        attempt = fail_with(DatabaseBusy(), StorageError("no such table"), ZeroDivisionError())

        async def step() -> None:
            await attempt()
            stored.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(repeat_forever(step, "the feed", DELAY_S))
        await asyncio.wait_for(stored.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
