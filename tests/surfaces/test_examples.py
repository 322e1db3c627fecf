"""The examples, run as a reader would run them, without network access."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.storage.direct import DirectDatabase
from tests.model_server import MODEL, ModelServer, calls, environment, text
from tests.surfaces.document_reader import open_reader, parse_session
from tests.surfaces.server_harness import Client, client_options, wait_until
from tests.warm_start import build_command

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CONFIGS = sorted((EXAMPLES / "mcp").glob("*.json"))
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}},
}


def make_environment(folder: Path, **settings: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "OPENAI_"))}
    return inherited | {"HEADWAY_HOME": str(folder / "home")} | settings


def run(script: Path, folder: Path, *arguments: str, **settings: str) -> str:
    """Run a script that must succeed, in a process that has already imported Headway, and return its output."""
    return run_command([*build_command(str(script)), *arguments], folder, **settings)


def run_command(command: list[str], folder: Path, **settings: str) -> str:
    ran = subprocess.run(command, cwd=folder, env=make_environment(folder, **settings), capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def read_servers(config: Path) -> dict[str, Any]:
    document = json.loads(config.read_text(encoding="utf-8"))
    servers: dict[str, Any] = document.get("mcpServers") or document["servers"]
    return servers


IGNORED = ("README.md", "__pycache__")


def test_every_example_is_in_the_list() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.iterdir() if f"({path.name})" not in page and path.name not in IGNORED] == []


# Scripts


def complete_plan(request: Any) -> Any:
    """Script a model that plans, calls tools, completes the plan by its real ids and answers."""
    plan = calls(("create_todo", {"items": [{"title": "look at the sky"}]}), ("weather", {"city": "Oslo"}))
    if not request.tool_results:
        return plan
    item = json.loads(request.tool_results[0].content)["created"][0]["id"]
    steps = [
        calls(("write_file", {"path": "oslo.txt", "content": request.tool_results[1].content})),
        calls(("complete_todo", {"todoId": item, "outcome": "blue"})),
        text("It is sunny in Oslo."),
    ]
    return steps[len(request.tool_results) - 2]


def test_a_script_brings_its_own_tools(tmp_path: Path) -> None:
    with ModelServer(complete_plan) as model:
        printed = run(EXAMPLES / "own_tools.py", tmp_path, **environment(model))
        assert model.violations == []
    assert printed == "It is sunny in Oslo.\n- look at the sky: completed, blue\n"
    assert [path.read_text() for path in tmp_path.rglob("oslo.txt")] != []


def test_a_script_runs_without_a_key(tmp_path: Path) -> None:
    assert "84" in run(EXAMPLES / "own_tools.py", tmp_path, "Calculate 12*7, then write the result to notes.txt")


def test_the_program_in_the_readme_runs_without_a_key(tmp_path: Path) -> None:
    [program] = blocks("README.md")
    assert len([line for line in program.splitlines() if line]) == 10
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    printed = run(tmp_path / "program.py", tmp_path)
    assert "8 * 45 = 360" in printed
    assert " tokens, $0.0000)" in printed
    assert printed.startswith("Todo 1 is not done. ")
    assert printed.endswith("\nproven\n")


def test_a_script_keeps_its_work_in_the_ledger(tmp_path: Path) -> None:
    printed = run(EXAMPLES / "ledger_script.py", tmp_path).splitlines()
    assert printed[:2] == ["ready: write the draft", "ready: review the draft"]
    assert printed[2].startswith("refused: ")
    assert printed[3:] == ["done: proven"]


def test_a_script_shows_an_answer_while_it_is_written(tmp_path: Path) -> None:
    printed = run(EXAMPLES / "stream_answer.py", tmp_path)
    assert "[calculate]" in printed
    assert "12 * 7 = 84" in printed
    assert "drained: 2 todos, " in printed.splitlines()[-1]


def test_a_worker_takes_todos_from_a_server(tmp_path: Path, sqlite_client: Client) -> None:
    todos = [sqlite_client.add(subject) for subject in ("sow", "reap")]
    url, worker = str(sqlite_client.base_url), EXAMPLES / "remote_worker.py"
    printed = run(worker, tmp_path, HEADWAY_URL=url, HEADWAY_TOKEN=sqlite_client.secret)
    assert printed == "".join(f"ada works on #{todo['id']}: {todo['subject']}\n" for todo in todos)
    assert [sqlite_client.ok("GET", f"/v1/todos/{todo['id']}")["todo"]["outcome"] for todo in todos] == ["done by ada"] * 2


def test_the_first_program_in_the_documents_runs(tmp_path: Path) -> None:
    program = next(block for block in blocks("docs/library.md") if "Headway.open" in block)
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    with ModelServer(complete_plan) as model:
        printed = run(tmp_path / "program.py", tmp_path, **environment(model))
        assert model.violations == []
    assert "It is sunny in Oslo." in printed
    assert "look at the sky" in printed


def test_the_tests_in_the_documents_pass(tmp_path: Path) -> None:
    first, *_, last = blocks("docs/library.md")
    (tmp_path / "my_tools.py").write_text(first.partition("async def main")[0], encoding="utf-8")
    (tmp_path / "test_weather.py").write_text(last, encoding="utf-8")
    for program in blocks("docs/tool-authors.md"):
        (tmp_path / get_file_name(program)).write_text(program, encoding="utf-8")
    env = make_environment(tmp_path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")  # plugins that the tests do not use take seconds to load
    command = [*build_command("-m", "pytest"), "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert "3 passed" in ran.stdout, ran.stdout


def test_an_agent_uses_the_tools_and_the_role_in_the_documents(tmp_path: Path) -> None:
    tools, roles = tmp_path / "home" / "tools", tmp_path / "home" / "agents"
    tools.mkdir(parents=True)
    roles.mkdir()
    (roles / "storekeeper.toml").write_text(blocks("docs/tool-authors.md", "toml")[0], encoding="utf-8")
    for program in blocks("docs/tool-authors.md"):
        if "/tools/" in program.splitlines()[0]:
            (tools / get_file_name(program)).write_text(program, encoding="utf-8")
    letter = ("post_letter", {"to": "Ada", "text": "We have 40."})

    def script(request: Any) -> Any:
        steps = [
            calls(("stock_level", {"article": "bolts"}), ("stock_level", {"article": "screws"})),
            calls(letter, letter),
            calls(("delegate", {"agent": "storekeeper", "task": "Count the nuts."})),
            text("Told."),
        ]
        if "Count the nuts." in request.last:
            assert "stock_level" in request.tools
            assert "post_letter" not in request.tools
            return text("Twelve.")
        return steps[(0, 0, 1, 1, 2, 3)[len(request.tool_results)]]

    with ModelServer(script) as model:
        command = build_command("-m", "headway", "chat", "Tell Ada how many bolts there are")
        assert run_command(command, tmp_path, **environment(model)) == "Told.\n"
        assert model.violations == []
        results = [result.content for result in model.requests[-1].tool_results]
    assert json.loads(results[0]) == {"article": "bolts", "amount": 40, "unit": "pieces"}
    assert json.loads(results[1]) == {"error": "There is no screws. There are: bolts, nuts."}
    posted = list((tmp_path / "home" / "workspace").rglob("outbox/*"))
    assert {file.name for file in posted} == {json.loads(result)["posted"] for result in results[2:4]}
    assert [file.read_text(encoding="utf-8") for file in posted] == ["To Ada\n\nWe have 40.\n"] * 2  # the tool was called twice


def blocks(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def get_file_name(program: str) -> str:
    """Return the file name in the first line of a program."""
    return program.splitlines()[0].rpartition("/")[2].removeprefix("# ")


def answer_too_early(request: Any) -> Any:
    """Script a model that claims to be done before it is."""
    if not request.tool_results:
        return calls(("create_todo", {"items": [{"title": "buy bread"}]}))
    if len(request.tool_results) == 1 and "still open: buy bread" not in request.last:
        return text("All done!")  # the plan is still open
    item = json.loads(request.tool_results[0].content)["created"][0]["id"]
    if len(request.tool_results) == 1:
        return calls(("complete_todo", {"todoId": item, "outcome": "bought"}))
    return text("The bread is here.")


def test_a_plain_loop_may_not_stop_while_its_plan_is_open(sqlite_client: Client, tmp_path: Path) -> None:
    with ModelServer(answer_too_early) as model:
        printed = run(
            EXAMPLES / "drain_loop_openai.py",
            tmp_path,
            "Buy bread",
            **environment(model),
            HEADWAY_URL=str(sqlite_client.base_url),
            HEADWAY_TOKEN=sqlite_client.secret,
        )
        assert model.violations == []
        assert len(model.requests) == 4
    assert printed == "The bread is here.\n"
    assert [todo["outcome"] for todo in sqlite_client.ok("GET", "/v1/todos?status=completed")["todos"]] == ["bought"]


@pytest.mark.parametrize(
    "example",
    [
        "pydantic_ai_agent.py",
        *(pytest.param(name, marks=pytest.mark.compatibility) for name in ("langchain_agent.py", "openai_agents_agent.py")),
    ],
)
def test_an_agent_of_another_framework_is_sent_back_while_its_plan_is_open(tmp_path: Path, example: str) -> None:
    quiet = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false"}  # sends no telemetry
    with ModelServer(answer_too_early) as model:
        printed = run(EXAMPLES / example, tmp_path, **environment(model), **quiet, OPENAI_MODEL=MODEL)
        assert model.violations == []
        assert len(model.requests) == 4
    assert printed == "The bread is here.\n"
    with DirectDatabase(f"sqlite:///{tmp_path / 'home' / 'headway.db'}") as database:
        (todo,) = database.read(lambda tx: tx.all("SELECT subject, status, outcome FROM todos"))
    assert tuple(todo) == ("buy bread", "completed", "bought")


@pytest.mark.compatibility
def test_the_documents_import_what_frameworks_export(tmp_path: Path) -> None:
    lines = [line for block in blocks("docs/library.md") for line in block.splitlines() if re.match(r"(from|import) \w", line)]
    assert len(lines) > 10
    imports = tmp_path / "imports.py"
    imports.write_text("\n".join(line for line in lines if "my_tools" not in line), encoding="utf-8")
    run(imports, tmp_path)


def test_a_missing_key_names_the_variable_to_set(tmp_path: Path) -> None:
    command = build_command(str(EXAMPLES / "drain_loop_openai.py"))
    ran = subprocess.run(command, cwd=tmp_path, env=make_environment(tmp_path), capture_output=True, text=True, timeout=120)
    assert ran.returncode == 1
    assert ran.stderr.startswith("Set HEADWAY_TOKEN and OPENAI_API_KEY: ")


@contextmanager
def serve_application(folder: Path) -> Iterator[str]:
    """Serve the FastAPI example, and yield its URL."""
    command = [*build_command("-m", "uvicorn"), "--app-dir", str(EXAMPLES), "--port", "0", "fastapi_app:app"]
    env = make_environment(folder, HEADWAY_MODEL="rehearsal")
    with subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            running = next(line for line in process.stderr if "running on" in line)
            match = re.search(r"http://[0-9.:]+", running)
            assert match is not None
            yield match[0]
            process.terminate()
            process.communicate(timeout=60)
        finally:
            process.kill()


def test_an_application_answers_its_users(tmp_path: Path) -> None:
    with serve_application(tmp_path) as url, httpx.Client(**client_options(url)) as client:
        answer = client.post("/users/ada/questions", json={"content": "Calculate 12*7, then write the result to notes.txt"})
        assert answer.status_code == 200
        assert "84" in answer.json()["answer"]
        assert [todo["status"] for todo in answer.json()["plan"]] == ["completed", "completed"]
        blank = client.post("/users/ada/questions", json={"content": " "})
        assert (blank.status_code, blank.json()["detail"]) == (422, "content must not be blank. Say what the agent should do.")
    with DirectDatabase(f"sqlite:///{tmp_path / 'home' / 'headway.db'}") as database:
        keys = database.read(lambda tx: [str(row[0]) for row in tx.all("SELECT key FROM conversations")])
    assert keys == ["user-ada"]


def test_two_workers_share_a_postgres(tmp_path: Path, new_postgres_url: str) -> None:
    page = (EXAMPLES / "two_workers_postgres.md").read_text(encoding="utf-8")
    (tmp_path / "folder").mkdir()
    with open_reader(tmp_path / "folder", new_postgres_url) as reader:
        for typed in parse_session(page):
            reader.follow(typed)
        assert [command.split()[:2] for command, _, _ in reader.windows] == [["headway", "serve"], *[["headway", "worker"]] * 2]
        wait_until(lambda: any("3 running" in line for line in reader.type("headway doctor")), "all three processes take jobs")


# MCP clients


def test_there_is_a_config_for_each_client() -> None:
    assert [config.stem for config in CONFIGS] == ["claude_code", "claude_desktop", "cursor", "vscode"]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_the_client_configurations_start_our_server(config: Path, tmp_path: Path) -> None:
    entry = read_servers(config)["headway"]
    assert entry["command"] == "headway"
    arguments = [argument.replace("/path/to/your", str(tmp_path)) for argument in entry["args"]]
    ran = subprocess.run(
        build_command("-m", "headway", *arguments),
        cwd=tmp_path,
        env=make_environment(tmp_path),
        input=json.dumps(INITIALIZE) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "headway"
    assert (tmp_path / ".headway").is_dir()


@pytest.mark.parametrize("config", [path for path in CONFIGS if "headway-http" in read_servers(path)], ids=lambda path: path.stem)
def test_where_a_client_calls_is_our_server(config: Path, sqlite_client: Client) -> None:
    entry = read_servers(config)["headway-http"]
    address = httpx.URL(entry["url"])
    assert (address.host, address.port) == ("127.0.0.1", 8484)
    headers = {name: re.sub(r"\$\{[^}]+\}", sqlite_client.secret, value) for name, value in entry["headers"].items()}
    with httpx.Client(**client_options(str(sqlite_client.base_url))) as client:
        answer = client.post(address.path, json=INITIALIZE, headers=headers | {"Accept": "application/json, text/event-stream"})
        assert answer.status_code == 200
        assert '"name":"headway"' in answer.text.replace(" ", "")
        bare = client.post(address.path, json=INITIALIZE, headers={"Accept": "application/json, text/event-stream"})
        assert bare.status_code == 401
