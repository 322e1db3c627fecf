"""Run programs for agents: without a shell, in a sandbox where there is one, and with limits.

In the sandbox, a program sees the system and its own folder, and has no network unless the caller grants it. Without a sandbox it
runs as our user with all of that user's rights: it can read files outside its folder, including other tenants', and on Linux our
environment through /proc. The limits on time and output hold in both cases. Limits on memory and processes hold on Linux; without a
sandbox, a process that leaves the program's tree escapes them.
"""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Final, NamedTuple

from headway.agents.tools.programs import processes
from headway.agents.tools.programs import sandbox as bubblewrap
from headway.agents.tools.programs.processes import Launch, has_sandbox
from headway.agents.tools.programs.sandbox import build_search_path, is_visible
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.limits import Sandbox

TIMEOUT_S: Final = 30.0
OUTPUT_LIMIT: Final = 50_000  # characters
BUFFER_LIMIT: Final = 4 * OUTPUT_LIMIT  # bytes: enough for that many characters of any kind
OUTPUT_WAIT_S: Final = 1.0
TAIL_LIMIT: Final = 2_000  # characters


class CommandResult(NamedTuple):
    exit_code: int  # 128 and the signal's number for a program that a signal ended, as in a shell
    output: str  # its end, if there is too much
    duration_ms: int


def run(
    command: Sequence[str],
    folder: str,
    sandbox: Sandbox,
    limit_s: float = TIMEOUT_S,
    *,
    stdin: str = "",
    canceled: threading.Event | None = None,
) -> CommandResult:
    """Run a program in a folder, in a sandbox if there is one, and wait for its end. Raises Invalid if it had to be stopped.

    The program is a name that is searched for in PATH, or a path. Everything that it started is killed when it ends, when a limit
    is exceeded, when `canceled` is set, and in a sandbox also when this thread or this process ends. Blocks: call it on a thread.
    """
    program = find_program(command[0], sandbox)
    arguments = [program, *(text.check_text(argument, "command") for argument in command[1:])]
    check_sandbox(sandbox)
    began = time.monotonic()
    with ExitStack() as stack:
        source = stack.enter_context(tempfile.TemporaryFile())
        source.write(text.check_text(stdin, "stdin").encode())
        source.seek(0)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            running = processes.start(Launch(arguments, folder, sandbox, source), stack)
        except OSError as error:
            raise Invalid(f"{command[0]} cannot be started: {error.strerror or error}.") from None
        output = OutputTail(running.process.stdout)
        try:
            reason = processes.wait_for_end(running, sandbox, limit_s, canceled)
        finally:
            processes.kill(running)
        if reason:
            last_output = output.read()[-TAIL_LIMIT:] or "nothing"
            raise Invalid(f"{command[0]} {reason} and was stopped. Its last output: {last_output}")
        if not processes.has_run(running):
            raise Invalid(f"{command[0]} was not run, because the sandbox cannot be set up: {text.to_one_line(output.read())}")
    exit_code = running.process.returncode
    duration_ms = int((time.monotonic() - began) * 1000)
    return CommandResult(exit_code if exit_code >= 0 else 128 - exit_code, output.read(), duration_ms)


def check_sandbox(sandbox: Sandbox) -> None:
    """Raise Invalid if programs may run only in a sandbox and there is none."""
    if sandbox.mode == "required" and (fault := bubblewrap.find_fault(sandbox)):
        raise Invalid(f"Programs cannot be run here: HEADWAY_SANDBOX is required, but {fault}.")


def resolve_program(name: str, allowed_programs: Sequence[str], sandbox: Sandbox) -> str:
    """Return the path of an allowlisted program. A name with a slash is always rejected."""
    if name not in allowed_programs or os.sep in name:
        raise Invalid(f"{text.to_one_line(name[:80])!r} is not an allowed command. Allowed: {', '.join(allowed_programs)}.")
    return find_program(name, sandbox)


def find_program(name: str, sandbox: Sandbox) -> str:
    """Return the path of a program, or raise Invalid. In a sandbox, it is the first in PATH that the sandbox shows."""
    if os.sep in name:
        return text.check_text(name, "command")
    check_sandbox(sandbox)
    search_path = build_search_path()
    if not has_sandbox(sandbox):
        program = shutil.which(name, path=search_path)
    else:
        candidates = (shutil.which(name, path=folder) for folder in search_path.split(os.pathsep))
        program = next((path for path in candidates if path and is_visible(path, sandbox)), None)
        hidden = program or shutil.which(name, path=search_path)
        if program is None and hidden:
            real = os.path.realpath(hidden)
            where = hidden if real == hidden else f"{hidden}, a link to {real}"
            raise Invalid(f"{name} is {where}, which the sandbox does not show. Add its folder to HEADWAY_SANDBOX_READ.")
    if program is None:
        raise Invalid(f"{text.to_one_line(name[:80])} is not installed here.")
    return program


class OutputTail:
    """Collects the end of a program's output, however much there is."""

    def __init__(self, source: IO[bytes] | None) -> None:
        assert source is not None
        self.source = source
        self.buffer = b""
        self.dropped = False
        self.reader = threading.Thread(target=self.listen, name="headway-command", daemon=True)
        self.reader.start()

    def listen(self) -> None:
        with self.source:
            while chunk := os.read(self.source.fileno(), 65_536):
                self.dropped = self.dropped or len(self.buffer) + len(chunk) > BUFFER_LIMIT
                self.buffer = (self.buffer + chunk)[-BUFFER_LIMIT:]

    def read(self) -> str:
        # A process that left the group may hold the pipe open forever.
        self.reader.join(OUTPUT_WAIT_S)
        output = self.buffer.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        if len(output) <= OUTPUT_LIMIT and not self.dropped:
            return output
        return f"[The beginning is left out.]\n{output[-OUTPUT_LIMIT:]}"
