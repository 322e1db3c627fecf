"""Limits on the messages of MCP servers. Parsing one stops everything else in the process, so what is too large is not parsed."""

import asyncio
from typing import Any, Final

from mcp import types

from headway.ledger.parsing.json_values import ValueCounter, count_separators, has_more_values

MESSAGE_LIMIT: Final = 8_000_000  # bytes
VALUES_LIMIT: Final = 60_000  # values in one message; parsing takes about a microsecond for each
TOO_MANY_VALUES: Final = f"a message with more than {VALUES_LIMIT:,} values"
TOOLS_LIMIT: Final = 500
CONTENT_LIMIT: Final = 1_000  # parts of one result


class TooLarge(Exception):
    """A server sent a message that exceeds a limit. The words continue "the server sent"."""


def check_size(size: int) -> None:
    if size > MESSAGE_LIMIT:
        raise TooLarge(f"a message of more than {MESSAGE_LIMIT:,} bytes")


async def check_values(message: bytes) -> None:
    """Raise TooLarge for a message with too many values. Counting exactly takes long, so it is done on a thread, if at all."""
    if count_separators(message) > VALUES_LIMIT and await asyncio.to_thread(has_more_values, message, VALUES_LIMIT):
        raise TooLarge(TOO_MANY_VALUES)


class EventMeter:
    """Measures Server-Sent Events as their text arrives. An event ends with an empty line, and each may be one message."""

    def __init__(self) -> None:
        self.size = 0
        self.values = ValueCounter(VALUES_LIMIT)
        self.has_empty_line = True
        self.rest = ""  # a carriage return whose next character has not arrived

    def take(self, text: str) -> None:
        """Count a piece of the stream. Raises TooLarge if an event exceeds a limit."""
        text = self.rest + text
        self.rest = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        for number, line in enumerate(text.split("\n")):
            if number:
                self.end_line()
            if line:
                self.has_empty_line = False
                content = line.encode("utf-8", "surrogatepass")
                self.size += len(content)
                check_size(self.size)
                self.values.feed(content)
                if self.values.has_exceeded:
                    raise TooLarge(TOO_MANY_VALUES)

    def end_line(self) -> None:
        if self.has_empty_line:
            self.size = 0
            self.values.start_over()
        else:
            self.values.start_line()
        self.has_empty_line = True


def trim(message: Any) -> Any:
    """Shorten the lists of a server's answer before the MCP library reads them. One tool too many shows that there are more."""
    result = message.message.result if isinstance(getattr(message, "message", None), types.JSONRPCResponse) else {}
    tools, content = result.get("tools"), result.get("content")
    if isinstance(tools, list):
        del tools[TOOLS_LIMIT + 1 :]
    if isinstance(content, list) and len(content) > CONTENT_LIMIT:
        note = f"[{len(content) - CONTENT_LIMIT:,} more parts are left out.]"
        content[CONTENT_LIMIT:] = [{"type": "text", "text": note}]
    return message
