"""Limits on what a program and its children use. Each process has hard limits, and a sum over all of them is checked often.

The usual limit on processes does not bind root, and it counts the user's other processes. All of this needs Linux.
"""

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from headway.ledger.run import MEBIBYTE, Sandbox

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
    tree, threads, place = [root], 0, 0
    while place < len(tree) <= sandbox.processes and threads <= get_thread_limit(sandbox):
        numbers = list_threads(tree[place])
        threads += len(numbers)
        if threads <= get_thread_limit(sandbox):
            tree += [child for thread in numbers for child in list_children(tree[place], thread)]
        place += 1
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
    """Return the memory of a process. What it shares with others is divided by their number."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            lines = file.read().splitlines()
    except PermissionError:
        return read_resident_bytes(pid)
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
