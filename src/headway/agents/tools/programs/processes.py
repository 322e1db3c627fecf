"""Processes of programs: started, limited, measured and ended."""

import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from typing import IO, Final, NamedTuple

from headway.agents.tools.programs import sandbox as bubblewrap
from headway.agents.tools.programs.sandbox import build_search_path, is_visible
from headway.ledger.limits import MEBIBYTE, Sandbox

FILE_BYTES: Final = 1024 * MEBIBYTE
KILLED_FIRST: Final = "1000"  # if the machine runs out of memory
THREADS_PER_PROCESS: Final = 4  # on average
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def restrict(pid: int, sandbox: Sandbox) -> None:
    """Set the hard limits of a process, which its children inherit."""
    if sys.platform != "linux":
        return
    import resource  # noqa: PLC0415  not on every system

    limits = {resource.RLIMIT_DATA: sandbox.memory, resource.RLIMIT_FSIZE: FILE_BYTES, resource.RLIMIT_CORE: 0}
    with suppress(OSError):  # it has ended
        for kind, limit in limits.items():
            _, highest = resource.prlimit(pid, kind)
            allowed = limit if highest == resource.RLIM_INFINITY else min(limit, highest)
            resource.prlimit(pid, kind, (allowed, allowed))
        with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
            file.write(KILLED_FIRST)


def find_excess(root: int, sandbox: Sandbox) -> str:
    """Return which limit a process and its descendants exceed, as the predicate of a sentence; empty if they exceed none."""
    tree, threads = list_tree(root, sandbox)
    if len(tree) > sandbox.processes:
        return f"started more than {sandbox.processes:,} processes"
    if threads > get_thread_limit(sandbox):
        return f"started more than {get_thread_limit(sandbox):,} threads"
    # Processes share memory, which the first sum counts more than once. The second one is exact, but slow.
    if add_up(tree, read_resident_bytes) > sandbox.memory and add_up(tree, read_proportional_bytes) > sandbox.memory:
        return f"used more than {sandbox.memory // MEBIBYTE:,} MiB of memory"
    return ""


def get_thread_limit(sandbox: Sandbox) -> int:
    return sandbox.processes * THREADS_PER_PROCESS


def list_tree(root: int, sandbox: Sandbox) -> tuple[list[int], int]:
    """List a process and its descendants, and count their threads, until one of the limits is exceeded."""
    tree, threads, index = [root], 0, 0
    while index < len(tree) <= sandbox.processes and threads <= get_thread_limit(sandbox):
        numbers = list_threads(tree[index])
        threads += len(numbers)
        if threads <= get_thread_limit(sandbox):
            tree += [child for thread in numbers for child in list_children(tree[index], thread)]
        index += 1
    return tree, threads


def list_threads(pid: int) -> list[str]:
    with suppress(OSError):  # it has ended, or this is not Linux
        return os.listdir(f"/proc/{pid}/task")
    return []


def list_children(pid: int, thread: str) -> list[int]:
    with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
        return [int(number) for number in file.read().split()]
    return []


def add_up(tree: Iterable[int], read_bytes: Callable[[int], int]) -> int:
    total = 0
    for pid in tree:
        with suppress(OSError, IndexError, ValueError):  # it has ended
            total += read_bytes(pid)
    return total


def read_resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE_BYTES


def read_proportional_bytes(pid: int) -> int:
    """Return the memory of a process. Memory that it shares with others is divided by their number."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            lines = file.read().splitlines()
    except PermissionError:
        return read_resident_bytes(pid)
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


# Starting a program in a sandbox or without one, waiting for its end, and killing everything that it started.


KILL_WAIT_S: Final = 5.0
CHECK_INTERVAL_S: Final = 0.1
DEFAULT_PATH: Final = "/usr/bin:/bin"


class Launch(NamedTuple):
    """A program to start. Its folder is writable, and the current one."""

    arguments: Sequence[str]  # the program's path comes first
    folder: str
    sandbox: Sandbox
    stdin: IO[bytes]
    stderr: int | IO[bytes] = STDOUT
    environment: Mapping[str, str] = {}  # besides PATH, HOME and LANG
    inherited: tuple[int, ...] = ()  # file descriptors
    dies_with_us: bool = True  # in a sandbox


class Running(NamedTuple):
    """A program that was started."""

    process: Popen[bytes]
    root: int  # the process whose descendants are the program; 0 if the sandbox could not be set up
    status: IO[str] | None = None  # what bubblewrap reports; None without a sandbox


def has_sandbox(sandbox: Sandbox) -> bool:
    return not bubblewrap.find_fault(sandbox)


def start(launch: Launch, stack: ExitStack) -> Running:
    return start_in_sandbox(launch, stack) if has_sandbox(launch.sandbox) else start_plainly(launch, stack)


def start_in_sandbox(launch: Launch, stack: ExitStack) -> Running:
    """Start a program in a sandbox. It waits for a byte on a pipe until its limits are set."""
    status_source, status_target = os.pipe()
    gate_source, gate_target = os.pipe()
    status = stack.enter_context(os.fdopen(status_source, encoding="utf-8"))
    gate = stack.enter_context(os.fdopen(gate_target, "wb", buffering=0))
    options = ("--json-status-fd", str(status_target), "--block-fd", str(gate_source))
    lifetime = bubblewrap.DIES_WITH_US if launch.dies_with_us else ()
    found, command = bubblewrap.probe(), list(launch.arguments)
    filter_options, filter_descriptors = stack.enter_context(bubblewrap.open_filter())
    try:
        process = Popen(  # noqa: S603  the caller has checked the program
            bubblewrap.build_arguments(found, launch.folder, launch.sandbox, command, *lifetime, *filter_options, *options),
            env={**build_environment(bubblewrap.HOME, launch.sandbox, is_sandboxed=True), **launch.environment},
            stdin=launch.stdin,
            stdout=PIPE,
            stderr=launch.stderr,
            pass_fds=(status_target, gate_source, *filter_descriptors, *launch.inherited),
            start_new_session=True,
        )
    finally:
        os.close(status_target)
        os.close(gate_source)
    first_line = status.readline()
    root = int(json.loads(first_line)["child-pid"]) if first_line else 0
    if root:
        restrict(root, launch.sandbox)
    with suppress(BrokenPipeError):
        gate.write(b"\n")
    return Running(process, root, status)


def start_plainly(launch: Launch, stack: ExitStack) -> Running:
    """Start a program without a sandbox. Its HOME is empty, because the workspace may contain a hostile .gitconfig."""
    home = stack.enter_context(tempfile.TemporaryDirectory(prefix="headway-", ignore_cleanup_errors=True))
    process = Popen(  # noqa: S603  the caller has checked the program
        list(launch.arguments),
        cwd=launch.folder,
        env={**build_environment(home, launch.sandbox, is_sandboxed=False), **launch.environment},
        stdin=launch.stdin,
        stdout=PIPE,
        stderr=launch.stderr,
        pass_fds=launch.inherited,
        start_new_session=True,
    )
    restrict(process.pid, launch.sandbox)
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
        if has_ended(running.process, min(CHECK_INTERVAL_S, max(0.0, deadline - time.monotonic()))):
            return ""
        if time.monotonic() >= deadline:
            return f"did not finish within {limit_s:g} s"
        if canceled is not None and canceled.is_set():
            return "was canceled"
        if running.root and (excess := find_excess(running.root, sandbox)):
            return excess


def has_ended(process: Popen[bytes], wait_s: float) -> bool:
    """Wait a while for a process to end. Popen looks only now and then, which would double the time of short programs."""
    if sys.platform != "linux":
        with suppress(TimeoutExpired):
            process.wait(wait_s)
    elif process.poll() is None:
        handle = os.pidfd_open(process.pid)
        try:
            select.select([handle], [], [], wait_s)
        finally:
            os.close(handle)
    return process.poll() is not None


def kill(running: Running) -> None:
    """Kill the program and every process that it left running: in a sandbox all, otherwise its process group."""
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


def has_run(running: Running) -> bool:
    """Whether a program that has ended was run at all. If the sandbox cannot be set up, it was not."""
    return running.status is None or '"exit-code"' in running.status.read()
