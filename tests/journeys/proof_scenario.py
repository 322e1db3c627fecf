"""A turn and a goal whose work has checks: the model, the home folder and the expected end. The model's reply depends on the
request alone, so a request repeated after a crash gets the same reply."""

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

from headway.actions.todos import todos
from headway.ledger.parsing.checks import write_checks
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.agents.turn_harness import list_open_ids
from tests.journeys.forked_process import ProcessPlan
from tests.journeys.goal_scenario import GOAL, USAGE, Errand, Script
from tests.journeys.snapshot import Snapshot
from tests.journeys.turn_home import PRICES
from tests.journeys.worker_processes import OWN
from tests.model_server import Reply, Request, call, calls, text
from tests.proof_rows import check_proofs

FILE = {"kind": "file", "path": "plates.txt", "contains": "clean"}
OUTCOME = {"kind": "outcome", "schema": {"type": "integer"}}
LAMP = "Light the lamp, todo "
FINAL = "The table is laid."
DESK = "desk"
MAIN = 'tools = ["create_todo", "complete_todo", "read_file", "write_file", "delegate"]\n'
NOTED = {"kind": "outcome", "schema": {"type": "string", "pattern": "."}}
ERRANDS = (Errand("a", "agent", checks=(NOTED,)), Errand("b", "inline", ("a",), (NOTED,)))

reply_to_goal = Script({GOAL: ERRANDS})


def reply(request: Request) -> Reply:
    words = "\n".join(request.texts)
    if any(LAMP in message and message.startswith("[DELEGATION CONTEXT]") for message in request.texts):
        if request.tool_results:
            return text("It is lit.", usage=USAGE)
        number = int(re.findall(rf"{LAMP}(\d+)", words)[0])
        return calls(call("todo_update", {"id": number, "status": "completed"}, id="lamp"), usage=USAGE)
    lamp, cups = re.findall(r"todos (\d+) and (\d+)", words)[0]
    match request.assistant_turns:
        case 0:
            return calls(call("create_todo", {"items": [{"title": "Wash", "checks": [FILE]}]}, id="plan"), usage=USAGE)
        case 1 | 3:
            return complete(request)
        case 2:
            return calls(call("write_file", {"path": "plates.txt", "content": "clean"}, id="wash"), usage=USAGE)
        case 4:
            return calls(call("delegate", {"agent": "researcher", "task": f"{LAMP}{lamp}"}, id="lamp"), usage=USAGE)
        case 5:
            return text(f"/todo done {cups}: 6", usage=USAGE)
    return text(FINAL, usage=USAGE)


def complete(request: Request) -> Reply:
    arguments = {"todoId": list_open_ids(request)[0], "outcome": "washed"}
    return calls(call("complete_todo", arguments, id=f"complete-{request.assistant_turns}"), usage=USAGE)


def build_scenario(folder: Path, database_url: str, command: str = "echo lit >> lamp") -> ProcessPlan:
    """A fresh home folder, and a tenant with two todos: one that a command proves, and one that its outcome proves."""
    home = folder / "home"
    for name, content in (
        ("tools/own.py", OWN),
        ("agents/index.toml", MAIN),
        ("agents/researcher.toml", 'tools = ["todo_update"]\n'),
        ("prices.toml", PRICES),
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    lamp = {"kind": "command", "run": command, "folder": str(make_desk(folder))}
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database, f"tenant {uuid4().hex}")
        conversation_id = desk.conversation().id
        numbers = [
            desk.write(todos.add_todo, Draft("x", conversation_id=conversation_id, checks=write_checks([check], "operator"))).id
            for check in (lamp, OUTCOME)
        ]
    request = f"Lay the table: todos {numbers[0]} and {numbers[1]}."
    return ProcessPlan(str(home), database_url, desk.tenant.id, conversation_id, request=request)


def make_desk(folder: Path) -> Path:
    """Create the folder of the operator's checks, which cannot be in the home folder."""
    desk = folder / DESK
    desk.mkdir()
    return desk


def build_goal_scenario(folder: Path, database_url: str) -> ProcessPlan:
    """A goal with a check, whose sub-goals have some as well."""
    (folder / "home" / "agents").mkdir(parents=True)
    (folder / "home" / "tools").mkdir(parents=True)
    (folder / "home" / "tools" / "own.py").write_text(OWN)
    (folder / "home" / "agents" / "index.toml").write_text('tools = ["own"]\n')
    (folder / "home" / "agents" / "researcher.toml").write_text('tools = ["own"]\n')
    (folder / "home" / "prices.toml").write_text(PRICES)
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database, f"tenant {uuid4().hex}")
    (make_desk(folder) / "notes.txt").write_text("b")
    notes = {"kind": "file", "path": "notes.txt", "contains": "b", "folder": str(folder / DESK)}
    return ProcessPlan(
        str(folder / "home"), database_url, desk.tenant.id, 0, goals=[GOAL], goal_checks=write_checks([notes], "operator")
    )


# The final state


def list_proofs(plan: ProcessPlan, table: str) -> list[tuple[str, str]]:
    """The (status, proof) of the tenant's rows."""
    sql = f"SELECT status, proof FROM {table} WHERE tenant_id = ? ORDER BY id"
    with DirectDatabase(plan.database_url) as database:
        return [(status, proof) for status, proof in database.read(lambda tx: tx.all(sql, plan.tenant_id))]


def list_receipts(plan: ProcessPlan) -> list[tuple[str, bool]]:
    """The receipts of the tenant, as (subject, ok), in order."""
    sql = "SELECT subject, ok FROM receipts WHERE tenant_id = ? ORDER BY id"
    with DirectDatabase(plan.database_url) as database:
        check_proofs(database)
        return [(subject, bool(ok)) for subject, ok in database.read(lambda tx: tx.all(sql, plan.tenant_id))]


def check_turn(plan: ProcessPlan, left: Snapshot) -> None:
    """Check that everything is proven, and that each run of the checks has one receipt, however often they had to run."""
    assert list_proofs(plan, "todos") == [("completed", "proven")] * 3
    assert list_receipts(plan) == [("todo", False), ("todo", True), ("todo", True), ("todo", True)]
    assert [data["ok"] for data in list_events(left, "checks_ran")] == [False, True, True, True]
    assert {effect["state"] for effect in left["effects"]} == {"succeeded", "failed"}
    assert (Path(plan.home).parent / DESK / "lamp").read_text().startswith("lit\n")
    (turn,) = left["turns"]
    assert (turn["status"], turn["outcome"]) == ("finished", "drained")
    assert left["runs"][0]["result"] == FINAL


def check_goal(plan: ProcessPlan, left: Snapshot) -> None:
    assert list_proofs(plan, "goals") == [("completed", "proven")]
    assert list_proofs(plan, "sub_goals") == [("completed", "proven")] * 2
    assert sorted(list_receipts(plan)) == [("goal", True), ("sub_goal", True), ("sub_goal", True)]
    assert [pool["reserved"] for pool in left["pools"]] == [0]


def list_events(left: Snapshot, kind: str) -> list[dict[str, Any]]:
    return [json.loads(event["data"]) for event in left["events"] if event["kind"] == kind]
