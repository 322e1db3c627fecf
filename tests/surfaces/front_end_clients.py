"""The published client packages of two chat front ends, run by node against a server."""

import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
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


def run_client(script: str, library: str, client: Client, path: str, key: str, requests: tuple[str, ...]) -> dict[str, Any]:
    """Send these messages with the client, and return its view of the conversation."""
    url = f"{str(client.base_url).rstrip('/')}{path}"
    command = ["node", script, library, url, client.secret, key, *requests]
    result = subprocess.run(command, cwd=install_clients(), capture_output=True, text=True, timeout=TALKING_S)
    assert result.returncode == 0, result.stderr
    conversation: dict[str, Any] = json.loads(result.stdout)
    return conversation


def ag_ui(library: str, client: Client, *requests: str, key: str = "thread") -> dict[str, Any]:
    return run_client("ag_ui.mjs", library, client, "/v1/ag-ui", key, requests)


def ui_stream(library: str, client: Client, *requests: str, key: str = "chat") -> dict[str, Any]:
    return run_client("ui_stream.mjs", library, client, "/v1/ui-stream", key, requests)
