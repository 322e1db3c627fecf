"""A complete Headway that answers in one conversation with a scripted model, and views of the result.

    with open_talk(url, tmp_path, in_order(calls(("now", {})), text("It is late."))) as talk:
        turn = talk.say("What time is it?")

After every test: each turn that ended emitted its end exactly once, and no request broke the rules of the model's API.
"""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import pytest
from pydantic_ai.models import Model

from headway import settings
from headway.actions.installation import halts, tenants
from headway.actions.runs import jobs, notices, runs
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.agents.tracing import Tracer
from headway.agents.transcripts import transcript
from headway.ledger.attachment import Attachment
from headway.ledger.events import TURN_ENDS
from headway.ledger.job import Job
from headway.ledger.run import Message, Run, TurnMode
from headway.ledger.todo import Todo
from headway.process.assembly import Headway
from headway.storage.direct import DirectDatabase
from headway.storage.stores import installation as halt_store
from headway.storage.stores import messages as message_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as spending_store
from headway.storage.stores import todos as todo_store
from headway.storage.stores.spending import ModelCall, Pool
from headway.storage.transaction import Work
from tests.certificates import skip_certificates
from tests.dispatch.local_dispatch import find_dispatcher, hurry
from tests.model_server import MODEL, ModelServer, Reply, Request, Script, calls, environment, to_script
from tests.people_rows import check_waiting
from tests.proof_rows import check_proofs

T = TypeVar("T")

CHEAP = "cheap-1"
STRONG = f"openai-chat:{MODEL}"
SCRIPTED = "test:scripted"
PATIENCE_S = 60
OPEN_ITEM = re.compile(r"(\d+) \[(?:pending|in_progress)\] ")


class EffectRow(NamedTuple):
    n: int
    call_index: int
    call_id: str
    tool: str
    arguments: str
    state: str
    result: str


class WatchedHeadway(Headway):
    """Records the live text it streams."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.streamed: list[dict[str, Any]] = []

    def _stream_text(self, run: Run, data: dict[str, Any]) -> None:
        if not data.get("end"):
            self.streamed.append(data)
        super()._stream_text(run, data)


class SharedDatabase(DirectDatabase):
    """For the test and for scripts on the model server's threads. One thread uses it at a time."""

    def __init__(self, url: str) -> None:
        self.turn = threading.RLock()
        super().__init__(url)

    def write(self, work: Work[T]) -> T:
        with self.turn:
            return super().write(work)

    def read(self, work: Work[T]) -> T:
        with self.turn:
            return super().read(work)


class Talk:
    """One conversation of one tenant, and the process that answers in it."""

    def __init__(self, headway: WatchedHeadway, database: DirectDatabase, server: ModelServer, loop: asyncio.Runner) -> None:
        self.headway = headway
        self.database = database
        self.server = server
        self.loop = loop
        self.tenant_id = database.write(lambda tx: tenants.add_tenant(tx, "acme")).id
        self.conversation_id = database.write(lambda tx: conversations.add_conversation(tx, self.tenant_id)).id
        self.run: Run | None = None

    def start_over(self, script: Script | Reply) -> None:
        """Continue with another script, as another tenant in a new conversation: a new Headway takes longer than a short turn."""
        if self.run:
            self.wait(self.until(lambda: not self.headway.engine.tasks))
            check_turns(self)
        self.server.forget()
        self.server.script = to_script(script)
        self.headway.streamed.clear()
        self.tenant_id = self.database.write(lambda tx: tenants.add_tenant(tx, uuid4().hex)).id
        self.conversation_id = self.database.write(lambda tx: conversations.add_conversation(tx, self.tenant_id)).id
        self.run = None

    # Talking

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop until it ends."""
        return self.loop.run(asyncio.wait_for(coroutine, PATIENCE_S))

    def say(self, content: str = "Do it.", mode: TurnMode = "plan", *attachments: Attachment) -> dict[str, Any]:
        """Send a message and wait until the turn has ended or has stopped here. Return the turn."""

        async def run_turn() -> None:
            await self.wait_until_ended(await self.begin(content, mode, *attachments))

        self.wait(run_turn())
        return self.turn()

    async def begin(self, content: str = "Do it.", mode: TurnMode = "plan", *attachments: Attachment) -> "asyncio.Task[None]":
        """Begin a turn and return the task that runs it now. A retry runs in a new task."""
        headway, tenant_id, conversation_id = self.headway, self.tenant_id, self.conversation_id
        job = await headway.database.of(tenant_id).write(
            lambda tx: headway.begin_turn(tx, tenant_id, conversation_id, content, mode, attachments)
        )
        self.run = self.database.read(lambda tx: run_store.find_run(tx, tenant_id, job.id))
        headway.engine.take(job)
        return headway.engine.tasks[job.id]

    async def wait_until_ended(self, task: "asyncio.Task[None]") -> None:
        """Wait until the turn has ended, or until this process will not continue it."""
        await asyncio.wait([task])
        await self.until(lambda: bool(self.turn()["ended_at"]) or self.is_resting())

    def is_resting(self) -> bool:
        """Return whether the turn waits for money, for a person or for the end of a halt, or belongs to another process."""
        if self.job().id in self.headway.engine.tasks:
            return False
        halted = self.database.read(halt_store.find_active) is not None
        return halted or self.turn()["status"] in ("paused", "waiting") or self.job().owner not in ("", self.headway.executor_id)

    def job(self) -> Job:
        run = self.run
        assert run is not None
        return self.database.read(lambda tx: jobs.get_job(tx, self.tenant_id, run.id))

    async def wait_for_requests(self, number: int) -> None:
        """Wait until the model has got `number` requests."""
        await asyncio.to_thread(self.server.wait_for_requests, number)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.01)

    def halt(self) -> None:
        self.database.write(lambda tx: halts.halt(tx, "a test"))

    def unhalt(self) -> None:
        self.database.write(halts.unhalt)

    # Views

    def turn(self) -> dict[str, Any]:
        assert self.run is not None
        turn_id = self.run.turn_id or ""
        return self.database.read(lambda tx: turns.show_turn(tx, self.tenant_id, turn_id, self.headway.settings.limits))

    def run_row(self) -> Run:
        assert self.run is not None
        run_id = self.run.id
        row = self.database.read(lambda tx: run_store.find_run(tx, self.tenant_id, run_id))
        assert row is not None
        return row

    def events(self, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
        """Return (kind, data) of the logged events, in order: of all kinds, or of the given ones."""
        sql = "SELECT kind, data FROM events WHERE tenant_id = ? ORDER BY seq"
        rows = self.database.read(lambda tx: tx.all(sql, self.tenant_id))
        return [(kind, parse_strict_json(data)) for kind, data in rows if not kinds or kind in kinds]

    def list_event_data(self, kind: str) -> list[dict[str, Any]]:
        """Return the data of the events of one kind."""
        return [data for _, data in self.events(kind)]

    def messages(self) -> list[Message]:
        return self.database.read(lambda tx: message_store.list_message_page(tx, self.tenant_id, self.conversation_id, 500, 2**62))

    def answers(self) -> list[str]:
        return [message.content for message in self.messages() if message.role == "assistant"]

    def plan(self) -> list[Todo]:
        assert self.run is not None
        turn_id = self.run.turn_id or ""
        return self.database.read(lambda tx: todo_store.list_by_turn(tx, self.tenant_id, turn_id))

    def entries(self) -> list[transcript.TranscriptEntry]:
        assert self.run is not None
        run_id = self.run.id
        return self.database.read(lambda tx: transcript.load(tx, runs.get_run(tx, self.tenant_id, run_id)))

    def effects(self) -> list[EffectRow]:
        """Return the effects in the order in which their runs called the model first: the ids of runs are random."""
        sql = """SELECT n, call_index, call_id, tool, arguments, state, result FROM effects WHERE tenant_id = ?
                 ORDER BY (SELECT MIN(id) FROM model_calls WHERE model_calls.run_id = effects.run_id), n, call_index"""
        return [EffectRow._make(row) for row in self.database.read(lambda tx: tx.all(sql, self.tenant_id))]

    def model_calls(self) -> list[ModelCall]:
        sql = """SELECT tier, model, input_tokens, output_tokens, cost, cached_tokens, cache_write_tokens FROM model_calls
                 WHERE tenant_id = ? ORDER BY id"""
        return [ModelCall._make(row) for row in self.database.read(lambda tx: tx.all(sql, self.tenant_id))]

    def notices(self) -> list[tuple[str, str]]:
        sql = "SELECT kind, text FROM notices WHERE tenant_id = ? ORDER BY id"
        return [(kind, text) for kind, text in self.database.read(lambda tx: tx.all(sql, self.tenant_id))]

    def open_notices(self) -> list[str]:
        """The kinds of the notices that are not done."""
        page = self.database.read(lambda tx: notices.list_page(tx, self.tenant_id, 100, is_done=False))
        return [notice["kind"] for notice in page["notices"]]

    def pool(self) -> Pool:
        return self.database.read(lambda tx: spending_store.get_pool(tx, self.tenant_id))

    def set_pool(self, **fields: int) -> None:
        def change(tx: Any) -> None:
            pool = spending_store.lock_pool(tx, self.tenant_id)
            spending_store.save_pool(tx, self.tenant_id, pool._replace(**fields))

        # Scripts call this on the model server's thread, and a connection belongs to one thread.
        with DirectDatabase(self.headway.settings.database_url) as database:
            database.write(change)

    def read_streamed_text(self) -> str:
        """Return the live text as a watcher finally sees it. A restart discards the text before it."""
        text = ""
        for chunk in self.headway.streamed:
            text = "" if chunk.get("restart") else text + chunk["text"]
        return text

    @property
    def requests(self) -> list[Request]:
        return self.server.requests

    # Crashes and restarts

    def crash(self, task: "asyncio.Task[None]") -> Coroutine[Any, Any, None]:
        """Stop the process that runs the turn, as in a crash, and expire its lease."""

        async def stop() -> None:
            task.cancel()
            await asyncio.wait([task])
            self.forget_leases()

        return stop()

    def forget_leases(self) -> None:
        self.database.write(lambda tx: tx.run("UPDATE worker_leases SET beat_at = 0"))

    def revive(self, *, sweeping: bool = True) -> None:
        """Replace the process with a new one on the same database."""
        self.headway = restart_headway(self.headway)
        self.wait(start_headway(self.headway, sweeping=sweeping))

    def resume_turn(self) -> dict[str, Any]:
        """After a crash, start a second process, which takes over the turn, and wait for the end."""
        self.revive()
        self.wait(self.until(lambda: bool(self.turn()["ended_at"])))
        return self.turn()


def parse_strict_json(data: str) -> dict[str, Any]:
    """Parse JSON as strictly as browsers do."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document: dict[str, Any] = json.loads(data, parse_constant=refuse)
    return document


def check_turns(talk: Talk) -> None:
    """Check the invariants of every turn."""
    ends: list[str] = []
    for kind, data in talk.events(*TURN_ENDS, "turn_resumed"):
        if kind in TURN_ENDS:
            ends.append(data["turn_id"])
        elif data["turn_id"] in ends:  # the failed turn was retried
            ends.remove(data["turn_id"])
    rows = talk.database.read(lambda tx: tx.all("SELECT id, ended_at FROM turns WHERE tenant_id = ?", talk.tenant_id))
    assert sorted(ends) == sorted(turn_id for turn_id, ended_at in rows if ended_at), "one ending for every turn that ended"
    reserved = talk.database.read(
        lambda tx: tx.one("SELECT COALESCE(SUM(reserved), 0) FROM runs WHERE tenant_id = ? AND ended_at = 0", talk.tenant_id)
    )
    assert reserved is not None
    assert talk.pool().reserved == reserved[0], "nothing is set aside for a run that has ended"
    sql = """SELECT tool, arguments FROM effects JOIN runs ON runs.id = effects.run_id
             WHERE runs.tenant_id = ? AND state = 'started' AND status <> 'canceled'"""
    unfinished = talk.database.read(lambda tx: tx.all(sql, talk.tenant_id))
    assert not (unfinished and all(ended_at for _, ended_at in rows)), unfinished
    check_waiting(talk.database)
    check_proofs(talk.database)


def restart_headway(headway: WatchedHeadway) -> WatchedHeadway:
    return WatchedHeadway(headway.settings, headway.models_by_name)


async def start_headway(headway: Headway, *, sweeping: bool) -> None:
    dispatcher = headway.dispatcher = find_dispatcher()
    headway.start()
    headway.start_agents(alone=not sweeping)
    await headway.agents_ready()
    if dispatcher and dispatcher.faults.lost and sweeping:
        hurry(headway.engine)
    LIVING.append(headway)


async def stop_headway(headway: Headway) -> None:
    await headway.stop_agents()
    headway.close()


LIVING: list[Headway] = []


@contextmanager
def open_talk(
    url: str,
    home: Path,
    script: Script | Reply | Model,
    *,
    sweeping: bool = False,
    breaches: bool = False,
    tracer: Tracer | None = None,
    model_port: int = 0,
    **options: str,
) -> Iterator[Talk]:
    """`options` are settings by name. With `breaches`, requests may violate the model's API, and the test checks them itself.

    A test that starts the model server again names its `model_port`, so that nothing else takes it meanwhile."""
    name = SCRIPTED if isinstance(script, Model) else STRONG
    values = {
        "home": str(home),
        "database_url": url,
        "model": name,
        "context_tokens": "128000",
        "retry_delay_s": "0.001",
        "restart_stagger_s": "0",
        **options,
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        ModelServer(Reply() if isinstance(script, Model) else script, model_port) as server,
        SharedDatabase(url) as database,
        asyncio.Runner() as loop,
    ):
        for variable, value in environment(server).items():
            patch.setenv(variable, value)
        skip_certificates(patch)
        headway = WatchedHeadway(settings.load(values), {name: script} if isinstance(script, Model) else None)
        if tracer:
            headway.tracer = tracer
        talk = Talk(headway, database, server, loop)
        try:
            loop.run(start_headway(headway, sweeping=sweeping))
            yield talk
        finally:
            server.release()
            while LIVING:
                loop.run(stop_headway(LIVING.pop()))
        check_turns(talk)
        if not breaches:
            assert server.violations == [], server.violations


# Scripts for the model


def in_order(*replies: Reply | Script) -> Script:
    """Give the first reply to the first request, the second to the second, and so on."""
    request_numbers = count()

    def script(request: Request) -> Reply:
        reply = replies[next(request_numbers)]
        return reply if isinstance(reply, Reply) else reply(request)

    return script


def tiers(strong: Script | Reply, cheap: Script | Reply) -> Script:
    """Return a script for two tiers. It needs the option `model_cheap=CHEAP_TIER`."""

    def script(request: Request) -> Reply:
        part = cheap if request.model == CHEAP else strong
        return part if isinstance(part, Reply) else part(request)

    return script


CHEAP_TIER = f"openai-chat:{CHEAP}"


def plan_call(*titles: str) -> Reply:
    return calls(("create_todo", {"items": [{"title": title} for title in titles]}))


def queue_call(*descriptions: str) -> Reply:
    return calls(("manage_todos", {"add": list(descriptions)}))


def list_open_ids(request: Request) -> list[str]:
    """Return the ids of the plan's open items from the last message that shows the plan."""
    for shown in reversed(request.texts):
        if '"remaining": 0' in shown:
            return []
        if created := re.findall(r'{"id": (\d+), "title": ', shown) if '"created": ' in shown and '"plan"' not in shown else []:
            return created
        if "[TURN CONTEXT]" in shown or '"plan": ' in shown:
            return OPEN_ITEM.findall(shown)
    return []


def complete_next(request: Request) -> Reply:
    return calls(("complete_todo", {"todoId": list_open_ids(request)[0], "outcome": "done"}))


def list_on_demand(request: Request) -> set[str]:
    """Return the names of the tools that the model can call with use_tool."""
    schemas = (tool["function"]["parameters"] for tool in request.body["tools"] if tool["function"]["name"] == "use_tool")
    return {name for schema in schemas for name in schema["properties"]["name"]["enum"]}


def list_callable(request: Request) -> set[str]:
    """Return the names of all tools that the model can call, directly or with use_tool."""
    return {*request.tools, *list_on_demand(request)}


def get_context(request: Request) -> str:
    """Return the context message, which must be the last message."""
    assert request.last.startswith("[TURN CONTEXT]")
    return request.last
