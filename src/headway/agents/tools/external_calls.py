"""Calls of tools that work outside the ledger: on a thread or on the event loop, within a timeout."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from socket import gaierror
from typing import Any, Final

from headway.agents.tools.arguments import Arguments
from headway.agents.tools.execution import Execution, find_current_execution, record_files, use_execution
from headway.agents.tools.toolbox import OnEventLoop, OnThread, Result, Tool, Toolbox, call_in_transaction, to_result, validate_call
from headway.ledger.errors import HeadwayError, OutOfReach, StorageError
from headway.ledger.text import Redactor, to_one_line

log = logging.getLogger("headway.tools")

ERROR_LIMIT: Final = 500  # characters of a failing tool's message
TRANSIENT_ERRORS: Final = (ConnectionError, TimeoutError, gaierror, OutOfReach)


async def call_in_context(toolbox: Toolbox, name: str, arguments: dict[str, Any]) -> Result:
    """Call a tool in the current execution context. Every failure becomes a result that the model can act on."""
    tool = toolbox.find(name)
    execution = find_current_execution()
    try:
        if execution is None or not tool.changes_ledger:
            result = await call_external(tool, arguments, execution)
            await record_external(tool, result, execution)
            return result
        return await execution.database.write(lambda tx: call_in_transaction(tool, arguments, execution, tx))
    except StorageError as error:
        log.warning("tool %s: %s", tool.name, error)
        return to_result(tool.refuse(str(error)))


async def record_external(tool: Tool, result: Result, execution: Execution | None) -> None:
    """Record the files that a call without a run wrote. The call was made, so a failure here does not change its result."""
    if execution is None or not result.written.files:
        return
    try:
        await execution.database.write(lambda tx: record_files(tx, execution, tool.name, result.written))
    except StorageError as error:
        log.warning("the files that %s wrote were not recorded: %s", tool.name, error)


async def call_external(tool: Tool, arguments: dict[str, Any], execution: Execution | None) -> Result:
    """Run a tool that works outside the ledger, within its timeout."""
    deadline = asyncio.timeout(tool.timeout_s)
    redact = execution.redact if execution else Redactor()
    try:
        execution, parsed_arguments = validate_call(tool, arguments, execution)
        with use_execution(execution):
            async with deadline:
                return to_result(await start_call(tool, execution, parsed_arguments))
    except HeadwayError as error:
        return to_result(tool.refuse(redact(str(error))))._replace(is_transient=tool.idempotent and is_transient(error))
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and is_current_task_canceled():
            raise
        if deadline.expired():
            return build_timeout_result(tool)
        log.warning("tool %s failed", tool.name, exc_info=error)
        refusal = tool.refuse(f"{tool.name} failed with {type(error).__name__}: {to_one_line(redact(str(error)))[:ERROR_LIMIT]}")
        return to_result(refusal)._replace(is_transient=tool.idempotent and is_transient(error))


def is_current_task_canceled() -> bool:
    """Return whether the current task itself was canceled, and not something that a tool awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_transient(error: BaseException) -> bool:
    """Return whether a retry could succeed, as far as the type of the error shows."""
    return isinstance(error, TRANSIENT_ERRORS) or (isinstance(error, StorageError) and error.is_transient)


def start_call(tool: Tool, execution: Execution, arguments: Arguments) -> Awaitable[Any]:
    match tool.run:
        case OnEventLoop(work):
            return work(execution, arguments)
        case OnThread(function):
            return run_on_thread(partial(function, execution, arguments))
        case _:
            raise AssertionError(f"{tool.name} works on the ledger")


def build_timeout_result(tool: Tool) -> Result:
    message = f"{tool.name} did not finish within {tool.timeout_s:g} s"
    if tool.idempotent:
        return to_result(tool.refuse(f"{message}."))._replace(is_transient=True)
    result = to_result(tool.refuse(f"{message}. It may still have taken effect: check before you call it again."))
    return result._replace(is_uncertain=True)


async def run_on_thread(work: Callable[[], Any]) -> Any:
    """Run a function on a daemon thread, so that a stuck tool does not keep the process from exiting."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def answer(settle: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            settle(value)

    def run() -> None:
        try:
            outcome = (future.set_result, work())
        except BaseException as error:  # noqa: BLE001  passed to the caller, who would otherwise wait forever
            outcome = (future.set_exception, to_future_error(error))
        with suppress(RuntimeError):  # the event loop has closed
            loop.call_soon_threadsafe(answer, *outcome)

    context = copy_context()
    threading.Thread(target=context.run, args=(run,), name="headway-tool", daemon=True).start()
    return await future


def to_future_error(error: BaseException) -> Exception:
    """Convert an error into one that a future accepts.

    Futures reject StopIteration, and an error that ends a thread must not end the process.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__} {error}")
