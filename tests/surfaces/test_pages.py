"""Types every command and runs every program of the pages in docs: each must succeed and print what its page shows.

Files that they show must be accepted. test_readme.py does the same for the README and the tour. In a page,
`<!-- not run: reason -->` before a block marks one that cannot run here, and `<!-- before: command -->` names a command that the
reader has typed before.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from tests.model_server import ModelServer, Reply, calls, text
from tests.npm_packages import install_packages
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.document_reader import Reader, TypedCommand, open_reader, parse_session
from tests.surfaces.server_harness import Client, Service, admin_headers
from tests.surfaces.shell import Shell
from tests.surfaces.waiting_turns import SUM, add_rule, begin_waiting_turn
from tests.warm_start import build_command

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?(?:^<!-- before: (?P<before>[^\n]+) -->\n)?"
    r"^(?P<indent> *)```(?P<kind>console|python|sh|bash|js|tsx?)\n(?P<body>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
SHELLS = ("console", "sh", "bash")
# Tools and tests, which test_examples.py puts into files, and the program that it runs with a model.
IN_FILES = re.compile(r"^# \S+\.py$|^def test_|tools=\[weather\]", re.MULTILINE)


class Block(NamedTuple):
    page: str
    kind: str
    body: str
    reason: str  # why it is not run
    before: str


def list_blocks() -> list[Block]:
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name != "tour.md" and path.parent.name != "reference"]
    return [
        Block(
            str(page.relative_to(ROOT)),
            found["kind"],
            re.sub(f"^{found['indent']}", "", found["body"], flags=re.MULTILINE),
            found["reason"] or "",
            found["before"] or "",
        )
        for page in pages
        for found in BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


BLOCKS = list_blocks()


def list_typed(page: str) -> list[TypedCommand]:
    typed: list[TypedCommand] = []
    for block in BLOCKS:
        if block.page == page and block.kind in SHELLS and not block.reason:
            typed += [TypedCommand(block.before, [])] if block.before else []
            typed += parse_session(f"```console\n{block.body}```\n")
    return typed


def reply(request: Any) -> Reply:
    """Make the call that the message asks for, once, and answer."""
    if request.assistant_turns:
        return text("Done.")
    wanted = {
        "write": ("write_file", {"path": "notes.txt", "content": "bread"}),
        "add up": ("calculate", SUM),
        "ask": ("ask_person", {"question": "Which colour?"}),
    }
    named = [call for word, call in wanted.items() if f"Please {word}." in request.texts]
    return calls(*named) if named else text("42")


def fill_variables(client: Client, service: Service, model: ModelServer) -> dict[str, str]:
    """Create the rows to which the variables of the pages lead, on a server that other tests share."""
    model.script = reply
    add_rule(service, "calculate", client.desk.tenant.name)
    turn = say(client, client.conversation(), "Please write.")
    wait_for_turn(client, turn)
    approval, question = (
        begin_waiting_turn(client, client.conversation(), words)["waiting_for"]["id"] for words in ("Please add up.", "Please ask.")
    )
    client.desk.write(goals.propose, NewGoal("A tidy shed."), "A hunch.")
    admin = admin_headers(client)
    token = client.ok("POST", "/v1/tokens", 201, json={"label": "page"}, headers=admin)["token"]
    rows = {
        "CONVERSATION": client.conversation(),
        "TURN": turn,
        "APPROVAL": approval,
        "QUESTION": question,
        "DECISION": client.ok("GET", "/v1/inbox", params={"kind": "decision"})["requests"][0]["id"],
        "FILE": client.ok("GET", "/v1/files")["files"][0]["id"],
        "NOTE": client.ok("POST", "/v1/memory", 201, json={"text": "The door code is 4711."})["entry"]["id"],
        "ID": token["id"],
    }
    secrets = {"TOKEN": client.secret, "ADMIN": admin["Authorization"].removeprefix("Bearer ")}
    return {name: str(value) for name, value in rows.items()} | secrets | {"URL": str(client.base_url)}


def follow(reader: Reader, typed: TypedCommand) -> None:
    reader.follow(typed._replace(command=re.sub(r"^curl ", "curl --fail-with-body ", typed.command)))


def test_every_command_of_the_pages_works_and_prints_what_it_shows(
    sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer, tmp_path: Path
) -> None:
    variables = fill_variables(sqlite_chatter, sqlite_chat_service, model)
    pages = sorted({block.page for block in BLOCKS if list_typed(block.page)})
    failures = []
    for page in pages:
        folder = tmp_path / Path(page).stem / "folder"
        folder.mkdir(parents=True)
        with open_reader(folder, "") as reader:
            reader.env |= variables
            for typed in list_typed(page):
                try:
                    follow(reader, typed)
                except AssertionError as failure:
                    failures.append(f"{page}: {failure}")

    assert len(pages) > 8
    assert not failures, "\n\n".join(failures)


def test_every_program_of_the_pages_runs(sqlite_client: Client, tmp_path: Path) -> None:
    programs = [block for block in BLOCKS if block.kind == "python" and not block.reason and not IN_FILES.search(block.body)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "OPENAI_"))}
    env = {**inherited, "HEADWAY_HOME": str(tmp_path / "home"), "HEADWAY_TOKEN": sqlite_client.secret}
    failures = []
    for place, block in enumerate(programs):
        script = tmp_path / f"program_{place}.py"
        script.write_text(block.body.replace("http://127.0.0.1:8484", str(sqlite_client.base_url).rstrip("/")), encoding="utf-8")
        ran = subprocess.run(build_command(str(script)), cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
        if ran.returncode != 0:
            failures.append(f"{block.page}: {ran.stderr}")

    assert len(programs) > 4
    assert not failures, "\n\n".join(failures)


# What a browser sends to the route of a page that keeps the token.
POST_A_MESSAGE = """
const message = { id: "1", role: "user", parts: [{ type: "text", text: "Plan a small party." }] };
const body = JSON.stringify({ id: "my-chat", messages: [message] });
console.log(await (await POST(new Request("http://page/api/chat", { method: "POST", body }))).text());
"""


def test_every_javascript_program_of_the_pages_runs(sqlite_chatter: Client, tmp_path: Path) -> None:
    programs = [block for block in BLOCKS if block.kind in ("js", "ts", "tsx") and not block.reason]
    (tmp_path / "node_modules").symlink_to(install_packages("clients") / "node_modules")
    env = {**os.environ, "HEADWAY_TOKEN": sqlite_chatter.secret}
    for place, block in enumerate(programs):
        script = tmp_path / f"program_{place}.mjs"
        body = block.body.replace("http://127.0.0.1:8484", str(sqlite_chatter.base_url).rstrip("/"))
        script.write_text(body + POST_A_MESSAGE * ("function POST" in body), encoding="utf-8")
        ran = subprocess.run(["node", script], env=env, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, f"{block.page}: {ran.stderr}"
        assert "hello" in ran.stdout, block.page  # the answer of the tests' model

    assert len(programs) == 3


def list_examples(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_every_file_that_the_pages_show_is_accepted(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    models, prices, role = list_examples("agents.md", "toml")
    [policy], [suite] = list_examples("permission.md", "toml"), list_examples("evals.md", "toml")
    files = {"models.toml": models, "prices.toml": prices, "agents/poet.toml": role, "policy.toml": policy}
    for name, content in files.items():
        path = headway.folder / ".headway" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    Path("support.toml").write_text(suite, encoding="utf-8")
    headway.trust()
    for key in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(key, "none")

    checks = {check["name"]: check["detail"] for check in json.loads(headway("doctor", "--json").out)["checks"]}

    assert checks["policy"] == "line 11: ask http_get, role = researcher"  # the last of its rules
    assert checks["model"].startswith("anthropic:claude-sonnet-4-5")
    assert "openai-chat:my-model" not in checks.get("price", "")
    assert "refund" in headway.ok("eval", "run", "support.toml", "--list")
    for page in sorted((ROOT / "docs").glob("*.md")):
        for block in list_examples(page.name, "json"):
            json.loads(block.replace("…", ""))


def test_what_a_page_does_not_run_is_tested_where_it_says() -> None:
    named = [(block.page, place) for block in BLOCKS for place in re.findall(r"tests/[\w/.]+", block.reason)]
    assert len(named) > 5
    assert [(page, place) for page, place in named if not (ROOT / place).exists()] == []


def test_a_mark_stands_before_a_block() -> None:
    pages = {block.page for block in BLOCKS}
    marks = sum((ROOT / page).read_text(encoding="utf-8").count("<!-- not run: ") for page in pages)
    assert marks == sum(bool(block.reason) for block in BLOCKS)
