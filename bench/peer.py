"""Runs peers in their own virtual environments, created when first needed, and sends them requests over a pipe.

    theirs = shop.once(langgraph)     # a process that waits for requests
    theirs.ask("puts", path=…)        # runs a function and returns its figure

Between two requests a peer sleeps, so that it does not disturb other measurements.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness import Unavailable, Workshop, progress

ROOT = Path(__file__).parent.parent
SCRIPTS = Path(__file__).with_name("peers")
ENVIRONMENTS = ROOT / ".bench"
INSTALLING_S = 600


class Peer:
    """A running script of `bench/peers`."""

    def __init__(self, shop: Workshop, name: str) -> None:
        self.name = name
        python = environment(name)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HEADWAY_"))}
        command = [str(python), "-m", f"bench.peers.{name}"]
        self.process = subprocess.Popen(command, cwd=ROOT, env=inherited, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        shop.cleanup.callback(self.close)

    def ask(self, function: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": function, **arguments}) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline() or '{"failed": "it ended"}')
        if "failed" in reply:
            raise RuntimeError(f"{self.name} failed:\n{reply['failed']}")
        return reply["answer"]

    def close(self) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def environment(name: str) -> Path:
    """Return the interpreter of this peer's environment. The environment is rebuilt when its requirements have changed."""
    requirements = SCRIPTS / f"{name}.txt"
    digest = hashlib.sha256(f"{sys.version}\n{requirements.read_text(encoding='utf-8')}".encode()).hexdigest()
    folder = ENVIRONMENTS / name
    digest_file = folder / "made-from"
    if not digest_file.exists() or digest_file.read_text() != digest:
        progress(f"installing {name} into {folder}")
        install(folder, requirements)
        digest_file.write_text(digest)
    return folder / "bin" / "python"


def install(folder: Path, requirements: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    python, uv = folder / "bin" / "python", shutil.which("uv")
    if uv:
        commands = [
            [uv, "venv", "-q", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "-q", "--python", str(python), "-r", str(requirements)],
        ]
    else:
        quiet_flags = ["-q", "--disable-pip-version-check"]
        commands = [
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", *quiet_flags, "-r", str(requirements)],
        ]
    for command in commands:
        try:
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=INSTALLING_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            lines = str(error.stderr or error).strip().splitlines()
            raise Unavailable(f"{requirements.stem} cannot be installed: {lines[-1] if lines else error}") from None


def named(name: str) -> "partial[Peer]":
    """Return a factory for `shop.once`."""
    return partial(Peer, name=name)


LANGGRAPH = named("langgraph_checkpoints")
LANGCHAIN = named("langchain_agent")
PYDANTIC_AI = named("pydantic_agent")
DBOS = named("dbos_jobs")
PROCRASTINATE = named("procrastinate_jobs")
SCRIPTED_MODEL = named("scripted_model")
LANGCHAIN_READER = named("langchain_reader")
DEEPAGENTS_READER = named("deepagents_reader")
OPENAI_READER = named("openai_reader")
PYDANTIC_READER = named("pydantic_reader")
