"""Text from people, models and tools cannot forge the frames that the runtime puts around a goal."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import runs
from headway.agents.instructions.prompts import CHECK_IN_PREFIX
from headway.autonomy import recovery
from headway.storage.stores import goals as goal_store
from headway.storage.transaction import Transaction
from tests.autonomy.goal_harness import (
    Gate,
    Pursuit,
    agent,
    by_part,
    by_transcript,
    evaluation_form,
    failure,
    get_part,
    get_question,
    in_order,
    intervention,
    open_pursuit,
    plan,
    replan,
    step,
    verdict,
)
from tests.forgeries import BREAKS, PAYLOADS, check_nothing_changed, list_edges
from tests.model_server import Reply, Request, calls, text
from tests.proofs import Proof

HARMLESS = "look"
OF_WORK = (("[GOALCONTEXT", "[ENDGOAL"), ("[DELEGATIONCONTEXT", "[ENDDELEGATION"))
OF_QUESTIONS = ("[GOAL]", "[ENDGOAL")
STRIDE = 51  # over as many seeds as there are payloads, every payload reaches every position once
OVERSIGHT: dict[str, Any] = {"check_in_s": "0.1", "subagent_max_iterations": "30"}
WRONG = calls(("no_such_tool", {}))
HALF_DONE = re.compile(r"- (#\d+) \[in-progress")

Words = Callable[[], str]


def make_payloads(seed: int) -> Words:
    places = count(seed * STRIDE)
    return lambda: PAYLOADS[next(places) % len(PAYLOADS)]


def frames(request: Request) -> tuple[str, ...]:
    inputs = [message for message in request.messages if message["role"] not in ("system", "developer", "assistant")]
    return tuple(edge for message in inputs for edge in list_edges(str(message["content"])))


def shapes(pursuit: Pursuit) -> set[tuple[Any, ...]]:
    """The role, frames and line counts of every request. Tasks and goals may have any length; every other field is one line."""
    seen = set()
    for request in pursuit.server.requests:
        part, words = get_part(request), get_question(request)
        checked = tuple(len(BREAKS.split(words)) for words in request.texts if words.startswith(CHECK_IN_PREFIX))
        seen.add((part, frames(request), checked, len(BREAKS.split(words.partition("[END GOAL]")[2])) if part != "work" else 0))
    return seen


def check_same_shapes(actual: set[tuple[Any, ...]], expected: set[tuple[Any, ...]], seed: int) -> None:
    assert (actual - expected, expected - actual) == (set(), set()), f"payloads after {seed * STRIDE}"


@pytest.mark.proof
@pytest.mark.parametrize("tell", ["planned", "overseen"])
def test_no_prompt_has_more_frames_or_lines_than_its_own(sqlite_url: str, tmp_path: Path, proof: Proof, tell: str) -> None:
    run_goal = {"planned": run_planned, "overseen": run_overseen}[tell]
    expected = run_goal(sqlite_url, tmp_path, lambda: HARMLESS)
    assert {shape[1] for shape in expected} == {OF_QUESTIONS, *OF_WORK}
    for seed in proof.seeds(f"forged frames through the paths of a goal that is {tell}", share=1, whole=len(PAYLOADS)):
        (tmp_path / str(seed)).mkdir()
        check_same_shapes(run_goal(f"{sqlite_url}{seed}", tmp_path / str(seed), make_payloads(seed)), expected, seed)


def run_planned(url: str, folder: Path, words: Words) -> set[tuple[Any, ...]]:
    """Run a goal whose plan is rejected once, then evaluated and replaced twice. Plans and outcomes are cut off in the middle."""
    hostile = {"summary": words(), "data": {words(): [words()]}}
    script = by_part(
        by_transcript(*cut_off(calls(("report_outcome", hostile)))),
        plan=in_order(
            plan({**step("a"), "id": f"a {words()}", "depends_on": [f"x {words()}"]}),
            *cut_off(
                plan(
                    {**step("a"), "description": words(), "expected_outcome": words(), "kind": words()[:60]},
                    {**agent("b", "a"), "description": f"b {words()}", "expected_outcome": words()},
                    {**step("c", "b"), "description": f"c {words()}"},
                )
            ),
        ),
        replan=in_order(
            replan({**step("d"), "description": f"d {words()}"}, reason=words(), new_goal=words()),
            replan({**agent("e"), "description": f"e {words()}"}),
        ),
        evaluation=in_order(
            evaluation_form("minor", words()), evaluation_form("none"), evaluation_form("major", words()), evaluation_form()
        ),
        verdict=in_order(verdict(words()), verdict()),
    )
    with open_pursuit(url, folder, script) as pursuit:
        pursuit.achieve(words(), success_criteria=words())
        assert pursuit.goal().replan_count == 2
        check_nothing_changed(pursuit.database)
        return shapes(pursuit)


def cut_off(reply: Reply) -> tuple[Reply, Reply]:
    """Split a call in two: its truncated arguments, and the rest as text."""
    (whole,) = reply.calls
    middle = len(whole.arguments) // 2
    first = whole._replace(arguments=whole.arguments[:middle])
    return replace(reply, calls=(first,), finish="length"), text(whole.arguments[middle:])


class Overseen:
    """Plays every role in a goal that needs intervention. Its only agent makes no progress, gets a message, gets another task and
    fails. The planner finds no new plan until the operator adds a note. Then the process is interrupted."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.agents, self.steps = 0, count()  # the number of agents, and the requests of the newest one
        self.replans = count()
        self.interventions = count()
        self.messaged, self.rescoped, self.resumed = Gate(), Gate(), Gate()

    def __call__(self, request: Request) -> Reply:
        words = self.words
        match get_part(request):
            case "plan":
                return plan({**agent("a"), "description": words(), "expected_outcome": words(), "kind": words()[:60]})
            case "intervention":
                return intervention("rescope" if next(self.interventions) else "message", words())
            case "replan":
                place = next(self.replans)
                new = agent("d") if place == 3 else step("e")
                new_plan = replan({**new, "description": f"{new['id']} {words()}", "expected_outcome": words()}, reason=words())
                return replan(reason=words()) if place < 3 else new_plan  # an empty plan is rejected
            case "resumption":
                halves = HALF_DONE.findall(get_question(request))
                return calls(
                    ("submit_resumption", {"sub_goals": [{"id": key, "action": "replan", "reason": words()} for key in halves]})
                )
            case "work":
                return self.work(request)
            case "verdict":
                return verdict()
        return evaluation_form("none", words())

    def work(self, request: Request) -> Reply:
        if not request.assistant_turns:
            self.agents, self.steps = self.agents + 1, count()
        match self.agents, next(self.steps):
            case 1, 5:
                return self.messaged.before(WRONG)(request)
            case 1, 10:
                return self.rescoped.before(WRONG)(request)
            case 1, _:
                return WRONG
            case 2, _:
                return failure(self.words())
            case 3, _:
                return self.resumed.before(text("Too late."))(request)
        return calls(("report_outcome", {"summary": self.words()}))


def run_overseen(url: str, folder: Path, words: Words) -> set[tuple[Any, ...]]:
    script = Overseen(words)
    with open_pursuit(url, folder, script, **OVERSIGHT) as pursuit:
        new = NewGoal(words(), words())
        pursuit.goal_id = pursuit.act(goals.add_goal, new, pursuit.headway.settings.limits, "agent-discovered", words()).id
        pursuit.until(lambda: pursuit.journal("intervened"))
        script.messaged.open()
        pursuit.until(lambda: len(pursuit.journal("intervened")) == 2)
        script.rescoped.open()
        pursuit.wait_until_paused()
        pursuit.decide("replan", words())
        pursuit.until(lambda: script.agents == 3)
        pursuit.act(interrupt, pursuit.goal_id)
        pursuit.until(lambda: pursuit.journal("recovered"))
        script.resumed.open()
        assert pursuit.wait_until_ended().status == "completed"
        check_nothing_changed(pursuit.database)
        return shapes(pursuit)


def interrupt(tx: Transaction, tenant_id: int, goal_id: int) -> None:
    """Mark the goal as a takeover from a killed process would."""
    at_work = [sub_goal for sub_goal in goal_store.list_sub_goals(tx, tenant_id, goal_id) if sub_goal.status == "in-progress"]
    recovery.mark_interrupted(
        tx, goals.get_goal(tx, tenant_id, goal_id), [runs.get_run(tx, tenant_id, sub_goal.run_id or "") for sub_goal in at_work]
    )


def test_outcomes_of_any_length_reach_the_dependants(sqlite_url: str, tmp_path: Path) -> None:
    long = calls(("report_outcome", {"summary": "x" * 60_000, "data": ["y" * 60_000]}))
    steps = [step(f"s{n}") for n in range(4)]
    names = [f"s{n}" for n in range(4)]
    work = dict.fromkeys(names, long)
    with open_pursuit(
        sqlite_url, tmp_path, by_part(work, plan=plan(*steps, agent("last", *names), step("end", *names)))
    ) as pursuit:
        pursuit.achieve()
        assert all(len(request.body["messages"][-1]["content"]) < 60_000 for request in pursuit.list_requests("evaluation"))
        assert max(len(str(request.messages)) for request in pursuit.list_requests("work")) < 100_000
