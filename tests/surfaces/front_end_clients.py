"""The published client packages of two chat front ends, run by node against a server."""

import atexit
import fcntl
import hashlib
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from select import select
from typing import Any

from tests.surfaces.server_harness import Client

TESTS = Path(__file__).parent.parent
SCRIPTS = TESTS / "clients"
CACHE = TESTS.parent / ".cache" / "clients"
INSTALLING_S = 300
TALKING_S = 60

AG_UI = ("@ag-ui/client", "ag-ui-client-0")
AI_SDK = ("ai-5", "ai-6", "ai-7")


def install_clients() -> Path:
    """Install the pinned packages into a shared folder, once. The tests fail if node or a package is missing."""
    node = shutil.which("npm") and shutil.which("node")
    assert node, "the front ends' own clients need node and npm"
    pins = [SCRIPTS / name for name in ("package.json", "package-lock.json")]
    folder = CACHE / hashlib.sha256(b"".join(pin.read_bytes() for pin in pins)).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the tests run in several processes
        if not (folder / "installed").exists():
            for pin in pins:
                shutil.copy(pin, folder)
            command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALLING_S)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            (folder / "installed").touch()
    for script in SCRIPTS.glob("*.mjs"):
        if not (folder / script.name).exists() or (folder / script.name).read_bytes() != script.read_bytes():
            shutil.copy(script, folder)
    return folder


@cache
def start_host() -> "subprocess.Popen[str]":
    """Start node, once per test process: loading a client takes it half a second."""
    process = subprocess.Popen(
        ["node", "host.mjs"], cwd=install_clients(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)  # it ends with its input
    return process


def run_client(script: str, library: str, client: Client, path: str, key: str, requests: tuple[str, ...]) -> dict[str, Any]:
    """Send these messages with the client, and return its view of the conversation."""
    url = f"{str(client.base_url).rstrip('/')}{path}"
    host = start_host()
    assert host.stdin is not None
    assert host.stdout is not None
    host.stdin.write(json.dumps([script, library, url, client.secret, key, requests]) + "\n")
    host.stdin.flush()
    assert select([host.stdout], [], [], TALKING_S)[0], "the client does not come to an end"
    answer = json.loads(host.stdout.readline())
    assert "failure" not in answer, answer["failure"]
    view: dict[str, Any] = answer["view"]
    return view


def ag_ui(library: str, client: Client, *requests: str, key: str = "thread") -> dict[str, Any]:
    return run_client("ag_ui.mjs", library, client, "/v1/ag-ui", key, requests)


def ui_stream(library: str, client: Client, *requests: str, key: str = "chat") -> dict[str, Any]:
    return run_client("ui_stream.mjs", library, client, "/v1/ui-stream", key, requests)
