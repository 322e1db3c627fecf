"""Optional fields and alternative spellings of a plan, and plans cut off by the length limit."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.agents.loop.broken_answers import CONTINUE_PROMPT, MAX_PARTS
from tests.autonomy.goal_harness import Pursuit, by_part, evaluation_form, get_question, in_order, open_pursuit, plan, replan, step
from tests.model_server import Reply, call, calls, text
from tests.tables import each_row

DIG, FILL, RAKE = ({"description": words} for words in ("dig", "fill", "rake"))


def needs(pursuit: Pursuit) -> dict[str, list[str]]:
    """The dependencies of each sub-goal, by description."""
    descriptions = {sub_goal.id: sub_goal.description for sub_goal in pursuit.sub_goals()}
    return {sub_goal.description: [descriptions[below] for below in sub_goal.depends_on] for sub_goal in pursuit.sub_goals()}


CHAIN = {"dig": [], "fill": ["dig"], "rake": ["fill"]}
SPELLINGS: dict[str, list[dict[str, Any]]] = {
    "ids that are numbers": [
        {**DIG, "id": 7, "dependsOn": []},
        {**FILL, "id": 8, "dependsOn": [7]},
        {**RAKE, "id": 9, "dependsOn": [8], "priority": 3},
    ],
    "positions from one": [DIG, {**FILL, "dependsOn": [1]}, {**RAKE, "dependsOn": [2]}],
    "positions from zero": [{**DIG, "dependsOn": []}, {**FILL, "dependsOn": [0]}, {**RAKE, "dependsOn": ["1"]}],
    "descriptions": [DIG, {**FILL, "dependsOn": ["dig"]}, {**RAKE, "dependsOn": [" Fill"]}],
    "snake case": [DIG, {**FILL, "depends_on": ["1"]}, {**RAKE, "depends_on": ["2"]}],
}


@pytest.fixture
def pursuit(sqlite_url: str, tmp_path: Path) -> Iterator[Pursuit]:
    with open_pursuit(sqlite_url, tmp_path, text("")) as pursuit:
        yield pursuit


@each_row("name", SPELLINGS)
def test_a_sub_goal_needs_a_description_and_its_dependencies(pursuit: Pursuit, name: str) -> None:
    """004: "`description: text('description').notNull()`, `dependsOn: jsonb('depends_on').notNull().default([])`":
    everything else about a sub-goal has a default."""
    pursuit.start_over(by_part(plan=plan(*SPELLINGS[name])))
    pursuit.achieve()
    assert needs(pursuit) == CHAIN
    assert len(pursuit.list_requests("plan")) == 1
    dig = pursuit.sub_goal("dig")
    assert (dig.mode, dig.role, dig.kind, dig.urgency, dig.expected_value) == ("inline", "index", "work", 5, 0.5)
    assert "description asks for is done" in dig.expected_outcome


def test_the_schema_says_what_a_sub_goal_needs_and_a_title_is_enough(sqlite_url: str, tmp_path: Path) -> None:
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=plan({"title": "Dig a hole"}))) as pursuit:
        pursuit.achieve()
        assert [(sub_goal.title, sub_goal.description) for sub_goal in pursuit.sub_goals()] == [("Dig a hole", "Dig a hole")]
        (form,) = pursuit.list_requests("plan")[0].body["tools"]
        sub_goal = form["function"]["parameters"]["properties"]["sub_goals"]["items"]
        limits = {name: sub_goal["properties"][name] for name in ("priority", "expected_value")}
        assert sub_goal["required"] == ["description"]
        assert [(field["minimum"], field["maximum"], "ge" in field) for field in limits.values()] == [(1, 10, False), (0, 1, False)]


def test_null_means_that_a_field_is_absent(sqlite_url: str, tmp_path: Path) -> None:
    """004: "LLM assigns priority at decomposition time": a model that assigns none sends null."""
    nothing = dict.fromkeys(("id", "dependsOn", "expected_outcome", "priority", "kind", "mode", "role", "cost_limit_usd"))
    with open_pursuit(
        sqlite_url, tmp_path, by_part(plan=plan({**DIG, **nothing}, {**FILL, **nothing, "dependsOn": [1]}))
    ) as pursuit:
        pursuit.achieve()
        assert needs(pursuit) == {"dig": [], "fill": ["dig"]}


@pytest.mark.parametrize(
    "reply",
    [calls(("submit_plan", {"subGoals": [DIG, FILL]})), text(json.dumps({"subGoals": [DIG, FILL]})), text(json.dumps([DIG, FILL]))],
    ids=["camel case", "as text", "a bare list"],
)
def test_the_list_of_sub_goals_may_be_spelled_otherwise(sqlite_url: str, tmp_path: Path, reply: Reply) -> None:
    """004: "structured JSON decomposition response via `response_format: {type: 'json_schema'}`"."""
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=reply)) as pursuit:
        pursuit.achieve()
        assert pursuit.statuses() == {"dig": "completed", "fill": "completed"}
        assert len(pursuit.list_requests("plan")) == 1


def test_a_new_plan_may_be_as_short(sqlite_url: str, tmp_path: Path) -> None:
    """004: "When replanning triggers, the agent evaluates whether in-progress work is still useful under the new plan"."""
    again = replan(FILL, {**RAKE, "dependsOn": [1]}, newGoal=None)
    script = by_part(plan=plan(DIG), replan=again, evaluation=in_order(evaluation_form("major", "Too shallow."), evaluation_form()))
    with open_pursuit(sqlite_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        assert needs(pursuit) == {"dig": [], "fill": [], "rake": ["fill"]}


WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a cycle": (
        [{**DIG, "dependsOn": [2]}, {**FILL, "dependsOn": [1]}],
        "These depend on each other, so none could start: 1 → 2",
    ),
    "itself": ([{**DIG, "dependsOn": ["dig"]}], "These depend on each other"),
    "an unknown position": ([DIG, {**FILL, "dependsOn": [3]}], "2 depends on '3', which is unknown"),
    "an unknown description": ([DIG, {**FILL, "dependsOn": ["plough"]}], "2 depends on 'plough', which is unknown"),
    "no description": ([{"dependsOn": []}], "description of 1 is missing"),
    "an id that is a position as well": ([{**DIG, "id": 2}, FILL], "The id '2' occurs twice"),
}


@each_row("name", WRONG)
def test_a_plan_with_unreachable_sub_goals_is_sent_back(pursuit: Pursuit, name: str) -> None:
    """004: "JSONB: array of sub_goal IDs that must complete before this one"."""
    steps, complaint = WRONG[name]
    pursuit.start_over(by_part(plan=in_order(plan(*steps), plan(DIG))))
    pursuit.achieve()
    assert complaint in pursuit.list_requests("plan")[1].last


# Cut off by the length limit

WHOLE = json.dumps({"sub_goals": [step("dig"), step("fill", "dig")]})


def in_call(part: str, finish: str = "length") -> Reply:
    return calls(call("submit_plan", raw_arguments=part), finish=finish)


def cuts(pieces: int) -> list[str]:
    size = len(WHOLE) // pieces + 1
    return [WHOLE[start : start + size] for start in range(0, len(WHOLE), size)]


FIRST, SECOND = cuts(2)
PRIORITY = json.dumps({"sub_goals": [step("dig", priority=9), step("fill", "dig")]}).split("9")
CONTINUED: dict[str, list[Reply]] = {
    "a call and text": [in_call(FIRST), text(SECOND)],
    "two calls": [in_call(FIRST), in_call(SECOND, "tool_calls")],
    "text": [text(FIRST, finish="length"), text(SECOND)],
    "text with words around it": [text(f"Here it is: {FIRST}", finish="length"), text(f"{SECOND}\nGood luck!")],
    "a fence": [in_call(FIRST), text(f"```json\n{SECOND}\n```")],
    "a part that is JSON by itself": [in_call(PRIORITY[0]), text("9", finish="length"), text(PRIORITY[1])],
    "three parts": [*(in_call(part) for part in cuts(3)[:2]), text(cuts(3)[2])],
    "five parts": [in_call(cuts(5)[0]), *(text(part, finish="length") for part in cuts(5)[1:4]), text(cuts(5)[4])],
    "started over, whole": [in_call(FIRST), in_call(WHOLE, "tool_calls")],
    "started over, cut off again": [in_call(FIRST[:60]), in_call(FIRST), text(SECOND)],
    "nothing worth keeping": [in_call("{"), in_call(WHOLE, "tool_calls")],
}


@each_row("name", CONTINUED)
def test_a_plan_that_was_cut_off_arrives_whole(pursuit: Pursuit, name: str) -> None:
    """004: "Explicitly handle all `finish_reason` values: … `'length'`": the parts of a structured result are joined."""
    replies = CONTINUED[name]
    pursuit.start_over(by_part(plan=in_order(*replies)))
    pursuit.achieve()
    assert needs(pursuit) == {"dig": [], "fill": ["dig"]}
    requests = pursuit.list_requests("plan")
    assert len(requests) == len(replies)
    assert [request.last for request in requests[1:]] == [CONTINUE_PROMPT] * (len(replies) - 1)
    assert all(request.calls == [] for request in requests), "a call that was cut off is no call to be answered"
    assert get_question(requests[-1]) == get_question(requests[0])


def test_every_part_is_paid_for(database_url: str, tmp_path: Path) -> None:
    """004: "All agents draw from a shared cost pool"."""
    first = calls(call("submit_plan", raw_arguments=FIRST), finish="length", usage=(3, 2))
    with open_pursuit(database_url, tmp_path, by_part(plan=in_order(first, text(SECOND, usage=(4, 1))))) as pursuit:
        pursuit.achieve()
        sql = "SELECT input_tokens, output_tokens FROM model_calls WHERE tenant_id = ? ORDER BY id"
        assert pursuit.database.read(lambda tx: tx.all(sql, pursuit.tenant_id))[:2] == [(3, 2), (4, 1)]


def test_a_plan_in_too_many_parts_is_asked_for_again_and_shorter(sqlite_url: str, tmp_path: Path) -> None:
    """004: "the loop hangs or crashes" without a bound."""
    endless = [
        in_call('{"sub_goals": ['),
        *(text(f"{json.dumps(step(f's{n}'))}, ", finish="length") for n in range(MAX_PARTS - 1)),
    ]
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=in_order(*endless, plan(step("dig"))))) as pursuit:
        pursuit.achieve()
        requests = pursuit.list_requests("plan")
        assert len(requests) == MAX_PARTS + 1
        assert "did not arrive in full (length). Make it shorter" in requests[-1].last
        assert pursuit.statuses() == {"dig": "completed"}


def test_a_joined_plan_that_is_wrong_is_sent_back_as_a_whole(sqlite_url: str, tmp_path: Path) -> None:
    """004: "Agent … decomposes them into sub-goals with dependencies": a plan that arrives in parts is checked too."""
    wrong = json.dumps({"sub_goals": [step("dig", "plough")]})
    script = in_order(in_call(wrong[:40]), text(wrong[40:]), plan(step("dig")))
    with open_pursuit(sqlite_url, tmp_path, by_part(plan=script)) as pursuit:
        pursuit.achieve()
        assert "'plough', which is unknown" in pursuit.list_requests("plan")[-1].last
        assert wrong in pursuit.list_requests("plan")[-1].texts


def test_a_judgement_that_was_cut_off_arrives_whole(sqlite_url: str, tmp_path: Path) -> None:
    """004: "LLM evaluation pass using cheap tier"."""
    document = json.dumps({"divergence": "minor", "reason": "It is not quite deep enough."})
    first = calls(call("submit_evaluation", raw_arguments=document[:30]), finish="length")
    with open_pursuit(
        sqlite_url, tmp_path, by_part(plan=plan(step("dig")), evaluation=in_order(first, text(document[30:])))
    ) as pursuit:
        pursuit.achieve()
        dig = pursuit.sub_goal("dig")
        assert (dig.divergence, dig.divergence_reason) == ("minor", "It is not quite deep enough.")
