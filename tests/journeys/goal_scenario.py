"""A goal of ten errands, each of which adds a line to a file: the plan, the model and the home folder. The model's reply depends on
the request alone, so a request repeated after a crash gets the same reply."""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.forked_process import ProcessPlan
from tests.journeys.turn_home import PRICES
from tests.journeys.worker_processes import FOREVER_S, OWN
from tests.model_server import Reply, Request, calls, slow, text

GOAL = "Run every errand there is."
# Only the tools the scenario needs: every request carries them all.
MAIN, WORKER = 'tools = ["own", "delegate"]\n', 'tools = ["own"]\n'
USAGE = (1_000, 100)
ERRAND = re.compile(r"^Note (\w+)\.$", re.MULTILINE)
NUMBERED = re.compile(r"^- (#\d+) \[.*\] Note (\w+)\.", re.MULTILINE)


class Errand(NamedTuple):
    name: str
    mode: str
    needs: tuple[str, ...] = ()
    checks: tuple[dict[str, Any], ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.name,
            "description": f"Note {self.name}.",
            "expected_outcome": f"{self.name} is in the notes.",
            "depends_on": list(self.needs),
            "mode": self.mode,
            "kind": "note",
            **({"checks": list(self.checks)} if self.checks else {}),
        }


# Two diamonds, one on top of the other, in which sub-agents and the main agent work in parallel.
TEN = (
    Errand("a", "agent"),
    Errand("b", "agent", ("a",)),
    Errand("c", "agent", ("a",)),
    Errand("d", "inline", ("b", "c")),
    Errand("e", "inline"),
    Errand("f", "agent", ("e",)),
    Errand("g", "inline", ("e",)),
    Errand("h", "agent", ("f", "g")),
    Errand("i", "agent", ("d", "h")),
    Errand("j", "inline", ("i",)),
)


class Script:
    """The model's replies for every role: planning, judging, recovery after a crash, and errands.

    The first request for an errand in `stuck_before` (before its note) or `stuck_after` (after it) is never answered. Requests for
    an errand in `gated` are answered once the gate is open.
    """

    def __init__(
        self,
        plans: Mapping[str, Sequence[Errand]],
        stuck_before: Iterable[str] = (),
        stuck_after: Iterable[str] = (),
        gated: Iterable[str] = (),
        decisions: Mapping[str, str] | None = None,
        replan: Callable[[dict[str, str]], Reply] | None = None,
    ) -> None:
        self.plans = plans
        self.stuck = {(name, 0) for name in stuck_before} | {(name, 1) for name in stuck_after}
        self.gated = set(gated)
        self.gate = threading.Event()
        self.waiting: list[str] = []  # errands whose requests are not answered yet
        self.decisions = decisions or {}  # for interrupted sub-goals; those not named are resumed
        self.replan = replan

    def __call__(self, request: Request) -> Reply:
        match request.tools:
            case ["submit_plan"]:
                return plan_reply(next(steps for goal, steps in self.plans.items() if goal in request.last))
            case ["submit_evaluation"]:
                return form_reply(request, divergence="none", reason="As expected.")
            case ["submit_verdict"]:
                return form_reply(request, met=True)
            case ["submit_resumption"]:
                return self.decide(request)
            case ["submit_replan"] if self.replan:
                return self.replan(get_sub_goal_ids(request))
        return self.run(request)

    def decide(self, request: Request) -> Reply:
        ids = {name: number for name, number in get_sub_goal_ids(request).items() if name in self.decisions}
        return form_reply(request, sub_goals=[{"id": number, "action": self.decisions[name]} for name, number in ids.items()])

    def run(self, request: Request) -> Reply:
        name = get_errand(request)
        stage = name, len(request.tool_results)
        if stage in self.stuck:
            self.stuck.remove(stage)
            self.waiting.append(name)
            return slow(FOREVER_S, text("Too late."))
        if name in self.gated and not self.gate.is_set():
            self.waiting.append(name)
            self.gate.wait(FOREVER_S)
        return errand_reply(request)


def reply(request: Request) -> Reply:
    return Script({GOAL: TEN})(request)


def plan_reply(errands: Sequence[Errand]) -> Reply:
    return calls(("submit_plan", {"sub_goals": [errand.as_json() for errand in errands]}), usage=USAGE)


def form_reply(request: Request, **answer: Any) -> Reply:
    (form,) = request.tools
    return calls((form, answer), usage=USAGE)


def get_sub_goal_ids(request: Request) -> dict[str, str]:
    """The ids of the sub-goals in the question, by errand."""
    return {name: number for number, name in NUMBERED.findall(request.last)}


def get_errand(request: Request) -> str:
    """The errand of this request. Only the agent's own task is on a line by itself."""
    (name,) = {name for message in request.texts for name in ERRAND.findall(message)}
    return str(name)


def errand_reply(request: Request) -> Reply:
    """Note the errand once. If the effect of the call is unknown, do not repeat it."""
    name = get_errand(request)
    if request.tool_results:
        return text(f"Saw to {name}.", usage=USAGE)
    return calls(("note", {"name": name}), usage=USAGE)


# The home folder


def make_home(home: Path) -> None:
    for folder, name, content in (
        ("tools", "own.py", OWN),
        ("agents", "index.toml", MAIN),
        ("agents", "researcher.toml", WORKER),
        ("", "prices.toml", PRICES),
    ):
        (home / folder).mkdir(parents=True, exist_ok=True)
        (home / folder / name).write_text(content)


def build_scenario(folder: Path, database_url: str) -> ProcessPlan:
    """A fresh home folder, and a tenant with a goal."""
    with DirectDatabase(database_url) as database:
        desk = TenantHarness(database, f"tenant {uuid4().hex}")
        return build_process_plan(folder, database_url, desk, [GOAL])


def build_process_plan(folder: Path, database_url: str, desk: TenantHarness, goals: Sequence[str]) -> ProcessPlan:
    make_home(folder / "home")
    return ProcessPlan(str(folder / "home"), database_url, desk.tenant.id, 0, goals=goals)


# The final state


def check_once(left: dict[str, Any], done: Counter[str], errands: Sequence[Errand] = TEN) -> None:
    """Check that the goal is completed, each errand ended once, and no unsafe effect happened twice."""
    (goal,) = left["goals"]
    assert (goal["status"], goal["plan_no"], goal["replan_count"]) == ("completed", 1, 0)
    names = [errand.name for errand in errands]
    assert [one["description"] for one in left["sub_goals"]] == [f"Note {name}." for name in names]
    assert {(one["status"], one["divergence"], one["interrupted"]) for one in left["sub_goals"]} == {("completed", "none", 0)}
    assert all(one["ended_at"] for one in left["sub_goals"])
    ids = sorted(one["id"] for one in left["sub_goals"])
    for kind in ("sub_goal_started", "sub_goal_ended", "evaluated"):
        assert sorted(entry["sub_goal_id"] for entry in list_entries(left, kind)) == ids, kind
    assert {entry["status"] for entry in list_entries(left, "sub_goal_ended")} == {"completed"}
    assert len(list_entries(left, "planned")) == len(list_entries(left, "completed")) == len(list_entries(left, "goal_set")) == 1
    certain = {json.loads(one["arguments"])["name"] for one in left["effects"] if one["state"] == "succeeded"}
    assert len(left["effects"]) == len(names)
    assert {one["state"] for one in left["effects"]} <= {"succeeded", "unknown"}
    assert certain <= set(done) <= set(names)
    assert set(done.values()) <= {1}


def check_journal(left: dict[str, Any]) -> None:
    """Check that journal and rows agree, and that no money is reserved and nothing is running."""
    (goal,) = left["goals"]
    assert [entry["n"] for entry in left["journal"]] == list(range(1, goal["journaled"] + 1))
    cycles = Counter(one["status"] for one in left["planning_cycles"])
    assert cycles["active"] == 0
    assert cycles["completed"] == 1
    assert cycles["interrupted"] <= len(list_entries(left, "interrupted")) == len(list_events(left, "recovered"))
    assert [one["kind"] for one in left["notices"]] == ["recovered"] * len(list_entries(left, "interrupted"))
    (pool,) = left["pools"]
    assert pool["reserved"] == 0
    assert pool["spent"] == sum(run["cost"] for run in left["runs"]) == sum(call["cost"] for call in left["model_calls"]) > 0
    assert {(run["status"], run["reserved"]) for run in left["runs"]} == {("completed", 0)}
    assert len(left["runs"]) == 1 + sum(one["mode"] == "agent" for one in left["sub_goals"])


def list_entries(left: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [json.loads(entry["data"]) for entry in left["journal"] if entry["kind"] == kind]


def list_events(left: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [json.loads(event["data"]) for event in left["events"] if event["kind"] == kind]


def count_notes(plan: ProcessPlan) -> Counter[str]:
    path = Path(plan.home) / "notes.txt"
    return Counter(path.read_text().split() if path.exists() else [])
