"""Running programs in a workspace: listed ones only, without a shell, and not for long.

This is no sandbox. A program runs as our user and can do what that user can: read files outside of the workspace, other
tenants' included, and on Linux even our environment, under /proc. To list one is to trust it with whatever a model asks.
"""

import os
import shutil
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired
from typing import IO, Any, Final

from headway.ledger import text
from headway.ledger.errors import Invalid

TIMEOUT_S: Final = 30.0
OUTPUT_LIMIT: Final = 50_000  # characters
BUFFER_LIMIT: Final = 4 * OUTPUT_LIMIT  # bytes: enough for as many characters of any kind
OUTPUT_WAIT_S: Final = 1.0
TAIL_LIMIT: Final = 2_000  # characters


def run(command: Sequence[str], listed: Sequence[str], workspace: str, limit_s: float = TIMEOUT_S) -> dict[str, Any]:
    program = resolve_program(command[0], listed)
    arguments = [text.check_text(one, "command") for one in command[1:]]
    try:
        os.makedirs(workspace, mode=0o700, exist_ok=True)
        process = Popen(  # noqa: S603  the program is one of the listed ones
            [program, *arguments],
            cwd=workspace,
            env=build_environment(workspace),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise Invalid(f"{command[0]} cannot be started: {error.strerror or error}.") from None
    output = OutputTail(process.stdout)
    exit_code = None
    with suppress(TimeoutExpired):
        exit_code = process.wait(limit_s)
    kill_group(process)
    if exit_code is None:
        last_words = output.said()[-TAIL_LIMIT:] or "nothing"
        raise Invalid(f"{command[0]} did not end within {limit_s:g} s and was stopped. It said: {last_words}")
    return {"exit_code": exit_code, "output": output.said()}


def resolve_program(name: str, listed: Sequence[str]) -> str:
    """The program of that name. A name with a slash in it is none, even if somebody listed it."""
    if name not in listed or os.sep in name:
        raise Invalid(f"{text.to_one_line(name[:80])!r} is not among the commands that may be run: {', '.join(listed)}.")
    program = shutil.which(name, path=build_search_path())
    if program is None:
        raise Invalid(f"{name} is not installed here.")
    return program


def build_search_path() -> str:
    """PATH without what is relative: it would lead into the workspace, where agents write."""
    return os.pathsep.join(filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep)))


def build_environment(workspace: str) -> dict[str, str]:
    """All that is passed on of ours, which holds keys and passwords that a program would print or send by accident."""
    return {"PATH": build_search_path(), "HOME": os.path.abspath(workspace), "LANG": "C.UTF-8"}


def kill_group(process: Popen[bytes]) -> None:
    """Stop the program and whatever it started and left running."""
    with suppress(ProcessLookupError, PermissionError):  # nobody is left, or (on macOS) only what is already dead
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class OutputTail:
    """The end of what a program says, however much it says."""

    def __init__(self, source: IO[bytes] | None) -> None:
        assert source is not None
        self.source = source
        self.kept = b""
        self.dropped = False
        self.reader = threading.Thread(target=self.listen, name="headway-command", daemon=True)
        self.reader.start()

    def listen(self) -> None:
        with self.source:
            while chunk := os.read(self.source.fileno(), 65_536):
                self.dropped = self.dropped or len(self.kept) + len(chunk) > BUFFER_LIMIT
                self.kept = (self.kept + chunk)[-BUFFER_LIMIT:]

    def said(self) -> str:
        # What left the group on its own may hold the other end open for ever.
        self.reader.join(OUTPUT_WAIT_S)
        words = self.kept.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        if len(words) <= OUTPUT_LIMIT and not self.dropped:
            return words
        return f"[The beginning is left out.]\n{words[-OUTPUT_LIMIT:]}"
