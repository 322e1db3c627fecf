"""The examples for frameworks that are not installed here: each runs in an environment with its packages, against a scripted model.

`make torture` runs them, because the packages are large. The test of LangChain is an ordinary one.
"""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from tests.model_server import MODEL, ModelServer, calls, environment, text

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
ANSWER = "The bread is here."
PACKAGES = {
    "agno_agent.py": ("agno", "fastmcp", "openai"),
    "crewai_agent.py": ("crewai", "crewai-tools[mcp]"),
    "deepagents_agent.py": (f"{ROOT}[langchain]", "deepagents", "langchain-openai"),
    "llama_index_agent.py": ("llama-index-llms-openai-like", "llama-index-tools-mcp"),
    "smolagents_agent.py": ("smolagents[mcp,openai]", "mcp[ws]<2"),
}
QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}


def build_script() -> Callable[[Any], Any]:
    """Script a model that plans a step, completes it by its real id, and answers in the way that the framework wants."""
    steps = iter(range(100))

    def script(request: Any) -> Any:
        step = next(steps)
        if step == 0:
            return calls(("create_todo", {"items": [{"title": "buy bread"}]}))
        if step == 1:
            [*_, todo_id] = re.findall(r'\\?"id\\?":\s*\\?"?([0-9a-f-]{36})', "\n".join(request.texts))
            return calls(("complete_todo", {"todoId": todo_id, "outcome": "bought", "status": "completed", "startNext": False}))
        return calls(("final_answer", {"answer": ANSWER})) if "final_answer" in request.tools else text(ANSWER)

    return script


def build_early_script() -> Callable[[Any], Any]:
    """Script a model that replaces its plan with write_todos, and answers once too early."""

    def script(request: Any) -> Any:
        def write(status: str) -> Any:
            return calls(("write_todos", {"todos": [{"content": "buy bread", "status": status}]}))

        assert request.tools.count("write_todos") == 1  # one planner
        return [write("in_progress"), text("Done!"), write("completed"), text(ANSWER)][request.assistant_turns]

    return script


def run_example(python: Path, name: str, folder: Path, script: Callable[[Any], Any]) -> tuple[str, list[tuple[str, str]]]:
    """Run an example that must succeed. Return what it printed, and the todos with their statuses."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("HEADWAY_", "OPENAI_"))}
    path = f"{Path(sys.executable).parent}:{inherited['PATH']}"  # has the `headway` command
    with ModelServer(script) as model:
        settings = {"HEADWAY_HOME": str(folder / "home"), "OPENAI_MODEL": MODEL, "PATH": path, "HOME": str(folder)}
        env = {**inherited, **environment(model), **settings, **QUIET}
        command = [str(python), str(EXAMPLES / name)]
        ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    with DirectDatabase(f"sqlite:///{folder / 'home' / 'headway.db'}") as database:
        return ran.stdout, database.read(list_todos)


def list_todos(tx: Transaction) -> list[tuple[str, str]]:
    return [(str(subject), str(status)) for subject, status in tx.all("SELECT subject, status FROM todos ORDER BY id")]


def test_the_middleware_of_langchain_sends_an_agent_back(tmp_path: Path) -> None:
    printed, todos = run_example(Path(sys.executable), "langchain_middleware.py", tmp_path, build_early_script())
    assert printed == f"{ANSWER}\n"
    assert todos == [("buy bread", "completed")]


@pytest.mark.torture
@pytest.mark.parametrize("name", PACKAGES)
def test_an_example_runs_with_the_newest_packages(tmp_path: Path, name: str) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    installer = (
        [uv, "pip", "install", "--python", str(python)] if uv else [sys.executable, "-m", "pip", "--python", str(python), "install"]
    )
    subprocess.run([*installer, "-q", *PACKAGES[name]], check=True, timeout=1200)

    script = build_early_script() if name == "deepagents_agent.py" else build_script()
    printed, todos = run_example(python, name, tmp_path, script)
    assert ANSWER in printed
    assert todos == [("buy bread", "completed")]


def test_the_examples_are_short() -> None:
    """Ten lines of code, besides imports and the frame of an asynchronous program."""
    frame = re.compile(r"(from|import|async def main|asyncio\.run|\"\"\")")
    for name in (*PACKAGES, "langchain_middleware.py"):
        lines = [line for line in (EXAMPLES / name).read_text("utf-8").splitlines() if line.strip() and not frame.match(line)]
        assert len(lines) <= 10, name
