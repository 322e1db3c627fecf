"""Clients that other people's generators make from the OpenAPI document: they compile strictly, and work with a server."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.npm_packages import CACHE, INSTALLING_S, TESTS, install_packages
from tests.surfaces.server_harness import Client

PROGRAMS = TESTS / "openapi_clients"
DOCUMENT = "openapi.json"
RUNNING_S = 300
SEEN = {
    "checks": ["the outcome"],
    "others": ["print", "read"],
    "listed": 2,
    "open": True,
    "rows": ["write twice", "No todo 404"],
    "goal": "Tidy the attic.",
    "agents": ["string"],
    "error": "not_found",
}

pytestmark = pytest.mark.compatibility  # generators and compilers take half a minute


def run(*command: str | Path, folder: Path, path: Path | None = None) -> str:
    env = os.environ | ({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
    ran = subprocess.run([str(part) for part in command], cwd=folder, env=env, capture_output=True, text=True, timeout=RUNNING_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "warning" not in (ran.stdout + ran.stderr).lower()
    return ran.stdout


def install_python_packages() -> Path:
    """Install what tests/openapi_clients/requirements.txt pins into an environment of its own, once."""
    pins = PROGRAMS / "requirements.txt"
    folder = CACHE / "openapi_python_client"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists() or (folder / "installed").read_text() != pins.read_text():
            venv.create(folder / "venv", with_pip=False, symlinks=True)
            python = folder / "venv" / "bin" / "python"
            command = [sys.executable, "-m", "pip", "-q", "--python", str(python), "install", "-r", str(pins)]
            subprocess.run(command, check=True, timeout=INSTALLING_S)
            shutil.copy(pins, folder / "installed")
    return folder / "venv" / "bin"


def test_typescript_programs_compile_and_run(sqlite_client: Client, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(install_packages(PROGRAMS.name) / "node_modules")
    for source in [*PROGRAMS.glob("*.ts"), *PROGRAMS.glob("*.mjs"), *PROGRAMS.glob("*.json")]:
        shutil.copy(source, tmp_path)
    (tmp_path / DOCUMENT).write_text(sqlite_client.get("/openapi.json").text, encoding="utf-8")
    packages = Path("node_modules")
    run("node", packages / "openapi-typescript" / "bin" / "cli.js", DOCUMENT, "-o", "schema.d.ts", folder=tmp_path)
    run("node", packages / ".bin" / "openapi-ts", folder=tmp_path)
    run("node", packages / "typescript" / "bin" / "tsc", "-p", ".", folder=tmp_path)
    for program in ("with_openapi_fetch", "with_hey_api"):
        seen = json.loads(run("node", f"built/{program}.js", str(sqlite_client.base_url), sqlite_client.secret, folder=tmp_path))
        assert {**seen, "agents": sorted(set(seen["agents"]))} == SEEN


def test_a_python_program_is_typed_and_runs(sqlite_client: Client, tmp_path: Path) -> None:
    binaries = install_python_packages()
    shutil.copy(PROGRAMS / "with_python_client.py", tmp_path)
    (tmp_path / DOCUMENT).write_text(sqlite_client.get("/openapi.json").text, encoding="utf-8")
    options = ("--path", DOCUMENT, "--output-path", "python_client", "--meta", "none")
    run(binaries / "openapi-python-client", "generate", *options, folder=tmp_path, path=binaries)
    check = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        binaries / "python",
        "--cache-dir",
        tmp_path / "cache",
    ]
    checked = subprocess.run([*map(str, check), "with_python_client.py"], cwd=tmp_path, capture_output=True, text=True)
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]
    assert [line for line in errors if not line.startswith("python_client/client.py:")] == []  # that file is the same for everyone
    seen = json.loads(
        run(binaries / "python", "with_python_client.py", str(sqlite_client.base_url), sqlite_client.secret, folder=tmp_path)
    )
    assert {**seen, "agents": sorted(set(seen["agents"]))} == SEEN
