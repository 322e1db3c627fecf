"""What the operator's own commands need to see beside the system: the programs in PATH, and the Python that runs Headway."""

import os
import sys
from collections.abc import Iterator
from typing import Final

from headway.agents.tools.programs.sandbox import SYSTEM_FOLDERS, build_search_path, is_inside
from headway.ledger.check import HOME_PARENTS

PYTHONS: Final = ("python", "python3")
# Beside a folder `bin`: the libraries of its programs. The rest, such as settings and keys in ~/.cargo or ~/.local, stays hidden.
LIBRARIES: Final = ("lib", "lib64", "libexec", "pyvenv.cfg")


def list_program_paths() -> tuple[str, ...]:
    """List the folders in PATH and those that their programs use, without what every sandbox shows."""
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
