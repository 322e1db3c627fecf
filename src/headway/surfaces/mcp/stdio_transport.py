"""`headway mcp`: the MCP server on standard input and output, for one assistant on this machine.

Most requests are answered without the server. It is loaded when a request needs it, or for a client that expects notifications.
"""

import importlib
import json
import os
import select
import sys
import threading
from contextlib import suppress
from typing import Any, Final

from headway.surfaces.mcp.early_answers import EarlyAnswers, parse_message

SERVER_MODULE: Final = "headway.surfaces.mcp.stdio_server"
IDLE_S: Final = 2.0  # without a request for so long, the client has its lists, and the server is loaded for its notifications
LOADING_POLL_S: Final = 0.05
CHUNK: Final = 64 * 1024


class StdioChannel:
    """The client's side of standard input and output. Other code, and programs that it starts, get neither of them: what they print
    goes to standard error."""

    def __init__(self) -> None:
        self.input, self.output = os.dup(0), os.dup(1)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        self.buffer = b""
        self.writing = threading.Lock()

    def close(self) -> None:
        """Give standard input and output back, after what was printed has gone to standard error."""
        if sys.stdout is not None:
            sys.stdout.flush()
        for private, standard in ((self.input, 0), (self.output, 1)):
            os.dup2(private, standard)
            os.close(private)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for input. Return whether there is any; the end of the input counts."""
        return bool(self.buffer) or bool(select.select([self.input], [], [], timeout_s)[0])

    def read_line(self) -> bytes | None:
        """Return the next line, or None at the end of the input. Blank lines are skipped."""
        while True:
            line, found, rest = self.buffer.partition(b"\n")
            if found:
                self.buffer = rest
            else:
                chunk = os.read(self.input, CHUNK)
                if chunk:
                    self.buffer += chunk
                    continue
                self.buffer = b""
            if line.strip():
                return line
            if not found:
                return None

    def write(self, message: dict[str, Any]) -> None:
        """Send a message. Raises BrokenPipeError if the client is gone."""
        self.write_line(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace"))

    def write_line(self, line: bytes) -> None:
        remaining = memoryview(line + b"\n")
        with self.writing:
            while remaining:
                remaining = remaining[os.write(self.output, remaining) :]


def answer_early(channel: StdioChannel, early: EarlyAnswers) -> bytes | None:
    """Answer requests until the server has to take over. Return the line of the request that needs it, an empty line if it is
    loaded for notifications, or None at the end. Requests are answered here while it is being loaded."""
    loading: threading.Thread | None = None
    while True:
        patience_s = LOADING_POLL_S if loading else IDLE_S if early.waits_for_changes else None
        if channel.wait(patience_s):
            line = channel.read_line()
            if line is None:
                return None
            message, refusal = parse_message(line)
            answers = [refusal] if refusal else early.answer(message) if message else []
            if answers is None:
                return line
            for answer in answers:
                channel.write(answer)
        elif loading is None:
            loading = threading.Thread(target=load_server, name="headway-mcp-loading", daemon=True)
            loading.start()
        elif not loading.is_alive():
            return b""


def load_server() -> None:
    with suppress(ImportError):  # raised again when the server takes over
        importlib.import_module(SERVER_MODULE)
