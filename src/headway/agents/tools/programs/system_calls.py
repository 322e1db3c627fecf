"""The system calls that a program in the sandbox may not make, as a filter that the kernel runs (seccomp, in classic BPF).

A file with the set-user-ID bit, left in a workspace by a sandbox of root, would make its caller root. So neither this bit nor that
of the group can be set. Memory files (`memfd_create`) are refused because no limit counts them. Calls whose arguments a filter
cannot read (`openat2`, `io_uring`) appear as missing, and programs use the older ones.
"""

import platform
import struct
from errno import ENOSYS, EPERM
from functools import lru_cache
from typing import Final, NamedTuple

SET_ID_BITS: Final = 0o6000
CREATES: Final = 0o100 | 0o20000000  # O_CREAT and O_TMPFILE: only these use the mode
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in what the kernel passes to the filter
LOAD, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, JUMP_IF_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions
ALLOW: Final = 0x7FFF0000
FAIL: Final = 0x00050000  # with this error number
X32: Final = 0x40000000  # numbers from here on are another set of calls, for the same machine
MISSING: Final = (425, 437, 447)  # io_uring_setup, openat2, memfd_secret: the same number everywhere
CHMOD_AT: Final = {452: 2}  # fchmodat2


class SystemCalls(NamedTuple):
    """The numbers of calls on one architecture."""

    architecture: int
    modes: dict[int, int]  # calls that set a mode, with the place of that argument
    opens: dict[int, int]  # calls that open a file, with the place of their flags. The mode comes next
    memory_file: int


X86_64: Final = SystemCalls(0xC000003E, {85: 1, 90: 1, 91: 1, 133: 1, 259: 2, 268: 2}, {2: 1, 257: 2}, 319)
I386: Final = SystemCalls(0x40000003, {8: 1, 14: 1, 15: 1, 94: 1, 297: 2, 306: 2}, {5: 1, 295: 2}, 356)
AARCH64: Final = SystemCalls(0xC00000B7, {33: 2, 52: 1, 53: 2}, {56: 2}, 279)
ARM: Final = SystemCalls(0x40000028, {8: 1, 14: 1, 15: 1, 94: 1, 324: 2, 333: 2}, {5: 1, 322: 2}, 385)
MACHINES: Final = {"x86_64": (X86_64, I386), "aarch64": (AARCH64, ARM)}  # each also runs programs of its smaller sister


@lru_cache(maxsize=1)
def build_filter() -> bytes:
    """Build the filter for this machine; empty for one whose calls we do not know."""
    known = MACHINES.get(platform.machine(), ())
    if not known:
        return b""
    program = load(ARCHITECTURE)
    for calls in known:
        section = build_section(calls)
        program += jump(JUMP_IF_EQUAL, calls.architecture, 0, count(section)) + section
    return program + fail(ENOSYS)


def build_section(calls: SystemCalls) -> bytes:
    section = load(NUMBER)
    if calls is X86_64:
        section += jump(JUMP_IF_AT_LEAST, X32, 0, 1) + fail(ENOSYS)
    for number in (*MISSING, calls.memory_file):
        section += jump(JUMP_IF_EQUAL, number, 0, 1) + fail(ENOSYS)
    for number, place in (calls.modes | CHMOD_AT).items():
        section += when(number, refuse_bits(place))
    for number, place in calls.opens.items():
        check = refuse_bits(place + 1)
        section += when(number, load_argument(place) + jump(JUMP_IF_ANY_BIT, CREATES, 0, count(check) - 1) + check)
    return section + give_back(ALLOW)


def when(number: int, instructions: bytes) -> bytes:
    return jump(JUMP_IF_EQUAL, number, 0, count(instructions)) + instructions


def refuse_bits(place: int) -> bytes:
    """Fail if the mode in this argument has one of the bits; otherwise allow the call."""
    return load_argument(place) + jump(JUMP_IF_ANY_BIT, SET_ID_BITS, 0, 1) + fail(EPERM) + give_back(ALLOW)


def load(offset: int) -> bytes:
    return struct.pack("=HBBI", LOAD, 0, 0, offset)


def load_argument(place: int) -> bytes:
    return load(ARGUMENTS + 8 * place)  # its lower half, on these machines


def jump(condition: int, value: int, if_true: int, if_false: int) -> bytes:
    """Skip that many instructions."""
    return struct.pack("=HBBI", condition, if_true, if_false, value)


def fail(error: int) -> bytes:
    return give_back(FAIL | error)


def give_back(action: int) -> bytes:
    return struct.pack("=HBBI", RETURN, 0, 0, action)


def count(instructions: bytes) -> int:
    return len(instructions) // 8
