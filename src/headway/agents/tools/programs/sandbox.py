"""The sandbox for programs: builds the arguments of bubblewrap, and finds out once per process whether it works here.

A program sees the system's folders read-only, its own folder, and nothing else of this machine: no other tenant's files, no home
folder, no processes. Linux only; elsewhere there is no sandbox.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, NamedTuple

from headway.agents.tools.programs.system_calls import build_filter
from headway.ledger.run import MEBIBYTE, Sandbox
from headway.ledger.text import to_one_line

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
    """List the paths, and those that they lead to if they are or contain links. Programs use both."""
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
