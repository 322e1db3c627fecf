"""The HTTP server under load, driven by wrk from its own process."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench import bare
from bench.bulk import new_ledger
from bench.harness import Measurements, Unavailable, Workshop, at_least, benchmark, in_turns, rate
from bench.store import BARE_CREATE, LISTS, PAGE, STATUSES, bare_creates
from headway.actions.access import tokens
from headway.actions.todos import conversations, todo_lists, todos
from headway.ledger.scope import Selection
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase

CONNECTIONS = 32
SECONDS = 1
ROUNDS = 9
BATCH = 20
# Many tokens, so that no token reaches its rate limit.
TOKENS = 40

SCRIPT = """
local tokens = {%s}
local at = 0
wrk.method = "%s"
wrk.body = %s
wrk.headers["Content-Type"] = "application/json"
request = function()
  at = at %% #tokens + 1
  wrk.headers["Authorization"] = "Bearer " .. tokens[at]
  return wrk.format()
end
"""


class Served(NamedTuple):
    url: str
    path: str
    tenant_id: int
    conversation_id: int
    tokens: list[str]


def served(shop: Workshop) -> Served:
    """Serve a Headway with one conversation of 20 todos."""
    return serve_conversation(shop, shop.folder / "served")


def served_for_lists(shop: Workshop) -> Served:
    """Serve another one that nobody writes to: the lists of both sides have the same 20 rows to find, and no others."""
    return serve_conversation(shop, shop.folder / "lists")


def serve_conversation(shop: Workshop, home: Path) -> Served:
    home.mkdir()
    ledger = new_ledger(home / "headway.db")
    with DirectDatabase(ledger.url) as database:
        secrets = [database.write(partial(tokens.create_token, tenant_id=ledger.tenant_id)).secret for _ in range(TOKENS)]
        conversation = database.write(partial(conversations.add_conversation, tenant_id=ledger.tenant_id)).id
        for status in STATUSES:
            draft = Draft(bare.SUBJECT, conversation_id=conversation, status=status)
            database.write(partial(todos.add_todo, tenant_id=ledger.tenant_id, draft=draft))
    url = serve(shop, home)
    return Served(url, ledger.path, ledger.tenant_id, conversation, secrets)


def serve(shop: Workshop, home: Path) -> str:
    return start_server(shop, home)[0]


def start_server(shop: Workshop, home: Path, **variables: str) -> "tuple[str, subprocess.Popen[str]]":
    """Run `headway serve` with these environment variables, and return its URL and its process."""
    command = [sys.executable, "-m", "headway", "serve", "--port", "0", "--json", "--home", str(home)]
    log = shop.folder / f"{home.name}.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env={**os.environ, **variables})
    shop.cleanup.callback(stop, process)
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise RuntimeError(f"the server did not start: {log.read_text()[-500:]}")
    return json.loads(line)["url"], process


def bare_app(shop: Workshop, name: str, database: str = "") -> str:
    """Run the reference app of that name with uvicorn's defaults, and return its URL. It has a database of its own by default."""
    environment = {**os.environ, "BARE_DATABASE": database or str(shop.folder / "bare-http.db")}
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        f"bench.bare_apps:{name}",
        "--port",
        "0",
        "--no-access-log",
        "--timeout-keep-alive",
        "600",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    shop.cleanup.callback(stop, process)
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.search(r"running on (http://\S+)", line):
            return match[1]
    raise RuntimeError(f"the reference app {name} did not start")


def stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:  # a bare app does not end its streams
        process.kill()
        process.wait()


def wrk(shop: Workshop, url: str, method: str, body: object, tokens: list[str]) -> float:
    """Return responses per second, and raise unless there are some and all of them are successful."""
    binary = shutil.which("wrk")
    if binary is None:
        raise Unavailable("wrk is needed: apt-get install wrk")
    script = shop.folder / "wrk.lua"
    quoted = ", ".join(f'"{token}"' for token in tokens)
    script.write_text(SCRIPT % (quoted, method, f"[[{json.dumps(body)}]]" if body is not None else "nil"))
    command = [binary, "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}", "-s", str(script), url]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in output:
        raise RuntimeError(f"not all responses were successful:\n{output}")
    match = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if match is None or not float(match[1]):
        raise RuntimeError(f"{url} did not answer within {SECONDS} s:\n{output}")
    return float(match[1])


def create_rate(shop: Workshop) -> float:
    at = shop.once(served)
    return wrk(shop, f"{at.url}/v1/todos", "POST", {"subject": bare.SUBJECT}, at.tokens)


@benchmark(
    "http.create.c32", "32 connections: token, todo, event, counter, durable", "FastAPI with one durable insert", at_least(0.65)
)
def create(shop: Workshop) -> Measurements:
    reference = f"{bare_app(shop, 'create')}/todos"
    bare_rate = partial(wrk, shop, reference, "POST", {"subject": bare.SUBJECT}, ["none"])
    return in_turns(partial(create_rate, shop), bare_rate, ROUNDS)


@benchmark("http.create.c32.store", "32 connections, as above", BARE_CREATE, at_least(0.30))
def create_by_store(shop: Workshop) -> Measurements:
    return in_turns(partial(create_rate, shop), bare_creates(shop, "http"), ROUNDS)


@benchmark("http.batch20", "todos a second, in batches of 20", BARE_CREATE, at_least(0.70))
def batch(shop: Workshop) -> Measurements:
    at = shop.once(served)
    body = {"todos": [{"subject": bare.SUBJECT}] * BATCH}
    return in_turns(lambda: BATCH * wrk(shop, f"{at.url}/v1/todos", "POST", body, at.tokens), bare_creates(shop, "batch"), ROUNDS)


@benchmark(
    "http.list20", "32 connections: token, a conversation's 20 todos", "FastAPI with the token's row and one query", at_least(1.0)
)
def list20(shop: Workshop) -> Measurements:
    at = shop.once(served_for_lists)
    reference = f"{bare_app(shop, 'page', at.path)}/todos?conversation_id={at.conversation_id}&limit={PAGE}"
    return in_turns(partial(list_rate, shop), partial(wrk, shop, reference, "GET", None, at.tokens), ROUNDS)


@benchmark("http.list20.store", "32 connections, as above", "a bare loop of the same SQL", None)
def list20_by_store(shop: Workshop) -> Measurements:
    at = shop.once(served_for_lists)
    with DirectDatabase(f"sqlite:///{at.path}") as database:
        view = partial(todo_lists.list_todos, tenant_id=at.tenant_id, selection=Selection(at.conversation_id), limit=PAGE)
        bare_list = partial(bare.read, bare.connect(at.path), bare.statements_of(database, view), LISTS)
    return in_turns(partial(list_rate, shop), partial(rate, LISTS, bare_list), ROUNDS)


def list_rate(shop: Workshop) -> float:
    at = shop.once(served_for_lists)
    return wrk(shop, f"{at.url}/v1/todos?conversation_id={at.conversation_id}&limit={PAGE}", "GET", None, at.tokens)
