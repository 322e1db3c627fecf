"""The sandbox of programs: what they may reach, which system calls they may make, and the user's own programs."""

import os
import platform
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import ENOSYS, EPERM
from functools import lru_cache
from typing import Final, NamedTuple

from headway.ledger.limits import MEBIBYTE, Sandbox
from headway.ledger.parsing.checks import HOME_PARENTS
from headway.ledger.text import to_one_line

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
    modes: dict[int, int]  # calls that set a mode, with the index of that argument
    opens: dict[int, int]  # calls that open a file, with the index of their flags. The mode comes next
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
    for number, index in (calls.modes | CHMOD_AT).items():
        section += when(number, refuse_bits(index))
    for number, index in calls.opens.items():
        check = refuse_bits(index + 1)
        section += when(number, load_argument(index) + jump(JUMP_IF_ANY_BIT, CREATES, 0, count(check) - 1) + check)
    return section + give_back(ALLOW)


def when(number: int, instructions: bytes) -> bytes:
    return jump(JUMP_IF_EQUAL, number, 0, count(instructions)) + instructions


def refuse_bits(index: int) -> bytes:
    """Fail if the mode in this argument has one of the bits; otherwise allow the call."""
    return load_argument(index) + jump(JUMP_IF_ANY_BIT, SET_ID_BITS, 0, 1) + fail(EPERM) + give_back(ALLOW)


def load(offset: int) -> bytes:
    return struct.pack("=HBBI", LOAD, 0, 0, offset)


def load_argument(index: int) -> bytes:
    return load(ARGUMENTS + 8 * index)  # its lower half, on these machines


def jump(condition: int, value: int, if_true: int, if_false: int) -> bytes:
    """Skip that many instructions."""
    return struct.pack("=HBBI", condition, if_true, if_false, value)


def fail(error: int) -> bytes:
    return give_back(FAIL | error)


def give_back(action: int) -> bytes:
    return struct.pack("=HBBI", RETURN, 0, 0, action)


def count(instructions: bytes) -> int:
    return len(instructions) // 8


# The sandbox for programs: builds the arguments of bubblewrap, and finds out once per process whether it works here.


BWRAP: Final = "bwrap"
PROBE_TIMEOUT_S: Final = 10.0
REASON_LIMIT: Final = 300  # characters
SYSTEM_FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Only these files of /etc, because others hold keys and passwords, which root could read.
SYSTEM_FILES: Final = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/mime.types"),
    *("/etc/passwd", "/etc/group", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/crypto-policies"),
    *("/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf"),
)
NETWORK_FILES: Final = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols"),
)
TEMPORARY: Final = "/tmp"  # noqa: S108  a file system of its own
HOME: Final = "/tmp/home"  # noqa: S108
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108
TEMPORARY_BYTES: Final = {TEMPORARY: 1024 * MEBIBYTE, SHARED_MEMORY: 256 * MEBIBYTE}
# The first process of the sandbox. When the program ends, it ends too, and the kernel then kills all that is left. The program
# itself is not the first process, because that one ignores signals which would end any other.
INIT: Final = '"$@"; exit $?'
# With exact folders, it compares them first. That is possible only here: until they are mounted, they can be exchanged.
CHECKING_INIT: Final = 'test "$(stat -c %d:%i -- {paths})" = {identities} || {{ echo {message} >&2; exit 126; }}; {init}'
EXCHANGE_MESSAGE: Final = "A folder of the repository was exchanged. Nothing was run."
ISOLATION: Final = ("--unshare-all", "--cap-drop", "ALL", "--as-pid-1")
DIES_WITH_US: Final = ("--die-with-parent", "--new-session")
NO_NAMESPACES: Final = ("--unshare-user", "--disable-userns")  # the program cannot create namespaces of its own


class Bubblewrap(NamedTuple):
    """The bubblewrap of this machine, and why it cannot be used."""

    path: str = ""
    fault: str = ""
    is_strict: bool = True  # it can limit temporary files and prevent namespaces: 0.8 or newer


def find_fault(sandbox: Sandbox) -> str:
    """Return why programs run without a sandbox; empty if they run in one. The first call can take a moment."""
    return "HEADWAY_SANDBOX is off" if sandbox.mode == "off" else probe().fault


@lru_cache(maxsize=1)
def probe() -> Bubblewrap:
    """Start a program in a sandbox, to see whether that works here."""
    path = shutil.which(BWRAP, path=f"{build_search_path()}{os.pathsep}/usr/bin") if sys.platform == "linux" else None
    if path is None:
        reason = "install the package bubblewrap" if sys.platform == "linux" else "it needs Linux"
        return Bubblewrap(fault=f"bubblewrap is not installed: {reason}")
    fault = ""
    with tempfile.TemporaryDirectory(prefix="headway-") as folder:
        for is_strict in (True, False):
            found = Bubblewrap(path, is_strict=is_strict)
            fault = try_out(found, folder)
            if not fault:
                return found
    return Bubblewrap(path, f"bubblewrap does not work here: {fault}")


def try_out(bubblewrap: Bubblewrap, folder: str) -> str:
    """Run a program in the sandbox and return what went wrong, in one line."""
    try:
        with open_filter() as (options, descriptors):
            ran = subprocess.run(  # noqa: S603  bubblewrap itself
                build_arguments(bubblewrap, folder, Sandbox(), ["true"], *DIES_WITH_US, *options),
                capture_output=True,
                timeout=PROBE_TIMEOUT_S,
                check=False,
                stdin=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                pass_fds=descriptors,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return to_one_line(str(error))[:REASON_LIMIT]
    said = to_one_line(ran.stderr.decode(errors="replace").strip())[:REASON_LIMIT]
    return "" if ran.returncode == 0 else said or f"it ended with exit code {ran.returncode}"


@contextmanager
def open_filter() -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Open the filter of system calls. Yields the options of bubblewrap that name it, and the descriptor that it must inherit."""
    instructions = build_filter()
    if not instructions:
        yield (), ()
        return
    source, target = os.pipe()
    try:
        os.write(target, instructions)  # a pipe holds far more
        os.close(target)
        yield ("--seccomp", str(source)), (source,)
    finally:
        os.close(source)


def build_arguments(bubblewrap: Bubblewrap, folder: str, sandbox: Sandbox, command: list[str], *options: str) -> list[str]:
    """Build the command line that runs a command in the sandbox. The folder is writable and the current one."""
    mounts = list_mounts(bubblewrap, folder, sandbox)
    return [
        bubblewrap.path,
        *ISOLATION,
        *(NO_NAMESPACES if bubblewrap.is_strict else ()),
        *(("--share-net",) if sandbox.has_network else ()),
        # Parents come before their children, which are mounted on top of them.
        *(argument for _, arguments in sorted(mounts, key=lambda mount: mount[0].split("/")) for argument in arguments),
        *("--dir", HOME),
        # The settings of the kernel in /proc/sys are writable for root, also for a root without capabilities.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", folder if is_exact(folder, sandbox) else os.path.realpath(folder)),
        *options,
        *("--", "/bin/sh", "-c", build_init(sandbox), "sh", *command),
    ]


def build_init(sandbox: Sandbox) -> str:
    if not sandbox.exact:
        return INIT
    paths = shlex.join(folder.path for folder in sandbox.exact)
    identities = shlex.quote("\n".join(folder.identity for folder in sandbox.exact))
    return CHECKING_INIT.format(paths=paths, identities=identities, message=shlex.quote(EXCHANGE_MESSAGE), init=INIT)


def is_exact(path: str, sandbox: Sandbox) -> bool:
    return any(path == folder.path for folder in sandbox.exact)


def list_mounts(bubblewrap: Bubblewrap, folder: str, sandbox: Sandbox) -> list[tuple[str, tuple[str, ...]]]:
    """List what the sandbox consists of: each path, with the arguments that put something there."""
    files = (*SYSTEM_FILES, *(NETWORK_FILES if sandbox.has_network else ()))
    # A later entry for the same path covers an earlier one.
    return [
        *((path, mount_system_folder(path)) for path in SYSTEM_FOLDERS),
        *((path, ("--ro-bind-try", os.path.realpath(path), path)) for path in files),
        ("/proc", ("--proc", "/proc")),
        ("/dev", ("--dev", "/dev")),
        *((path, mount_temporary(bubblewrap, path)) for path in (SHARED_MEMORY, TEMPORARY)),
        *((path, ("--ro-bind-try", path, path)) for path in list_spellings(sandbox.readable)),
        *((path, cover(path)) for path in list_covered(folder, sandbox)),
        *((path, ("--bind", path, path)) for path in list_spellings(list_writable(folder, sandbox))),
        *((path, ("--bind" if is_writable else "--ro-bind", path, path)) for path, _, is_writable in sandbox.exact),
    ]


def list_writable(folder: str, sandbox: Sandbox) -> tuple[str, ...]:
    """List the writable folders at whose place there is nothing else, so that links may be followed."""
    return sandbox.writable if is_exact(folder, sandbox) else (*sandbox.writable, folder)


def mount_system_folder(path: str) -> tuple[str, ...]:
    return ("--symlink", os.readlink(path), path) if os.path.islink(path) else ("--ro-bind-try", path, path)


def mount_temporary(bubblewrap: Bubblewrap, path: str) -> tuple[str, ...]:
    size = ("--size", str(TEMPORARY_BYTES[path])) if bubblewrap.is_strict else ()
    return (*size, "--tmpfs", path)


def cover(path: str) -> tuple[str, ...]:
    """Return the arguments that show an empty folder or file instead of the one at this path."""
    return ("--tmpfs", path) if os.path.isdir(path) else ("--ro-bind", os.devnull, path)


def list_spellings(paths: Iterable[str]) -> list[str]:
    """List the paths, and the paths that they lead to if they are or contain links. Programs use both."""
    return list(dict.fromkeys(spelling for path in paths for spelling in (os.path.abspath(path), os.path.realpath(path))))


def list_covered(folder: str, sandbox: Sandbox) -> list[str]:
    """List the hidden folders and files that would otherwise be visible, wherever they would be."""
    shown = (*SYSTEM_FOLDERS, *list_spellings((*sandbox.readable, *sandbox.writable, folder)))
    places = [(path, os.path.realpath(path)) for path in shown]
    hidden = [path for path in map(os.path.realpath, sandbox.hidden) if os.path.exists(path)]
    covered = {outer + path.removeprefix(real) for path in hidden for outer, real in places if is_inside(path, real)}
    return sorted(path for path in covered if not any(path != other and is_inside(path, other) for other in covered))


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_visible(path: str, sandbox: Sandbox) -> bool:
    """Whether a program is in the sandbox, and what it links to as well."""
    shown = (*SYSTEM_FOLDERS, *list_spellings((*sandbox.readable, *sandbox.writable)))
    return all(any(is_inside(spelling, folder) for folder in shown) for spelling in (path, os.path.realpath(path)))


def build_search_path() -> str:
    """Return PATH without relative entries, which would lead into the workspace, where agents write."""
    return os.pathsep.join(filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep)))


# The operator's own commands need more than the system: the programs in PATH, and the Python that runs Headway.


PYTHONS: Final = ("python", "python3")
# Beside a folder `bin`: the libraries of its programs. The rest, such as settings and keys in ~/.cargo or ~/.local, stays hidden.
LIBRARIES: Final = ("lib", "lib64", "libexec", "pyvenv.cfg")


def list_program_paths() -> tuple[str, ...]:
    """List the folders in PATH and the folders that their programs use, without what every sandbox shows."""
    folders = [*build_search_path().split(os.pathsep), os.path.dirname(sys.executable)]
    paths = [path for folder in folders for path in list_needed(folder)]
    return tuple(dict.fromkeys(path for path in paths if not any(is_inside(path, system) for system in SYSTEM_FOLDERS)))


def list_needed(folder: str) -> Iterator[str]:
    """Yield a folder of programs, their libraries, and the same of the Python that it links to, as that of an environment does."""
    yield from list_with_libraries(folder)
    pythons = (os.path.join(folder, name) for name in PYTHONS)
    for real in {os.path.dirname(os.path.realpath(python)) for python in pythons if os.path.exists(python)}:
        yield from list_with_libraries(real)


def list_with_libraries(folder: str) -> Iterator[str]:
    folder = os.path.normpath(folder)
    if not os.path.isdir(folder) or holds_homes(folder):
        return
    yield folder
    if os.path.basename(folder) == "bin":
        beside = (os.path.join(os.path.dirname(folder), name) for name in LIBRARIES)
        yield from filter(os.path.exists, beside)


def holds_homes(folder: str) -> bool:
    """Whether a folder is the root, a user's home, or holds homes. Nothing of these is shown as a whole."""
    parts = os.path.realpath(folder).split(os.sep)[1:]
    return parts == [""] or folder == os.path.expanduser("~") or (parts[0] in HOME_PARENTS and len(parts) < 3)
