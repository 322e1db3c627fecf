"""Processes crash at random points of a turn, one after the other, and the last one ends it as if nothing had happened.

The processes are simulated within the test's own. The files beside this one do the same with real processes and SIGKILL, at few
points in `make test`.
"""

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.usage import RequestUsage

from headway import settings, tool
from headway.agents.models.local import LocalModel
from headway.ledger.events import TURN_ENDS
from headway.process.assembly import Headway
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.accounts import strip_takeover
from tests.journeys.simulated_process import SimulatedProcess, trace_connections
from tests.journeys.snapshot import Snapshot, normalize, read_snapshot
from tests.proofs import Proof

pytestmark = pytest.mark.proof
REQUEST, TASK, FINAL = "Bake a cake.", "Look for flour.", "Enjoy."
CRASHES = (1, 1, 1, 2, 3)  # in a row
FEWEST = 150  # points of a turn that does not crash


class History:
    """One turn, the processes that work on it one after the other, and what its tools have done."""

    def __init__(self, folder: Path, empty_ledger: Path) -> None:
        folder.mkdir()
        shutil.copy(empty_ledger, folder / "headway.db")
        self.url = f"sqlite:///{folder / 'headway.db'}"
        self.folder = folder
        self.living: SimulatedProcess | None = None
        self.points: list[str] = []  # at which processes crashed
        self.done: Counter[str] = Counter()
        self.tools = self.build_tools()
        with DirectDatabase(self.url) as database:
            desk = TenantHarness(database)
            self.tenant_id, self.conversation_id = desk.tenant.id, desk.conversation().id

    def run_process(self, crash_at: int | None = None) -> SimulatedProcess:
        """Run a process until it crashes or the turn has ended."""
        with DirectDatabase(self.url) as database:
            database.write(lambda tx: tx.run("UPDATE worker_leases SET beat_at = 0"))
            run = database.read(lambda tx: tx.one("SELECT id, ended_at FROM runs WHERE depth = 0"))
        process = self.living = SimulatedProcess(crash_at)
        if not process.run(self.build_headway, partial(self.answer, run=run)):
            self.points.append(process.last_point)
        self.living = None
        return process

    def crash(self, seed: int, points: int) -> None:
        """Run processes that crash at random points, and then one that does not, until the turn has ended."""
        chance = random.Random(seed)
        for _ in range(chance.choice(CRASHES)):
            if not self.run_process(chance.randint(1, points)).is_dead:
                return
        self.run_process()

    def read_left(self) -> Snapshot:
        return read_snapshot(self.url, self.tenant_id)

    async def answer(self, headway: Headway, run: Sequence[Any] | None) -> None:
        """Begin the turn, unless an earlier process did, and wait for its end."""
        if run is None:
            work = partial(headway.begin_turn, tenant_id=self.tenant_id, conversation_id=self.conversation_id, content=REQUEST)
            job = await headway.database.of(self.tenant_id).write(work)
            headway.engine.take(job)
            await headway.engine.ended(job.id)
        elif not run[1]:
            await headway.engine.ended(run[0])

    def build_headway(self) -> Headway:
        values = {"home": str(self.folder), "database_url": self.url, "model": "test:scripted"}
        pace = {"retry_delay_s": "0.001", "restart_stagger_s": "0", "context_tokens": "128000"}
        model = LocalModel("scripted", self.reply)
        return Headway(settings.load({**values, **pace}), {"test:scripted": model}, self.tools)

    def pass_point(self, point: str) -> None:
        assert self.living is not None
        self.living.pass_point(point)

    def build_tools(self) -> list[Any]:
        """A tool whose effect must not be repeated, and one whose effect may be."""

        def do(what: str) -> str:
            self.pass_point(f"before it {what}")
            self.done[what] += 1
            self.pass_point(f"after it {what}")
            return what

        @tool
        def pay(amount: int) -> str:
            """Pays."""
            return f"{do('paid')} {amount}"

        @tool(idempotent=True)
        def look(where: str) -> str:
            """Looks."""
            return f"{do('looked')} into {where}"

        return [pay, look]

    def reply(self, messages: list[ModelMessage], _parameters: ModelRequestParameters) -> ModelResponse:
        """The model answers from the messages alone."""
        self.pass_point("a request to the model")
        number = sum(isinstance(message, ModelResponse) for message in messages)
        parts = [TextPart("There is flour.")] if TASK in find_request(messages) else reply_as_main_agent(number, messages)
        return ModelResponse(parts, usage=RequestUsage(input_tokens=1_000, output_tokens=100))


def find_request(messages: list[ModelMessage]) -> str:
    return str(next(part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)))


def reply_as_main_agent(number: int, messages: list[ModelMessage]) -> list[Any]:
    def call(name: str, arguments: dict[str, Any]) -> ToolCallPart:
        return ToolCallPart(name, arguments, tool_call_id=f"{name}-{number}")

    match number:
        case 0:
            return [call("create_todo", {"items": [{"title": "bake"}, {"title": "frost"}]})]
        case 1:
            return [call("pay", {"amount": 5}), call("look", {"where": "the cellar"})]
        case 2:
            return [call("delegate", {"agent": "researcher", "task": TASK})]
        case 4:
            return [TextPart("Is that enough?")]
        case 3 | 5:
            return [call("complete_todo", {"todoId": list_todo_ids(messages)[number == 5], "outcome": "done"})]
    return [TextPart(FINAL)]


def list_todo_ids(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    created = next(part.content for part in parts if isinstance(part, ToolReturnPart) and part.tool_name == "create_todo")
    return [str(todo["id"]) for todo in json.loads(str(created))["created"]]


@pytest.fixture
def histories(tmp_path: Path, empty_ledger: Path) -> Iterator[Callable[[], History]]:
    """Begins histories, one after the other."""
    begun: list[History] = []

    def begin() -> History:
        begun.append(History(tmp_path / str(len(begun)), empty_ledger))
        return begun[-1]

    with trace_connections(lambda: begun[-1].living if begun else None):
        yield begin


def simplify(left: Snapshot) -> Snapshot:
    """The normal form, with the kinds of the events: their data has times."""
    simple: Snapshot = normalize(strip_takeover(left))
    return simple | {"events": [event["kind"] for event in simple["events"]]}


def check_as_if_uninterrupted(history: History, expected: Snapshot) -> None:
    left = history.read_left()
    unknown = [effect["tool"] for effect in left["effects"] if effect["state"] == "unknown"]
    assert unknown in ([], ["pay"])
    assert history.done["paid"] == 1 or (unknown and not history.done["paid"]), "a payment is made once, or reported as unknown"
    assert 1 <= history.done["looked"] <= len(history.points) + 1
    kinds = Counter(event["kind"] for event in left["events"])
    assert (kinds["turn_started"], sum(kinds[kind] for kind in TURN_ENDS), kinds["refused"]) == (1, 1, 1)
    assert [row["reserved"] for name in ("runs", "pools") for row in left[name] if row["reserved"]] == []
    got = simplify(left)
    same = ("turns", "messages", "todos", "model_calls", "notices") if unknown else expected
    for name in same:
        assert got[name] == expected[name]


def test_a_turn_whose_processes_crash_ends_as_if_they_had_not(histories: Callable[[], History], proof: Proof) -> None:
    first = histories()
    points = first.run_process().passed
    assert points > FEWEST
    expected = simplify(first.read_left())
    for seed in proof.seeds("simulated crashes of a turn, sqlite", share=60, whole=2_000):
        history = histories()
        history.crash(seed, points)
        print(f"seed {seed}: {history.points}")
        check_as_if_uninterrupted(history, expected)
        shutil.rmtree(history.folder)
