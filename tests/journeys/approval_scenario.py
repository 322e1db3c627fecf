"""A turn whose calls people must approve, with a sub-agent and a question: the model, the home folder and the expected end. The
model's reply depends on the request alone, so a request repeated after a crash gets the same reply."""

import json
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.forked_process import ProcessPlan
from tests.journeys.goal_scenario import GOAL, USAGE, Errand, Script
from tests.journeys.people import ANSWER, BOB, EDITED, IN_USE, INSTEAD, REJECTED
from tests.journeys.snapshot import Snapshot
from tests.journeys.turn_home import PRICES
from tests.journeys.worker_processes import OWN
from tests.model_server import Reply, Request, call, calls, text

REQUEST = "Clear the table."
LAMP = "Note the lamp."
QUESTION = "Is anything else on the table?"
FINAL = "The table is clear."
# A goal's sub-agent and its main agent note something each.
ERRANDS = (Errand("a", "agent"), Errand("b", "inline", ("a",)))
PROPOSED = ("plates", REJECTED, EDITED)
MAIN, WORKER = 'tools = ["own", "delegate", "ask_person"]\n', 'tools = ["own"]\n'


def reply(request: Request) -> Reply:
    if any(LAMP in message and message.startswith("[DELEGATION CONTEXT]") for message in request.texts):
        return text("It is noted.", usage=USAGE) if request.tool_results else propose("lamp")
    match request.assistant_turns:
        case 0:
            return propose(*PROPOSED)
        case 1:
            return calls(call("delegate", {"agent": "researcher", "task": LAMP}, id="lamp"), usage=USAGE)
        case 2:
            return calls(call("ask_person", {"question": QUESTION, "choices": ["Yes", ANSWER]}, id="ask"), usage=USAGE)
    return text(FINAL, usage=USAGE)


reply_to_goal = Script({GOAL: ERRANDS})


def propose(*names: str) -> Reply:
    return calls(*(call("note", {"name": name}, id=f"note-{name}") for name in names), usage=USAGE)


def make_home(home: Path) -> None:
    """A home folder with a tool that asks, whose effect can be counted and must not be repeated."""
    for name, content in (
        ("tools/own.py", OWN.replace("@tool", "@tool(destructive=True)")),
        ("agents/index.toml", MAIN),
        ("agents/researcher.toml", WORKER),
        ("prices.toml", PRICES),
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)


def build_scenario(folder: Path, database_url: str) -> ProcessPlan:
    """A fresh home folder, and a tenant with a conversation."""
    make_home(folder / "home")
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database, f"tenant {uuid4().hex}")
        conversation_id = desk.conversation().id
    return ProcessPlan(str(folder / "home"), database_url, desk.tenant.id, conversation_id, request=REQUEST)


def build_goal_scenario(folder: Path, database_url: str) -> ProcessPlan:
    """The same with a goal."""
    return build_scenario(folder, database_url)._replace(conversation_id=0, request="", goals=[GOAL])


# The final state


def check_people(left: Snapshot, noted: Counter[str], proposed: set[str], approved: set[str], notices: int) -> None:
    """Check that each call was proposed once and decided once, and made once if it was approved."""
    ids = sorted(approval["id"] for approval in list_requests(left, "approval"))
    requested = [data["approval"]["arguments"]["name"] for data in list_events(left, "approval_requested")]
    assert sorted(requested) == sorted(proposed)
    for kind in ("approval_requested", "approval_decided"):
        assert sorted(data["approval"]["id"] for data in list_events(left, kind)) == ids, kind
    assert {approval["decided_by"] for approval in list_requests(left, "approval")} == {BOB}
    assert [notice["kind"] for notice in left["notices"]].count("approval") == notices
    assert {turn["waiting"] for turn in left["turns"]} <= {0}
    assert {run["reserved"] for run in left["runs"]} == {0}
    assert [pool["reserved"] for pool in left["pools"]] == [0]
    made = [effect for effect in left["effects"] if effect["tool"] == "note"]
    unknown = {json.loads(effect["arguments"])["name"] for effect in made if effect["state"] == "unknown"}
    assert approved - unknown <= set(noted) <= approved
    assert set(noted.values()) == {1}
    assert {effect["state"] for effect in made} <= {"succeeded", "failed", "unknown"}
    for kind in ("tool_call", "tool_result"):
        call_ids = [data["call_id"] for data in list_events(left, kind)]
        assert sorted(call_ids) == sorted(effect["call_id"] for effect in left["effects"]), kind


def check_turn(left: Snapshot, noted: Counter[str]) -> None:
    check_people(left, noted, {*PROPOSED, "lamp"}, {"plates", INSTEAD, "lamp"}, notices=2)
    states = {approval["call_id"]: (approval["state"], approval["reason"]) for approval in list_requests(left, "approval")}
    assert states["note-cups"] == ("rejected", IN_USE)
    assert {state for call_id, state in states.items() if call_id != "note-cups"} == {("approved", "")}
    (question,) = list_requests(left, "question")
    assert (question["state"], question["answer"], question["decided_by"]) == ("answered", ANSWER, BOB)
    assert [notice["kind"] for notice in left["notices"]].count("question") == 1
    assert len(list_events(left, "question_asked")) == len(list_events(left, "question_answered")) == 1
    (turn,) = left["turns"]
    assert (turn["status"], turn["waiting"]) == ("finished", 0)
    assert left["runs"][0]["result"] == FINAL
    assert len(left["runs"]) == 2


def check_goal(left: Snapshot, noted: Counter[str]) -> None:
    names = {errand.name for errand in ERRANDS}
    check_people(left, noted, names, names, notices=len(names))
    (goal,) = left["goals"]
    assert goal["status"] == "completed"
    assert [sub_goal["status"] for sub_goal in left["sub_goals"]] == ["completed"] * len(names)
    assert {approval["state"] for approval in list_requests(left, "approval")} == {"approved"}


def list_requests(left: Snapshot, kind: str) -> list[dict[str, Any]]:
    return [request for request in left["requests"] if request["kind"] == kind]


def list_events(left: Snapshot, kind: str) -> list[dict[str, Any]]:
    return [json.loads(event["data"]) for event in left["events"] if event["kind"] == kind]
