"""Requests that wait for the turn before theirs (`?wait=`) cost nothing while they wait, and start in order."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import httpx
import pytest
from starlette.types import Message

from headway.actions.engine import run_ends
from headway.actions.runs import jobs
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.ledger.job import NEVER
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from tests.proofs import Proof
from tests.surfaces.in_process_app import InProcessApp, open_app

READS = 50
HEARTBEAT_S = 600


@contextmanager
def record_statements() -> Iterator[list[str]]:
    """Record the statements of the connections that are opened meanwhile."""
    statements: list[str] = []

    def trace(connection: apsw.Connection) -> None:
        def note(_cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
            statements.append(statement)
            return True

        connection.exec_trace = note

    apsw.connection_hooks.append(trace)
    try:
        yield statements
    finally:
        apsw.connection_hooks.remove(trace)


def list_writes(statements: list[str]) -> list[str]:
    """The statements that change something, without the heartbeats of the engine, which come at any time."""
    writes = [statement for statement in statements if statement.startswith(("INSERT", "UPDATE", "DELETE"))]
    return [statement for statement in writes if "worker_leases" not in statement]


async def let_run(condition: Callable[[], bool]) -> None:
    """Let the other tasks run until the condition holds."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


class BusyConversation:
    """A conversation whose turn does not go on, and requests that wait for its end. Another process ends it."""

    def __init__(self, app: InProcessApp, rival: DirectDatabase, conversation_id: int, turn_id: str) -> None:
        self.app = app
        self.rival = rival
        self.tenant_id = app.token.token.tenant_id
        self.conversation_id = conversation_id
        self.turn_id = turn_id

    def end(self) -> None:
        self.rival.write(lambda tx: run_ends.cancel_turn(tx, self.tenant_id, self.turn_id))

    async def say(self, content: str, wait_s: float = 100) -> httpx.Response:
        path = f"/v1/conversations/{self.conversation_id}/messages"
        return await self.app.client.post(path, json={"content": content}, params={"wait": wait_s})

    @property
    def line_length(self) -> int:
        """How many requests wait: one watches the conversation, the others stand in line behind it."""
        lock = self.app.app.state.headway.feed.lines.get((self.tenant_id, self.conversation_id))
        return 0 if lock is None or not lock.locked() else 1 + len(lock._waiters or ())


async def start_turn(app: InProcessApp, rival: DirectDatabase) -> BusyConversation:
    """Start a turn whose job is never due."""
    headway = app.app.state.headway
    await headway.agents_ready()

    def begin(tx: Transaction) -> tuple[int, str]:
        tenant_id = app.token.token.tenant_id
        conversation = conversations.add_conversation(tx, tenant_id)
        job = headway.begin_turn(tx, tenant_id, conversation.id, "first")
        jobs.delay(tx, job, NEVER)
        return conversation.id, turns.get_turn_id(job)

    return BusyConversation(app, rival, *await headway.database.write(begin))


@pytest.mark.proof
def test_waiting_requests_write_nothing_and_one_starts_when_the_turn_ends(tmp_path: Path, proof: Proof) -> None:
    asyncio.run(wait_together(tmp_path, proof.trials("requests that wait for a turn to end", share=30, whole=500)))


async def wait_together(tmp_path: Path, requests: int) -> None:
    with record_statements() as statements:
        async with open_app(tmp_path, HEARTBEAT_S) as app:
            url = f"sqlite:///{tmp_path / 'headway.db'}"
            with DirectDatabase(url) as rival:
                busy = await start_turn(app, rival)
                tasks = [asyncio.create_task(busy.say(f"message {number}")) for number in range(requests)]
                await let_run(lambda: busy.line_length == requests)
                await let_run(lambda: app.app.state.headway.feed.open_streams == 1)
                before = len(statements)
                for _ in range(READS):
                    await app.client.get("/v1/halt")
                quiet = statements[before:]
                busy.end()
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                answers = [task.result() for task in done]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    assert list_writes(quiet) == []
    assert [statement for statement in quiet if re.search(r"\b(turns|messages|conversations)\b", statement)] == []  # no polling
    assert [(answer.status_code, "turn_id" in answer.json()) for answer in answers] == [(202, True)]


def test_a_client_that_disconnects_no_longer_waits(tmp_path: Path) -> None:
    asyncio.run(disconnect(tmp_path))


async def disconnect(tmp_path: Path) -> None:
    async with open_app(tmp_path, HEARTBEAT_S) as app:
        with DirectDatabase(f"sqlite:///{tmp_path / 'headway.db'}") as rival:
            busy = await start_turn(app, rival)
            messages: list[Message] = [{"type": "http.request", "body": b'{"content": "hello?"}'}, {"type": "http.disconnect"}]
            sent: list[Message] = []

            async def receive() -> Message:
                return messages.pop(0) if len(messages) > 1 else messages[0]

            async def send(message: Message) -> None:
                sent.append(message)

            request = app.client.build_request("POST", f"/v1/conversations/{busy.conversation_id}/messages?wait=100")
            scope = {
                "type": "http",
                "method": "POST",
                "path": request.url.path,
                "query_string": request.url.query,
                "headers": [(name.lower(), value) for name, value in request.headers.raw if name.lower() != b"content-length"],
                "app": app.app,
            }
            await app.app(scope, receive, send)

    assert sent[0]["status"] == 409
    assert busy.line_length == 0


def test_a_request_that_is_given_up_leaves_its_place_to_the_next(tmp_path: Path) -> None:
    asyncio.run(give_up(tmp_path))


async def give_up(tmp_path: Path) -> None:
    async with open_app(tmp_path, HEARTBEAT_S) as app:
        with DirectDatabase(f"sqlite:///{tmp_path / 'headway.db'}") as rival:
            busy = await start_turn(app, rival)
            first = asyncio.create_task(busy.say("gives up"))
            await let_run(lambda: busy.line_length == 1)
            impatient = await busy.say("soon", 0.05)
            second = asyncio.create_task(busy.say("stays"))
            await let_run(lambda: busy.line_length == 2)
            first.cancel()
            await let_run(lambda: busy.line_length == 1)
            busy.end()
            answer = await second

    assert (impatient.status_code, json.loads(impatient.text)["code"]) == (409, "turn_running")
    assert answer.status_code == 202
