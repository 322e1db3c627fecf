"""What `pip install headway` gives without any extra: it is small and works, and what it lacks says how to install it.

The environment has the wheel and what the wheel requires, and nothing else. The packages are linked from the environment that runs
the tests, so no network is needed. tests/test_supported_pythons.py tries more of the wheel, on other Pythons.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import headway
from tests.wheel_installs import README_PROGRAM, ROOT, Install, create_core, list_files, list_required

MOST_PACKAGES = 34  # with Headway itself
MOST_BYTES = 60_000_000
POSTGRES_URL = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Install:
    return create_core(tmp_path_factory.mktemp("core") / "venv", Path(sys.executable), wheel)


def test_the_core_is_small() -> None:
    packages = list_required()
    assert len(packages) + 1 <= MOST_PACKAGES, sorted(packages)
    ours = sum(
        path.stat().st_size for path in (ROOT / "src" / "headway").rglob("*") if "__pycache__" not in path.parts and path.is_file()
    )
    theirs = sum(size for package in packages.values() for size in list_files(package).values())
    assert ours + theirs <= MOST_BYTES
    optional = {"apprise", "jsonschema", "mcp", "openai", "psycopg", "uvloop"}
    assert optional & packages.keys() == set()
    assert {"prompt-toolkit", "rich"} <= packages.keys()  # the todo panel and the prompt belong to the product
    assert optional <= list_required("all").keys()


# Runs several commands in one process, each with an environment of its own, and prints the exit code and the output of each.
RUN_COMMANDS = """
import contextlib, io, json, os, sys
from headway.surfaces.cli.main import main
results, usual = [], dict(os.environ)
for arguments, env in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    os.environ.clear()
    os.environ.update(usual | env)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    results.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


def run_commands(core: Install, folder: Path, *commands: tuple[tuple[str, ...], dict[str, str]]) -> list[list[Any]]:
    code, out, err = core.run(folder, "python", "-c", RUN_COMMANDS, json.dumps(commands))
    assert (code, err) == (0, "")
    results: list[list[Any]] = json.loads(out)
    return results


def test_the_core_runs_the_readme_and_everyday_commands(core: Install, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"{README_PROGRAM}\nimport headway\nprint(headway.__file__)\n", encoding="utf-8")
    code, out, err = core.run(tmp_path, "python", "program.py")
    assert (code, err) == (0, "")
    assert "360" in out
    assert out.endswith(f"{core.site / 'headway' / '__init__.py'}\n")

    assert core.run(tmp_path, "headway", "--version") == (0, f"headway, version {headway.__version__}\n", "")
    added, listed, checked, pursued = run_commands(
        core,
        tmp_path,
        (("todo", "add", "look around"), {}),
        (("todo", "list"), {}),
        (("doctor",), {}),
        (("goal", "add", "Write note.txt: hello", "--json"), {}),
    )
    assert (added[0], re.sub(r"#[0-9]+", "#N", added[1]), added[2]) == (0, "#N [pending] look around\n", "")
    assert "look around" in listed[1]
    assert checked[0] == 0
    assert json.loads(pursued[1])["goal"]["status"] == "completed"


MISSING = {
    ("mcp",): ("mcp", {}),
    ("mcp", "install", "codex"): ("mcp", {}),
    ("todo", "list"): ("postgres", {"HEADWAY_DATABASE_URL": POSTGRES_URL}),
    ("tenant", "move", "local", "--to", "b"): ("postgres", {}),
    ("serve", "--port", "0"): ("notify", {"HEADWAY_NOTIFY": "json://127.0.0.1:1"}),
    ("worker",): ("restate", {"HEADWAY_DISPATCH": "restate://127.0.0.1:1?identity_key=none"}),
}
OPENAI = {"HEADWAY_MODEL": "openai:gpt-5-mini"}


def name_model_extra(model: str, remedy: str) -> str:
    checkout = f" (in a checkout: '{remedy.replace('headway', '.')}')" if remedy.startswith("headway") else ""
    return f"The model {model!r} needs a library that is not installed: pip install '{remedy}'{checkout}."


def test_commands_that_need_an_extra_name_it(core: Install, tmp_path: Path) -> None:
    commands = [(command, env) for command, (_, env) in MISSING.items()]
    *refused, chat, doctor = run_commands(core, tmp_path, *commands, (("chat", "hello"), OPENAI), (("doctor",), OPENAI))
    for (command, (extra, _)), (code, out, err) in zip(MISSING.items(), refused, strict=True):
        assert (code, out) == (2, ""), command
        remedy = re.escape(f"pip install 'headway[{extra}]' (in a checkout: '.[{extra}]').")
        sentence = rf"headway: [A-Z].+ needs a library that is not installed: {remedy}\n"
        assert re.fullmatch(sentence, err), command
    sentence = name_model_extra("openai:gpt-5-mini", "headway[openai]")
    assert chat == [1, "", f"headway: {sentence}\n"]
    assert doctor[0] == 1
    assert sentence in doctor[1]


# The result for programs that open the library with these settings, build these models and import these modules.
LIBRARY = """
import asyncio, importlib, json, os, sys
from headway import Headway, HeadwayError
from headway.agents.models.providers import build_model

async def ask():
    async with Headway.open() as headway:
        await headway.ask("hello")

environments, models, modules = json.loads(sys.argv[1])
errors, usual = [], dict(os.environ)
for env in environments:
    os.environ.clear()
    os.environ.update(usual | env)
    try:
        asyncio.run(ask())
    except HeadwayError as error:
        errors.append(f"{type(error).__name__} {error.code} {error}")
for name in models:
    try:
        build_model(name)
    except Exception as error:
        errors.append(str(error))
for name in modules:
    try:
        importlib.import_module(name)
    except ImportError as error:
        errors.append(str(error))
print(json.dumps(errors))
"""
REMEDIES = {
    "openai:gpt-5-mini": "headway[openai]",
    "openrouter:some/model": "headway[openai]",
    "ollama:qwen": "headway[openai]",
    "anthropic:claude": "headway[anthropic]",
    "google:gemini": "headway[google]",
    "groq:llama": "pydantic-ai-slim[groq]",
}


@pytest.mark.compatibility
def test_the_library_names_a_missing_extra(core: Install, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mcp.json").write_text('{"mcpServers": {"files": {"command": "true"}}}', encoding="utf-8")
    environments = {
        "postgres": {"HEADWAY_DATABASE_URL": POSTGRES_URL},
        "notify": {"HEADWAY_NOTIFY": "json://127.0.0.1:1"},
        "mcp": {"HEADWAY_HOME": str(tmp_path / "home")},
    }
    frameworks = {"headway.frameworks.langchain": "langchain", "headway.frameworks.openai_agents": "openai-agents"}
    tried = json.dumps([list(environments.values()), list(REMEDIES), list(frameworks)])
    code, out, err = core.run(tmp_path, "python", "-c", LIBRARY, tried)
    assert (code, err) == (0, "")
    errors = json.loads(out)
    assert len(errors) == len(environments) + len(REMEDIES) + len(frameworks)
    for extra, error in zip(environments, errors[:3], strict=True):
        assert error.startswith("MissingExtra missing_extra ")
        assert f"pip install 'headway[{extra}]'" in error
    assert errors[3:-2] == [name_model_extra(model, remedy) for model, remedy in REMEDIES.items()]
    for extra, error in zip(frameworks.values(), errors[-2:], strict=True):
        assert f"pip install 'headway[{extra}]'" in error


@pytest.mark.compatibility
def test_the_server_of_the_core_serves_all_but_mcp_and_says_why(core: Install, tmp_path: Path) -> None:
    with core.serve(tmp_path, OPENAI) as client:
        page = client.get("/")
        files = re.findall(r'(?:href|src)="(/[^"]+)"', page.text)
        assert len(files) > 3
        assert {client.get(file).status_code for file in files} == {200}
        assert client.get("/readyz").status_code == 200
        assert "headway_" in client.get("/metrics").text
        answer = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer.status_code == 501
        problem = answer.json()
        assert (problem["code"], problem["status"], problem["title"]) == ("missing_extra", 501, "Not installed")
        assert (
            problem["detail"]
            == "The MCP server needs a library that is not installed: pip install 'headway[mcp]' (in a checkout: '.[mcp]')."
        )

        conversation = client.post("/v1/conversations", json={"title": "A chat"}).json()["conversation"]["id"]
        path, headers = f"/v1/conversations/{conversation}/messages", {"Accept": "text/event-stream"}
        stream = client.post(path, json={"content": "hello"}, headers=headers).text
        assert "event: turn_failed" in stream
        assert "pip install 'headway[openai]'" in stream

        schema = {"kind": "outcome", "schema": {"type": "object"}}
        todo = client.post("/v1/todos", json={"subject": "count", "checks": [schema]}).json()["todo"]
        refused = client.patch(f"/v1/todos/{todo['id']}", json={"status": "completed", "outcome": "{}"}).json()
        assert (refused["code"], "pip install 'headway[schema]'" in refused["detail"]) == ("check_failed", True)
