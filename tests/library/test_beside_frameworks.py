"""Headway beside other frameworks: it can be installed with them, and their examples run against a scripted model.

Most frameworks are large. `make compatibility` installs each beside the wheel, on the oldest and the newest Python. LangChain is
installed here. `scripts/check_frameworks.py --write` records what each framework needs.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement

from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from tests.model_server import MODEL, ModelServer, calls, environment, text
from tests.wheel_installs import (
    NEWEST,
    OLDEST,
    PROJECT,
    README_PROGRAM,
    ROOT,
    Install,
    create_linked,
    create_newest,
    create_oldest,
    find_uv,
    inherit_environment,
    locate_here,
    require_python,
)

EXAMPLES = ROOT / "examples"
SCRIPT = ROOT / "scripts" / "check_frameworks.py"
RECORD = json.loads((ROOT / "scripts" / "frameworks.json").read_text(encoding="utf-8"))
FRAMEWORKS: dict[str, dict[str, Any]] = RECORD["frameworks"]
ANSWER = "The bread is here."
QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}


class Needs(NamedTuple):
    """What the examples of a framework need beside it: an extra of Headway, and other packages."""

    examples: tuple[str, ...] = ()
    extra: str = ""
    packages: tuple[str, ...] = ()


NEEDS = {
    "agno": Needs(("agno_agent.py",), "", ("fastmcp", "openai")),
    "crewai": Needs(("crewai_agent.py",), "", ("crewai-tools[mcp]",)),
    "deepagents": Needs(("deepagents_agent.py",), "[langchain]", ("langchain-openai",)),
    "langchain": Needs(("langchain_agent.py", "langchain_middleware.py"), "[langchain]", ("langchain-openai",)),
    "llama-index": Needs(("llama_index_agent.py",), "", ("llama-index-llms-openai-like", "llama-index-tools-mcp")),
    "openai-agents": Needs(("openai_agents_agent.py",), "[openai-agents]"),
    "pydantic-ai>=2": Needs(("pydantic_ai_agent.py",), "[openai]"),
    "smolagents": Needs(("smolagents_agent.py",), "", ("smolagents[mcp,openai]", "mcp[ws]<2")),
}
# Their models replace the whole plan, and answer once too early.
SENT_BACK = ("deepagents_agent.py", "langchain_middleware.py")
OWN_LOOPS = ("langchain_agent.py", "openai_agents_agent.py", "pydantic_ai_agent.py")
SHORT_EXAMPLES = ("agno_agent.py", "crewai_agent.py", "llama_index_agent.py", "smolagents_agent.py", *SENT_BACK, *OWN_LOOPS)


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


def run_example(python: Path, name: str, folder: Path, headway_bin: Path) -> tuple[str, list[tuple[str, str]]]:
    """Run an example that must succeed. Return what it printed, and the todos with their statuses."""
    inherited = inherit_environment()
    script = build_early_script() if name in SENT_BACK else build_script()
    with ModelServer(script) as model:
        settings = {"HEADWAY_HOME": str(folder / "home"), "OPENAI_MODEL": MODEL, "HOME": str(folder)}
        path = {"PATH": f"{headway_bin}:{inherited['PATH']}"}  # has the `headway` command
        env = {**inherited, **environment(model), **settings, **path, **QUIET}
        command = [str(python), str(EXAMPLES / name)]
        ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    with DirectDatabase(f"sqlite:///{folder / 'home' / 'headway.db'}") as database:
        return ran.stdout, database.read(list_todos)


def list_todos(tx: Transaction) -> list[tuple[str, str]]:
    return [(str(subject), str(status)) for subject, status in tx.all("SELECT subject, status FROM todos ORDER BY id")]


@pytest.mark.compatibility
def test_the_middleware_of_langchain_sends_an_agent_back(tmp_path: Path) -> None:
    here = Path(sys.executable)
    printed, todos = run_example(here, "langchain_middleware.py", tmp_path, here.parent)
    assert printed == f"{ANSWER}\n"
    assert todos == [("buy bread", "completed")]


def test_the_short_examples_are_short() -> None:
    """Ten lines of code, besides imports and the frame of an asynchronous program."""
    frame = re.compile(r"(from|import|async def main|asyncio\.run|\"\"\")")
    for name in SHORT_EXAMPLES:
        lines = [line for line in (EXAMPLES / name).read_text("utf-8").splitlines() if line.strip() and not frame.match(line)]
        assert len(lines) <= 10, name


def test_the_core_admits_what_frameworks_hold_back() -> None:
    """Some frameworks admit only old versions of libraries that the core requires. Excluding these versions breaks installs."""
    requirements = {requirement.name: requirement for requirement in map(Requirement, PROJECT["dependencies"])}
    assert sorted(requirements) == RECORD["requirements"], "new requirements: run scripts/check_frameworks.py --write"
    held_back = [
        (framework, name, version)
        for framework, row in FRAMEWORKS.items()
        for pins in row["older"]
        for name, version in pins.items()
    ]
    assert "browser-use" in {framework for framework, *_ in held_back}
    assert [pin for pin in held_back if not requirements[pin[1]].specifier.contains(pin[2])] == []
    assert [framework for framework, row in FRAMEWORKS.items() if not row["version"]] == []


def test_the_documents_have_the_recorded_table() -> None:
    table = subprocess.run([sys.executable, SCRIPT, "--table"], capture_output=True, text=True, check=True).stdout
    assert len(table.splitlines()) == len(FRAMEWORKS) + 2
    assert table in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


@pytest.mark.compatibility
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_core_does_not_hold_a_framework_back(framework: str) -> None:
    if not find_uv():
        pytest.skip("Resolving without installing needs uv. Install it: pip install uv")
    ran = subprocess.run([sys.executable, SCRIPT, "--core", framework], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def speak_mcp(install: Install, folder: Path) -> None:
    """Add a todo over MCP."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "todo_add", "arguments": {"subject": "buy bread"}}},
    ]
    with install.start(folder, "headway", "mcp") as server:
        out, err = server.communicate(
            "".join(f"{json.dumps({'jsonrpc': '2.0', **message})}\n" for message in messages), timeout=300
        )
    answers = [json.loads(line) for line in out.splitlines()]
    [added] = [answer["result"] for answer in answers if answer.get("id") == 2]
    assert added["structuredContent"]["todo"]["subject"] == "buy bread", err


@pytest.mark.compatibility
@pytest.mark.parametrize("extra", ["langchain", "mcp", "openai", "openai-agents"])
def test_the_oldest_libraries_that_an_extra_admits_work(extra: str, wheel: Path, tmp_path: Path) -> None:
    needs = [needs for needs in NEEDS.values() if needs.extra == f"[{extra}]" and "deepagents_agent.py" not in needs.examples]
    more = tuple(f"{name}>=1" for one in needs for name in one.packages)
    install = create_oldest(tmp_path / "venv", require_python(OLDEST), wheel, extra, more=more)
    for name in (name for one in needs for name in one.examples):
        (tmp_path / name).mkdir()
        printed, todos = run_example(install.bin / "python", name, tmp_path / name, install.bin)
        assert (ANSWER in printed, todos) == (True, [("buy bread", "completed")])
    if extra == "mcp":
        speak_mcp(install, tmp_path)


@pytest.mark.compatibility
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_wheel_works_beside(framework: str, version: str, wheel: Path, tmp_path: Path) -> None:
    """Import both, and run the README's program and the examples. Headway's MCP server runs in an environment of its own."""
    needs = NEEDS.get(framework, Needs())
    packages = (framework, *needs.packages, f"headway{needs.extra} @ {wheel.as_uri()}")
    install = create_newest(tmp_path / "venv", require_python(version), *packages)
    programs = create_linked(tmp_path / "programs", Path(sys.executable), wheel, locate_here("mcp"))

    program = f"import {FRAMEWORKS[framework]['module']}\n{README_PROGRAM}"
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    code, out, err = install.run(tmp_path, "python", "program.py", env=QUIET)
    assert code == 0, err
    assert "8 * 45 = 360" in out
    code, out, err = install.run(tmp_path, "headway", "todo", "show", "1")
    assert (code, "buy milk" in out) == (0, True), err
    for name in needs.examples:
        (tmp_path / name).mkdir()
        printed, todos = run_example(install.bin / "python", name, tmp_path / name, programs.bin)
        assert ANSWER in printed
        assert todos == [("buy bread", "completed")]
