"""Clients of a tenant that moves between two cells with a server each: streams, front ends, goals, and nginx in front."""

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import psycopg
import pytest

import headway
from headway import sync
from tests.cells.proxy import run_nginx
from tests.model_server import ModelServer, text
from tests.postgres_roles import build_owner_url, ensure_ordinary_role, replace_database
from tests.surfaces.event_stream import Stream, open_stream
from tests.surfaces.model_fixtures import model_settings
from tests.surfaces.server_harness import Service, check_problem, client_options, run_server, wait_until
from tests.surfaces.shell import Shell
from tests.warm_start import Program

CELLS = ("eu1", "eu2")


class ServedCells(NamedTuple):
    """Two cells, and one address for both. The first one is the directory."""

    services: dict[str, Service]
    shell: Shell
    proxy: str

    def run(self, *arguments: str) -> str:
        return self.shell.ok(*arguments, *self.flags)

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--database-url", self.services["eu1"].database_url, "--home", str(self.shell.folder))

    def open(self, secret: str, cell: str = "") -> httpx.Client:
        """Return a client of one cell, or of the proxy."""
        url = self.services[cell].url if cell else self.proxy
        return httpx.Client(headers={"Authorization": f"Bearer {secret}"}, **client_options(url))


@pytest.fixture(scope="module")
def served(
    postgres_server: str, empty_cell: str, shared_model: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServedCells]:
    folder: Path = tmp_path_factory.mktemp("cells")
    with ExitStack() as stack:
        admin = stack.enter_context(psycopg.connect(postgres_server, autocommit=True))
        owner = ensure_ordinary_role(admin)
        shell, services = Shell(folder), {}
        for name in CELLS:
            database = f"headway_{name}_{uuid4().hex}"
            admin.execute(f'CREATE DATABASE "{database}" TEMPLATE "{empty_cell}" OWNER "{owner}"'.encode())
            stack.callback(admin.execute, f'DROP DATABASE "{database}" WITH (FORCE)'.encode())
            url = build_owner_url(replace_database(postgres_server, database), owner)
            settings = {**model_settings(shared_model), "HEADWAY_HOME": str(folder), "HEADWAY_ANONYMOUS_RATE": "10000"}
            services[name] = stack.enter_context(run_server(url, folder, environment=settings))
            directory = ("--database-url", services["eu1"].database_url, "--home", str(folder))
            shell.ok("cell", "add", name, "--url", url, "--public-url", services[name].url, *directory)
        (folder / "nginx").mkdir()
        addresses = {name: service.url.removeprefix("http://") for name, service in services.items()}
        yield ServedCells(services, shell, stack.enter_context(run_nginx(folder / "nginx", addresses)))


@pytest.fixture
def tenant(served: ServedCells) -> str:
    """The name of a new tenant in the cell eu1."""
    name = f"tenant-{uuid4().hex}"
    served.run("tenant", "add", name, "--cell", "eu1")
    return name


def create_token(served: ServedCells, tenant: str) -> str:
    return served.run("token", "new", "--tenant", tenant).strip()


def add(client: httpx.Client, subject: str, **fields: str) -> int:
    answer = client.post("/v1/todos", json={"subject": subject, **fields})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["todo"]["id"])


def read_to_end(stream: Stream) -> dict[str, Any]:
    """Read a stream that ends because the tenant moves, with nothing new. Returns where the tenant is."""
    (moved,) = stream.events()
    assert (moved.event, moved.id) == ("tenant_moved", 0)
    place: dict[str, Any] = moved.data
    return place


def count_open_streams(served: ServedCells) -> float:
    return served.services["eu1"].read_metrics()["headway_open_streams"]


def take_created(stream: Stream) -> tuple[str, int]:
    """Return the subject of the todo that was created next, and the number of the event."""
    (event,) = stream.take(1)
    assert (event.event, event.data["change"]) == ("todo_changed", "created")
    return event.data["todo"]["subject"], event.id


def split_frames(answer: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(frame.removeprefix("data: ")) for frame in answer.text.split("\n\n") if frame.startswith("data: ")]


def test_an_event_stream_continues_in_the_other_cell(served: ServedCells, tenant: str) -> None:
    secret = create_token(served, tenant)
    with served.open(secret, "eu1") as here, served.open(secret, "eu2") as there:
        assert check_problem(there.get("/v1/todos"), 421, "wrong_cell")
        add(here, "one")
        with open_stream(here, params={"after": 0}) as stream:
            subject, last = take_created(stream)
            served.run("tenant", "move", tenant, "--to", "eu2")
            place = read_to_end(stream)
        assert subject == "one"
        assert place == {"cell": "eu2", "location": served.services["eu2"].url}
        refusal = here.get("/v1/events", headers={"Last-Event-ID": str(last)})
        check_problem(refusal, 421, "wrong_cell")
        assert (refusal.headers["headway-cell"], refusal.json()["location"]) == ("eu2", place["location"])

        add(there, "two")
        with open_stream(there, headers={"Last-Event-ID": str(last)}) as stream:
            assert take_created(stream) == ("two", last + 1)
        with open_stream(there, params={"after": 0}) as stream:
            assert stream.changes(2) == [("created", "one"), ("created", "two")]

        with open_stream(there) as stream:
            served.run("tenant", "move", tenant, "--to", "eu1")
            assert read_to_end(stream)["cell"] == "eu1"
        with open_stream(here, params={"after": 0}) as stream:
            assert stream.changes(2) == [("created", "one"), ("created", "two")]


def test_a_front_end_gets_its_turn_from_the_other_cell(served: ServedCells, tenant: str, model: ModelServer) -> None:
    secret = create_token(served, tenant)
    run = {"threadId": "mine", "runId": "1", "messages": [{"id": "1", "role": "user", "content": "hello"}]}
    headers = {"Idempotency-Key": "once"}
    model.script = lambda _: text("Good morning.")
    model.hold()
    wait_until(lambda: count_open_streams(served) == 0, "streams of earlier tests end")
    with served.open(secret, "eu1") as here, served.open(secret, "eu2") as there, ThreadPoolExecutor(2) as threads:
        streaming = threads.submit(here.post, "/v1/ag-ui", json=run, headers=headers)
        model.wait_for_requests(1)
        (conversation,) = here.get("/v1/conversations").json()["conversations"]
        path = f"/v1/conversations/{conversation['id']}/messages"
        waiting = threads.submit(here.post, path, json={"content": "and now?"}, params={"wait": 60})
        wait_until(lambda: count_open_streams(served) == 2, "the second message waits for the end of the first turn")
        served.run("tenant", "move", tenant, "--to", "eu2")
        frames = [
            json.loads(line.removeprefix("data: ")) for line in streaming.result(60).text.split("\n\n") if line[:5] == "data:"
        ]
        assert (frames[-1]["type"], frames[-1]["code"]) == ("RUN_ERROR", "wrong_cell")
        check_problem(waiting.result(60), 421, "wrong_cell")
        check_problem(here.post("/v1/ag-ui", json=run, headers=headers), 421, "wrong_cell")

        model.release()
        answer = there.post("/v1/ag-ui", json=run, headers=headers)
        frames = split_frames(answer)
        assert (frames[0]["type"], frames[-1]["type"]) == ("RUN_STARTED", "RUN_FINISHED")
        assert "".join(frame["delta"] for frame in frames if frame["type"] == "TEXT_MESSAGE_CONTENT") == "Good morning."
        assert len(there.get(path).json()["messages"]) == 2


def test_a_goal_is_watched_in_the_other_cell(served: ServedCells, tenant: str, model: ModelServer) -> None:
    model.script = lambda _: text("I cannot plan this.")
    model.hold()
    added = json.loads(served.run("goal", "add", "Buy milk.", "--tenant", tenant, "--no-wait", "--json"))["goal"]
    with Program(("goal", "watch", str(added["id"]), "--tenant", tenant, *served.flags), served.shell.folder) as program:
        assert program.stdout is not None
        first = program.stdout.readline()
        model.wait_for_requests(1)
        served.run("tenant", "move", tenant, "--to", "eu2")
        assert program.stderr is not None
        sentence = "has moved to the cell eu2. The goal is followed there."
        assert any(sentence in line for line in iter(program.stderr.readline, ""))
        model.release()
        out, _ = program.communicate(60)
    journal = re.findall(r"^\d\d:.*$", first + out, re.MULTILINE)
    (goal,) = json.loads(served.run("goal", "list", "--tenant", tenant, "--json"))["goals"]
    assert goal["status"] != "active"
    assert len(journal) == len(set(journal)) > 1, out


def test_the_library_follows_a_tenant_to_its_cell(served: ServedCells, tenant: str) -> None:
    """The first call, later ones and streams, with `await` and without. The server of another cell is the one it knows."""
    secret = create_token(served, tenant)
    addresses = [served.services[cell].url for cell in CELLS]

    async def scenario() -> None:
        async with headway.connect(addresses[1], secret, retries=0) as client:
            assert (await client.todos.add("one")).subject == "one"
            events = client.events.follow(kinds="todo_changed", after=0)
            first = await anext(events)
            await asyncio.to_thread(served.run, "tenant", "move", tenant, "--to", "eu2")
            await client.todos.add("two")
            second = await anext(events)
            assert second.kind == "todo_changed"
            assert (second.data["todo"]["subject"], second.number) == ("two", (first.number or 0) + 1)

    asyncio.run(scenario())
    with sync.connect(addresses[0], secret, retries=0) as client:
        assert [todo.subject for todo in client.todos.list().items] == ["one", "two"]
        events = client.events.follow(kinds="todo_changed", after=0)
        assert [read_subject(next(events)) for _ in range(2)] == ["one", "two"]
        served.run("tenant", "move", tenant, "--to", "eu1")
        client.todos.update(client.todos.list().items[0].id, subject="uno")
        assert read_subject(next(events)) == "uno"


def read_subject(event: headway.TypedEvent) -> str:
    assert event.kind == "todo_changed"
    return str(event.data["todo"]["subject"])


def test_clients_behind_nginx_notice_nothing_of_a_move(served: ServedCells, tenant: str) -> None:
    secret = create_token(served, tenant)
    with served.open(secret) as client:
        add(client, "one")
        with httpx.Client(**client_options(served.proxy)) as page:
            origin = {"Origin": served.proxy}
            assert page.post("/login", json={"token": secret}, headers=origin).status_code == 204
            assert page.cookies["headway_session"].startswith("hw_eu1_")
            assert page.get("/v1/session").json()["session"]["tenant"] == tenant
            with open_stream(client, params={"after": 0}) as stream:
                _, last = take_created(stream)
                served.run("tenant", "move", tenant, "--to", "eu2")
                read_to_end(stream)

            add(client, "two", description="x" * 150_000)
            with open_stream(client, headers={"Last-Event-ID": str(last)}) as stream:
                assert take_created(stream) == ("two", last + 1)
            assert page.get("/v1/session").json()["session"]["tenant"] == tenant
            assert page.post("/v1/todos", json={"subject": "three"}, headers=origin).status_code == 201
            assert page.post("/login", json={"token": secret}, headers=origin).status_code == 204
            assert page.cookies["headway_session"].startswith("hw_eu2_")
            assert [todo["subject"] for todo in client.get("/v1/todos").json()["todos"]] == ["one", "two", "three"]
            assert page.get("/").status_code == 200
