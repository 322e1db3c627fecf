"""Environments with Headway's wheel, as people have them who install it: the wheel, what it requires, and nothing else."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CLASSIFIER = "Programming Language :: Python :: 3."
SUPPORTED = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if name.startswith(CLASSIFIER)]  # oldest first
OLDEST, NEWEST = SUPPORTED[0], SUPPORTED[-1]
README_PROGRAM = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python")
INSTALLING_S = 1_800


class Install(NamedTuple):
    """An environment with Headway."""

    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def site(self) -> Path:
        [site] = self.folder.glob("lib/python*/site-packages")
        return site

    def start(self, folder: Path, *command: str, env: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
        program = [str(self.bin / command[0]), *command[1:]]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            program, cwd=folder, env={**inherit_environment(), **(env or {})}, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

    def run(self, folder: Path, *command: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        with self.start(folder, *command, env=env) as process:
            out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    @contextmanager
    def serve(self, folder: Path, env: Mapping[str, str] | None = None) -> Iterator[httpx.Client]:
        """Start `headway serve`. The client has a token of it."""
        secret = json.loads(self.run(folder, "headway", "token", "new", "--json")[1])["token"]
        with self.start(folder, "headway", "serve", "--port", "0", "--json", env=env) as server:
            try:
                assert server.stdout is not None
                url = json.loads(server.stdout.readline())["url"]
                headers = {"Authorization": f"Bearer {secret}"}
                with httpx.Client(base_url=url, headers=headers, trust_env=False, verify=False, timeout=60) as client:
                    yield client
            finally:
                server.terminate()
                server.communicate(timeout=60)


def inherit_environment() -> dict[str, str]:
    """Return the environment without the settings of Headway, of Python and of a provider."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "PYTHON", "OPENAI_"))}


class Release(NamedTuple):
    sources: Path
    wheel: Path  # built from the sdist, not from the tree


def build_release(folder: Path) -> Release:
    """Build the release from a copy of the tree without files that tools leave in it."""
    left_behind = shutil.ignore_patterns(".*", "__pycache__", "dist", "*.egg-info")
    shutil.copytree(ROOT, folder / "tree", ignore=left_behind)
    sources = build("sdist", folder / "tree", folder)
    with tarfile.open(sources) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has no filters
        packed.extractall(folder / "unpacked")
    [unpacked] = (folder / "unpacked").iterdir()
    return Release(sources, build("wheel", unpacked, folder))


def build(target: str, tree: Path, folder: Path) -> Path:
    """Build with the backend that pyproject.toml names, as `python -m build --no-isolation` does."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    ran = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=INSTALLING_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [built] = folder.glob("*.tar.gz" if target == "sdist" else "*.whl")
    return built


# Interpreters


def find_python(version: str) -> Path | None:
    """Return an interpreter of this version, from the PATH or from where pyenv and uv put theirs."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local" / "share" / "uv" / "python")
    program = f"python{version}"
    candidates = [
        *([Path(sys.executable)] if version == RUNNING else []),
        *(Path(folder) / program for folder in os.get_exec_path()),
        *sorted(pyenv.glob(f"{version}.*/bin/{program}")),
        *sorted(uv.glob(f"cpython-{version}.*/bin/{program}")),
    ]
    return next((path for path in candidates if path.is_file() and read_version(path) == version), None)


def read_version(python: Path) -> str:
    """Return the version of an interpreter; empty if it does not run, as a shim of pyenv for a version that is not selected."""
    program = "import sys, venv; print(*sys.version_info[:2], sep='.')"
    try:
        return subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, timeout=60).stdout.strip()
    except OSError:
        return ""


def require_python(version: str) -> Path:
    """Return an interpreter of this version. Without one, the test is skipped, and the end of the run says so."""
    if python := find_python(version):
        return python
    pytest.skip(f"Headway was not tested on Python {version}, which is not installed: there is no python{version} that runs")


# Packages


def list_required(*extras: str) -> dict[str, Distribution]:
    """Return the packages that Headway requires here with these extras, and those that they require."""
    optional = PROJECT["optional-dependencies"]
    pending = [Requirement(line) for line in (*PROJECT["dependencies"], *(line for extra in extras for line in optional[extra]))]
    found: dict[str, Distribution] = {}
    seen = set()
    while pending:
        wanted = pending.pop()
        if (key := (canonicalize_name(wanted.name), frozenset(wanted.extras))) in seen:
            continue
        seen.add(key)
        if wanted.name == "headway":
            lines = [line for extra in wanted.extras for line in optional[extra]]
        else:
            found[canonicalize_name(wanted.name)] = package = distribution(wanted.name)
            lines = package.requires or []
        pending += [required for required in map(Requirement, lines) if is_required(required, wanted.extras)]
    return found


def is_required(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def list_files(package: Distribution) -> dict[str, int]:
    """Return the files of an installed package with their sizes, without compiled bytecode and scripts."""
    files = package.files or []
    return {
        str(file): os.path.getsize(str(file.locate()))
        for file in files
        if file.suffix != ".pyc" and not str(file).startswith("..") and os.path.exists(str(file.locate()))
    }


def locate_here(*extras: str) -> dict[str, Path]:
    """Return the modules of the packages that Headway requires, in the environment that runs the tests, by their place in it.

    A folder without an __init__.py can be shared with packages that Headway does not require, so its parts are listed.
    """
    found = {}
    for package in list_required(*extras).values():
        for file in list_files(package):
            first, *rest = file.split("/")
            is_shared = rest and not Path(str(package.locate_file(f"{first}/__init__.py"))).exists()
            place = f"{first}/{rest[0]}" if is_shared else first
            found[place] = Path(str(package.locate_file(place)))
    return found


def install_elsewhere(python: Path) -> dict[str, Path]:
    """Install what the core requires for another interpreter, in the versions that requirements.txt pins, and return its modules.

    They are kept outside of the source tree, so only the first run needs a package index.
    """
    pins = [line.rstrip(" \\") for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines() if "==" in line]
    key = hashlib.sha256("\n".join((str(python), *PROJECT["dependencies"], *pins)).encode()).hexdigest()[:16]
    folder = CACHE / "pythons" / key
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the tests run in several processes
        if not (folder / "installed").exists():
            (folder / "pins.txt").write_text("\n".join(pins), encoding="utf-8")
            target = ("--target", str(folder / "packages"), "--constraint", str(folder / "pins.txt"))
            ran = subprocess.run(
                [*PIP, str(python), "install", "-q", *target, *PROJECT["dependencies"]],
                capture_output=True,
                text=True,
                timeout=INSTALLING_S,
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
            (folder / "installed").touch()
    return {path.name: path for path in (folder / "packages").iterdir() if path.name != "bin"}


# Environments


def create_empty(folder: Path, python: Path) -> Install:
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True, timeout=INSTALLING_S)
    return Install(folder)


def create_linked(folder: Path, python: Path, wheel: Path, packages: Mapping[str, Path]) -> Install:
    """Create an environment with the wheel, and with links to the modules of the packages that it requires."""
    install = create_empty(folder, python)
    for place, path in packages.items():
        (install.site / place).parent.mkdir(exist_ok=True)
        (install.site / place).symlink_to(path)
    command = [*PIP, str(install.bin / "python"), "install", "-q", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    subprocess.run(command, check=True, timeout=INSTALLING_S)
    return install


def create_core(folder: Path, python: Path, wheel: Path) -> Install:
    """Create an environment with the wheel and what it requires without any extra."""
    is_here = read_version(python) == RUNNING
    return create_linked(folder, python, wheel, locate_here() if is_here else install_elsewhere(python))


def create_newest(folder: Path, python: Path, *requirements: str | Path, options: tuple[str, ...] = ()) -> Install:
    """Create an environment with the newest versions that fit together, from a package index."""
    install = create_empty(folder, python)
    uv, target = find_uv(), str(install.bin / "python")
    command = [uv, "pip", "install", "--python", target, *options] if uv else [*PIP, target, "install"]
    ran = subprocess.run([*command, "-q", *requirements], capture_output=True, text=True, timeout=INSTALLING_S)
    assert ran.returncode == 0, ran.stderr
    return install


def create_oldest(folder: Path, python: Path, wheel: Path, *extras: str, more: tuple[str, ...] = ()) -> Install:
    """Create an environment with the oldest versions that pyproject.toml admits for the core and these extras."""
    if not find_uv():
        pytest.skip("Only uv can choose the oldest packages. Install it: pip install uv")
    # uv chooses the oldest version of what is named here, not of what the wheel requires.
    direct = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    return create_newest(folder, python, str(wheel), *direct, *more, options=("--resolution", "lowest-direct"))


def find_uv() -> str | None:
    return shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
