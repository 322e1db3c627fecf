"""An event loop in a separate thread, for programs that have none, or that have one which is busy, as notebooks do."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, TypeVar

from headway.ledger.errors import Closed

T = TypeVar("T")

CLOSED_MESSAGE: Final = "Headway is closed."
END: Final = object()


class LoopThread:
    """A thread with an event loop. It refers to no client, so that one without references can be collected."""

    def __init__(self) -> None:
        self.holdings: list[HeldContext] = []  # the thread keeps their tasks alive, also while the program ends
        self.loop = asyncio.new_event_loop()
        self.lock = threading.Lock()
        self.has_ended = False
        self.thread = threading.Thread(target=self._serve, name="headway", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        self.loop.run_forever()
        with self.lock:  # what was submitted before is canceled next; what comes later is refused
            self.has_ended = True
        self.loop.run_until_complete(cancel_others())
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine. If the wait is interrupted, it is canceled."""
        with self.lock:
            if self.has_ended or threading.current_thread() is self.thread:
                work.close()
                raise Closed(CLOSED_MESSAGE if self.has_ended else "This call would wait for itself. Use the async methods.")
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except CancelledError:
            raise Closed(CLOSED_MESSAGE) from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread, which cancels what still runs."""
        with self.lock:
            if not self.has_ended:
                self.loop.call_soon_threadsafe(self.loop.stop)

    def close(self) -> None:
        """End the thread, and wait for it."""
        self.stop()
        self.thread.join()


class LoopRunner:
    """Runs coroutines on a thread and waits for their results. Any number of threads may use it at once.

    A client, its namespaces and its iterators refer to their loop_runner. When none of them is left, the thread ends.
    """

    def __init__(self) -> None:
        self.thread = LoopThread()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.thread.run(work)

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """Iterate over an asynchronous iterator, and close it at the end."""
        try:
            while (item := self.run(take_next(source))) is not END:
                yield item  # type: ignore[misc]  # END is no item
        finally:
            if isinstance(source, AsyncGenerator) and not self.thread.has_ended:
                with suppress(Closed):
                    self.run(source.aclose())


async def take_next(source: AsyncIterator[T]) -> T | object:
    try:
        return await anext(source)
    except StopAsyncIteration:
        return END


async def cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


class HeldContext:
    """Keeps an asynchronous context manager open on a thread. One task enters and leaves it, as some of them need."""

    def __init__(self, thread: LoopThread) -> None:
        self.thread = thread
        thread.holdings.append(self)
        self.leave: asyncio.Event | None = None
        self.task: asyncio.Task[None] | None = None
        self.kept: set[asyncio.Future[None]] = set()

    def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        return self.thread.run(self._enter(manager))

    async def _enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        self.leave = leave = asyncio.Event()
        entered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def hold() -> None:
            async with manager as value:
                if not entered.done():
                    entered.set_result(value)
                await leave.wait()

        self.task = asyncio.create_task(hold())
        futures: list[asyncio.Future[Any]] = [self.task, entered]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if not entered.done():
            await self.task  # raises what went wrong
        return entered.result()

    def exit(self) -> None:
        self.thread.run(self._exit())

    def abandon(self) -> None:
        """Leave and end the thread, without waiting for it. The garbage collector may call this on any thread."""

        async def leave() -> None:
            try:
                await self._exit()
            finally:
                asyncio.get_running_loop().stop()

        with suppress(RuntimeError):  # the loop was closed
            self.thread.loop.call_soon_threadsafe(lambda: self.kept.add(asyncio.ensure_future(leave())))

    async def _exit(self) -> None:
        if self.leave and self.task:
            self.leave.set()
            await self.task
