"""What `pip install headway` gives without any extra: it is small and works, and what it lacks says how to install it.

The environment has the wheel and what the wheel requires, and nothing else. The packages are linked from the environment that runs
the tests, so no network is needed.
"""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.wheel_installs import README_PROGRAM, ROOT, Install, create_core, list_files, list_required

MOST_PACKAGES = 30  # with Headway itself
MOST_BYTES = 60_000_000
POSTGRES_URL = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Install:
    return create_core(tmp_path_factory.mktemp("core") / "venv", Path(sys.executable), wheel)


def test_the_core_is_small() -> None:
    packages = list_required()
    assert len(packages) + 1 <= MOST_PACKAGES, sorted(packages)
    ours = sum(path.stat().st_size for path in (ROOT / "src" / "headway").rglob("*") if path.suffix != ".pyc" and path.is_file())
    theirs = sum(size for package in packages.values() for size in list_files(package).values())
    assert ours + theirs <= MOST_BYTES
    optional = {"apprise", "jsonschema", "mcp", "openai", "prompt-toolkit", "psycopg", "rich", "uvloop"}
    assert optional & packages.keys() == set()
    assert optional <= list_required("all").keys()


def test_the_core_runs_the_readme_and_everyday_commands(core: Install, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(README_PROGRAM, encoding="utf-8")
    code, out, err = core.run(tmp_path, "python", "program.py")
    assert (code, err) == (0, "")
    assert "360" in out

    code, out, err = core.run(tmp_path, "headway", "todo", "add", "look around")
    assert (code, re.sub(r"#[0-9]+", "#N", out), err) == (0, "#N [pending] look around\n", "")
    assert core.run(tmp_path, "headway", "doctor")[0] == 0
    code, out, err = core.run(tmp_path, "headway", "goal", "add", "Write a note", "--json")
    assert code == 0, err
    assert json.loads(out)["goal"]["status"] == "completed"


@pytest.mark.parametrize(
    ("extra", "command", "env"),
    [
        ("mcp", ("mcp",), {}),
        ("mcp", ("mcp", "install", "codex"), {}),
        ("postgres", ("todo", "list"), {"HEADWAY_DATABASE_URL": POSTGRES_URL}),
        ("postgres", ("tenant", "move", "local", "--to", "b"), {}),
        ("notify", ("serve", "--port", "0"), {"HEADWAY_NOTIFY": "json://127.0.0.1:1"}),
        ("restate", ("worker",), {"HEADWAY_DISPATCH": "restate://127.0.0.1:1"}),
    ],
)
def test_a_command_that_needs_an_extra_names_it(
    core: Install, tmp_path: Path, extra: str, command: tuple[str, ...], env: dict[str, str]
) -> None:
    code, out, err = core.run(tmp_path, "headway", *command, env=env)
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"headway: [A-Z].+ needs a library that is not installed: pip install 'headway\[{extra}\]'\.\n", err)


BUILD_MODELS = """
import sys
from headway.agents.models.providers import build_model
for name in sys.argv[1:]:
    try:
        build_model(name)
    except Exception as error:
        print(error)
"""
REMEDIES = {
    "openai:gpt-5-mini": "headway[openai]",
    "openrouter:some/model": "headway[openai]",
    "ollama:qwen": "headway[openai]",
    "anthropic:claude": "headway[anthropic]",
    "google:gemini": "headway[google]",
    "groq:llama": "pydantic-ai-slim[groq]",
}


def test_a_model_that_needs_an_extra_names_it(core: Install, tmp_path: Path) -> None:
    sentences = [
        f"The model {model!r} needs a library that is not installed: pip install '{remedy}'." for model, remedy in REMEDIES.items()
    ]
    assert core.run(tmp_path, "python", "-c", BUILD_MODELS, *REMEDIES) == (0, "\n".join((*sentences, "")), "")
    env = {"HEADWAY_MODEL": "openai:gpt-5-mini"}
    assert core.run(tmp_path, "headway", "chat", "hello", env=env) == (1, "", f"headway: {sentences[0]}\n")
    code, out, _ = core.run(tmp_path, "headway", "doctor", env=env)
    assert code == 1
    assert sentences[0] in out


LIBRARY = """
import asyncio, os
from headway import Headway, HeadwayError

async def main():
    try:
        async with Headway.open() as headway:
            await headway.ask("hello")
    except HeadwayError as error:
        print(type(error).__name__, error.code, error)

asyncio.run(main())
"""


def test_the_library_names_a_missing_extra(core: Install, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(LIBRARY, encoding="utf-8")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mcp.json").write_text('{"mcpServers": {"files": {"command": "true"}}}', encoding="utf-8")
    for env, extra in (
        ({"HEADWAY_DATABASE_URL": POSTGRES_URL}, "postgres"),
        ({"HEADWAY_NOTIFY": "json://127.0.0.1:1"}, "notify"),
        ({"HEADWAY_HOME": str(tmp_path / "home")}, "mcp"),
    ):
        code, out, err = core.run(tmp_path, "python", "program.py", env=env)
        assert (code, err) == (0, "")
        assert out.startswith("MissingExtra missing_extra ")
        assert f"pip install 'headway[{extra}]'" in out
    for module, extra in (("langchain", "langchain"), ("openai_agents", "openai-agents")):
        code, _, err = core.run(tmp_path, "python", "-c", f"import headway.frameworks.{module}")
        assert code == 1
        assert f"pip install 'headway[{extra}]'" in err.splitlines()[-1]


def test_the_server_of_the_core_serves_all_but_mcp_and_says_why(core: Install, tmp_path: Path) -> None:
    with core.serve(tmp_path, {"HEADWAY_MODEL": "openai:gpt-5-mini"}) as client:
        assert client.get("/").status_code == 200
        assert "headway_" in client.get("/metrics").text
        answer = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer.status_code == 501
        problem = answer.json()
        assert (problem["code"], problem["status"], problem["title"]) == ("missing_extra", 501, "Not installed")
        assert problem["detail"] == "The MCP server needs a library that is not installed: pip install 'headway[mcp]'."

        conversation = client.post("/v1/conversations", json={"title": "A chat"}).json()["conversation"]["id"]
        path, headers = f"/v1/conversations/{conversation}/messages", {"Accept": "text/event-stream"}
        stream = client.post(path, json={"content": "hello"}, headers=headers).text
        assert "event: turn_failed" in stream
        assert "pip install 'headway[openai]'" in stream

        schema = {"kind": "outcome", "schema": {"type": "object"}}
        todo = client.post("/v1/todos", json={"subject": "count", "checks": [schema]}).json()["todo"]
        refused = client.patch(f"/v1/todos/{todo['id']}", json={"status": "completed", "outcome": "{}"}).json()
        assert (refused["code"], "pip install 'headway[schema]'" in refused["detail"]) == ("check_failed", True)
