"""Run programs for agents: without a shell, in a sandbox where there is one, and with limits.

In the sandbox, a program sees the system and its own folder, and has no network unless the caller grants it. Without a sandbox it
runs as our user with all of that user's rights: it can read files outside its folder, including other tenants', and on Linux our
environment through /proc. The limits on time and output hold in both cases. Those on memory and processes hold on Linux; without a
sandbox, a process that leaves the program's tree escapes them.
"""

import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from typing import IO, Final, NamedTuple

from headway.agents.tools.programs import sandbox as bubblewrap
from headway.agents.tools.programs import usage
from headway.agents.tools.programs.sandbox import build_search_path, is_visible
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.run import Sandbox

TIMEOUT_S: Final = 30.0
OUTPUT_LIMIT: Final = 50_000  # characters
BUFFER_LIMIT: Final = 4 * OUTPUT_LIMIT  # bytes: enough for that many characters of any kind
OUTPUT_WAIT_S: Final = 1.0
KILL_WAIT_S: Final = 5.0
TAIL_LIMIT: Final = 2_000  # characters
CHECK_INTERVAL_S: Final = 0.1
DEFAULT_PATH: Final = "/usr/bin:/bin"


class CommandResult(NamedTuple):
    exit_code: int  # 128 and the signal's number for a program that a signal ended, as in a shell
    output: str  # its end, if there is too much
    duration_ms: int


class Running(NamedTuple):
    """A program that was started."""

    process: Popen[bytes]
    root: int  # the process whose descendants are the program; 0 if the sandbox could not be set up
    status: IO[str] | None = None  # what bubblewrap reports; None without a sandbox


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
            start = start_in_sandbox if has_sandbox(sandbox) else start_plainly
            running = start(arguments, folder, sandbox, source, stack)
        except OSError as error:
            raise Invalid(f"{command[0]} cannot be started: {error.strerror or error}.") from None
        output = OutputTail(running.process.stdout)
        try:
            reason = wait_for_end(running, sandbox, limit_s, canceled)
        finally:
            kill(running)
        if reason:
            last_output = output.read()[-TAIL_LIMIT:] or "nothing"
            raise Invalid(f"{command[0]} {reason} and was stopped. Its last output: {last_output}")
        if running.status is not None and '"exit-code"' not in running.status.read():
            raise Invalid(f"{command[0]} was not run, because the sandbox cannot be set up: {text.to_one_line(output.read())}")
    exit_code = running.process.returncode
    duration_ms = int((time.monotonic() - began) * 1000)
    return CommandResult(exit_code if exit_code >= 0 else 128 - exit_code, output.read(), duration_ms)


def check_sandbox(sandbox: Sandbox) -> None:
    """Raise Invalid if programs may run only in a sandbox and there is none."""
    if sandbox.mode == "required" and (fault := bubblewrap.find_fault(sandbox)):
        raise Invalid(f"Programs cannot be run here: HEADWAY_SANDBOX is required, but {fault}.")


def has_sandbox(sandbox: Sandbox) -> bool:
    return not bubblewrap.find_fault(sandbox)


def describe_sandbox(sandbox: Sandbox) -> str:
    """Describe in a few words what confines programs here, for a record of a run."""
    return f"none ({fault})" if (fault := bubblewrap.find_fault(sandbox)) else "bubblewrap"


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


def start_in_sandbox(arguments: list[str], folder: str, sandbox: Sandbox, stdin: IO[bytes], stack: ExitStack) -> Running:
    """Start a program in a sandbox. It waits for a byte on a pipe until its limits are set."""
    status_source, status_target = os.pipe()
    gate_source, gate_target = os.pipe()
    status = stack.enter_context(os.fdopen(status_source, encoding="utf-8"))
    gate = stack.enter_context(os.fdopen(gate_target, "wb", buffering=0))
    options = ("--json-status-fd", str(status_target), "--block-fd", str(gate_source))
    try:
        process = Popen(  # noqa: S603  the caller has checked the program
            bubblewrap.build_arguments(bubblewrap.probe(), folder, sandbox, arguments, *options),
            env=build_environment(bubblewrap.HOME, sandbox, is_sandboxed=True),
            stdin=stdin,
            stdout=PIPE,
            stderr=STDOUT,
            pass_fds=(status_target, gate_source),
            start_new_session=True,
        )
    finally:
        os.close(status_target)
        os.close(gate_source)
    first_line = status.readline()
    root = int(json.loads(first_line)["child-pid"]) if first_line else 0
    if root:
        usage.restrict(root, sandbox)
    with suppress(BrokenPipeError):
        gate.write(b"\n")
    return Running(process, root, status)


def start_plainly(arguments: list[str], folder: str, sandbox: Sandbox, stdin: IO[bytes], stack: ExitStack) -> Running:
    """Start a program without a sandbox. Its HOME is empty, because the workspace may contain a hostile .gitconfig."""
    home = stack.enter_context(tempfile.TemporaryDirectory(prefix="headway-", ignore_cleanup_errors=True))
    process = Popen(  # noqa: S603  the caller has checked the program
        arguments,
        cwd=folder,
        env=build_environment(home, sandbox, is_sandboxed=False),
        stdin=stdin,
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
    )
    usage.restrict(process.pid, sandbox)
    return Running(process, process.pid)


def build_environment(home: str, sandbox: Sandbox, *, is_sandboxed: bool) -> dict[str, str]:
    """Build the program's environment. Ours is not inherited, because it holds keys that a program could print or send."""
    folders = build_search_path().split(os.pathsep)
    shown = [folder for folder in folders if is_visible(folder, sandbox)] if is_sandboxed else folders
    return {"PATH": os.pathsep.join(shown) or DEFAULT_PATH, "HOME": home, "LANG": "C.UTF-8"}


def wait_for_end(running: Running, sandbox: Sandbox, limit_s: float, canceled: threading.Event | None) -> str:
    """Wait until the program ends. Returns why it must be stopped, as the predicate of a sentence; empty if it ended by itself."""
    deadline = time.monotonic() + limit_s
    while True:
        with suppress(TimeoutExpired):
            running.process.wait(min(CHECK_INTERVAL_S, max(0.0, deadline - time.monotonic())))
            return ""
        if time.monotonic() >= deadline:
            return f"did not finish within {limit_s:g} s"
        if canceled is not None and canceled.is_set():
            return "was canceled"
        if running.root and (excess := usage.find_excess(running.root, sandbox)):
            return excess


def kill(running: Running) -> None:
    """Kill the program and every process that it left running: in a sandbox all, otherwise those in its group."""
    process = running.process
    if running.status is not None and running.root and process.poll() is None:
        # The kernel kills the sandbox with its first process. Bubblewrap ends when all of them have ended.
        with suppress(ProcessLookupError):
            os.kill(running.root, signal.SIGKILL)
        with suppress(TimeoutExpired):
            process.wait(KILL_WAIT_S)
    with suppress(ProcessLookupError, PermissionError):  # no process is left or, on macOS, only zombies
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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
