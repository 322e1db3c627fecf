"""The connection to an MCP server that Headway starts: one JSON message per line, over its standard streams.

The MCP library's own connection reads lines of any length, and takes time that grows with the square of it.
"""

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Final

import anyio
from anyio.abc import ByteReceiveStream, ObjectReceiveStream, ObjectSendStream, Process
from mcp import types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from headway.agents.mcp.config import McpServerConfig
from headway.agents.mcp.messages import TooLarge, check_size, check_values

STOP_WAIT_S: Final = 2.0  # after the end of its input, and again after SIGTERM
EXIT_POLL_S: Final = 0.01
END_ERRORS: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)


@asynccontextmanager
async def open_stdio(
    config: McpServerConfig, command: list[str], stderr: IO[str], on_excess: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server, and yield its messages and where to send ours. A message that is too large ends the connection."""
    environment = {**get_default_environment(), **dict(config.env)}
    process = await anyio.open_process(command, env=environment, stderr=stderr, cwd=config.cwd or None, start_new_session=True)
    incoming, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, queue = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            has_read = anyio.Event()

            async def read() -> None:
                await read_messages(process, incoming, on_excess)
                has_read.set()

            tasks.start_soon(read)
            tasks.start_soon(write_messages, process, queue, incoming)
            try:
                yield messages, outgoing
            finally:
                messages.close()
                outgoing.close()
                with anyio.CancelScope(shield=True):
                    await stop(process)
                    with anyio.move_on_after(STOP_WAIT_S):  # another process may have the server's output open
                        await has_read.wait()
                tasks.cancel_scope.cancel()
    finally:
        for stream in (incoming, messages, outgoing, queue):
            stream.close()


async def read_messages(
    process: Process, incoming: ObjectSendStream[SessionMessage | Exception], on_excess: Callable[[str], None]
) -> None:
    assert process.stdout is not None
    with suppress(*END_ERRORS):
        async with incoming:
            try:
                await read_lines(process.stdout, incoming)
            except TooLarge as error:
                on_excess(str(error))
                send_signal(process, signal.SIGKILL)
    with suppress(*END_ERRORS):  # a server that cannot write does not end
        async for _ in process.stdout:
            pass


async def read_lines(source: ByteReceiveStream, incoming: ObjectSendStream[SessionMessage | Exception]) -> None:
    line = bytearray()
    async for chunk in source:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            await deliver(bytes(line + end), incoming)
            line.clear()
        line += rest
        check_size(len(line))


async def deliver(line: bytes, incoming: ObjectSendStream[SessionMessage | Exception]) -> None:
    check_size(len(line))
    await check_values(line)
    try:
        message = SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        await incoming.send(error)
    else:
        await incoming.send(message)


async def write_messages(
    process: Process, queue: ObjectReceiveStream[SessionMessage], incoming: ObjectSendStream[SessionMessage | Exception]
) -> None:
    assert process.stdin is not None
    try:
        async with queue:
            async for message in queue:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{line}\n".encode())
    except END_ERRORS:
        await incoming.aclose()  # the server reads nothing more, so no answer will come


async def stop(process: Process) -> None:
    """End a server: it ends by itself when its input ends, or it is killed with everything that it started."""
    assert process.stdin is not None
    with suppress(*END_ERRORS):
        await process.stdin.aclose()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await has_ended(process):
            break
        send_signal(process, number)
    await has_ended(process)


def send_signal(process: Process, number: signal.Signals) -> None:
    """Signal a server and everything that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def has_ended(process: Process) -> bool:
    """Wait a while for a process to end. Waiting for its streams as well could take longer, if another process has them."""
    with anyio.move_on_after(STOP_WAIT_S):
        while process.returncode is None:
            await anyio.sleep(EXIT_POLL_S)
    return process.returncode is not None
