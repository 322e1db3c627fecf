"""Run programs in a workspace: only allowlisted ones, without a shell and with a timeout.

This is not a sandbox. A program runs as our user with all of that user's rights: it can read files outside the workspace, including
other tenants', and on Linux our environment through /proc. Allow a program only if you trust it with any arguments a model may
choose.
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
BUFFER_LIMIT: Final = 4 * OUTPUT_LIMIT  # bytes: enough for that many characters of any kind
OUTPUT_WAIT_S: Final = 1.0
TAIL_LIMIT: Final = 2_000  # characters


def run(command: Sequence[str], listed: Sequence[str], workspace: str, limit_s: float = TIMEOUT_S) -> dict[str, Any]:
    program = resolve_program(command[0], listed)
    arguments = [text.check_text(one, "command") for one in command[1:]]
    try:
        os.makedirs(workspace, mode=0o700, exist_ok=True)
        process = Popen(  # noqa: S603  the program is on the allowlist
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
        raise Invalid(f"{command[0]} did not finish within {limit_s:g} s and was stopped. Its last output: {last_words}")
    return {"exit_code": exit_code, "output": output.said()}


def resolve_program(name: str, listed: Sequence[str]) -> str:
    """Return the path of an allowlisted program. A name with a slash is always rejected."""
    if name not in listed or os.sep in name:
        raise Invalid(f"{text.to_one_line(name[:80])!r} is not an allowed command. Allowed: {', '.join(listed)}.")
    program = shutil.which(name, path=build_search_path())
    if program is None:
        raise Invalid(f"{name} is not installed here.")
    return program


def build_search_path() -> str:
    """Return PATH without relative entries, which would lead into the workspace, where agents write."""
    return os.pathsep.join(filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep)))


def build_environment(workspace: str) -> dict[str, str]:
    """Build the program's environment. Ours is not inherited, because it holds keys that a program could print or send."""
    return {"PATH": build_search_path(), "HOME": os.path.abspath(workspace), "LANG": "C.UTF-8"}


def kill_group(process: Popen[bytes]) -> None:
    """Kill the program and every process it left running in its group."""
    with suppress(ProcessLookupError, PermissionError):  # no process is left or, on macOS, only zombies
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class OutputTail:
    """Collects the end of a program's output, however much there is."""

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
        # A process that left the group may hold the pipe open forever.
        self.reader.join(OUTPUT_WAIT_S)
        words = self.kept.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        if len(words) <= OUTPUT_LIMIT and not self.dropped:
            return words
        return f"[The beginning is left out.]\n{words[-OUTPUT_LIMIT:]}"
