"""The published client packages of chat front ends, run by node against a server."""

import atexit
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from select import select
from typing import Any, NamedTuple

import pytest

from tests.npm_packages import TESTS, install_packages
from tests.surfaces.server_harness import Client

SCRIPTS = TESTS / "clients"
TALKING_S = 60

# Older versions say the same in nearly the same words.
AG_UI = ("@ag-ui/client", pytest.param("ag-ui-client-0", marks=pytest.mark.compatibility))
AI_SDK = ("ai-7", *(pytest.param(older, marks=pytest.mark.compatibility) for older in ("ai-5", "ai-6")))


def install_clients() -> Path:
    """Install the pinned packages and the scripts that use them."""
    folder = install_packages(SCRIPTS.name)
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


class ClientSide(NamedTuple):
    """What a front end has beside its messages: tools with their results, and context."""

    tools: tuple[dict[str, Any], ...] = ()
    results: dict[str, Any] = {}
    context: tuple[dict[str, str], ...] = ()


def run_client(
    script: str, library: str, client: Client, path: str, key: str, requests: tuple[str, ...], side: ClientSide | None = None
) -> dict[str, Any]:
    """Send these messages with the client, and return its view of the conversation."""
    url = f"{str(client.base_url).rstrip('/')}{path}"
    extras = (side or ClientSide())._asdict()
    view: dict[str, Any] = run_script(script, library, url, client.secret, key, requests, extras)
    return view


def run_script(script: str, *arguments: Any) -> Any:
    """Run a script of tests/clients with these arguments, and return its result."""
    host = start_host()
    assert host.stdin is not None
    assert host.stdout is not None
    host.stdin.write(json.dumps([script, *arguments]) + "\n")
    host.stdin.flush()
    assert select([host.stdout], [], [], TALKING_S)[0], "the client does not come to an end"
    answer = json.loads(host.stdout.readline())
    assert "failure" not in answer, answer["failure"]
    return answer["view"]


def ag_ui(library: str, client: Client, *requests: str, key: str = "thread", side: ClientSide | None = None) -> dict[str, Any]:
    return run_client("ag_ui.mjs", library, client, "/v1/ag-ui", key, requests, side)


def ui_stream(library: str, client: Client, *requests: str, key: str = "chat", side: ClientSide | None = None) -> dict[str, Any]:
    return run_client("ui_stream.mjs", library, client, "/v1/ui-stream", key, requests, side)


def openai_js(client: Client, *requests: str) -> dict[str, Any]:
    return run_client("openai.mjs", "openai", client, "/v1", "index", requests)
