"""/v1/goals: changing a goal, running it again, its plans, and finding goals among many."""

from typing import Any

from headway.actions.access import audit
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal, apply_plan
from headway.actions.runs import inbox
from headway.ledger.goal import Goal, PlannedStep
from headway.storage.stores import goals as goal_store
from headway.storage.transaction import Transaction
from tests.goal_plans import end, evaluate, get_main_run
from tests.surfaces.server_harness import Client
from tests.surfaces.test_http_goals import add_paused_goal, goal_path, list_journal_kinds

FAR = 4_000_000_000


def plan_step(key: str, title: str = "", *depends_on: str) -> PlannedStep:
    return PlannedStep(key, f"{key} it", "done", "work", "inline", "index", 5, 0.5, 0, depends_on, title=title)


def add_replanned_goal(client: Client) -> Goal:
    """A paused goal whose first plan was replaced after its first sub-goal diverged."""

    def work(tx: Transaction, tenant_id: int) -> Goal:
        goal = goals.add_goal(tx, tenant_id, NewGoal("reach it"))
        goal = apply_plan(tx, goal, [plan_step("go", "Go"), plan_step("arrive", "Arrive", "go")], "")
        go, arrive = goal_store.list_sub_goals(tx, tenant_id, goal.id)
        end(tx, goal, go.id)
        evaluate(tx, goal, go.id, "major", "The wrong way.")
        steps = [plan_step("ask", "Ask the way"), plan_step(f"#{arrive.id}", "", "ask")]
        apply_plan(tx, goals.get_goal(tx, tenant_id, goal.id), steps, "The wrong way.")
        return goals.pause(tx, tenant_id, goal.id)

    return client.desk.write(work)


def test_limits_and_texts_are_changed_and_recorded(client: Client) -> None:
    goal = add_paused_goal(client, "reach it")
    change = {
        "priority": 3,
        "budget_usd": 2.5,
        "deadline": FAR,
        "description": "reach it soon",
        "success_criteria": "It is reached.",
    }
    after = client.ok("PATCH", goal_path(goal), json=change)["goal"]
    assert {name: after[name] for name in change} == change
    assert after["status"] == "paused", "a goal that a person paused stays paused"
    entry = client.ok("GET", goal_path(goal, "journal"))["entries"][-1]
    assert entry["kind"] == "edited"
    assert entry["data"]["fields"] == ["description", "success criteria", "priority", "budget", "deadline"]
    assert entry["data"]["new"]["budget"] == 2.5
    recorded = client.desk.read(audit.list_audit_entries)["entries"][0]
    assert (recorded["action"], recorded["target"], recorded["new"]["priority"]) == ("goal.edit", f"goal:{goal.id}", 3)
    removed = client.ok("PATCH", goal_path(goal), json={"budget_usd": None, "deadline": None, "priority": None})["goal"]
    assert (removed["budget_usd"], removed["deadline"], removed["priority"]) == (None, 0, 3)
    entries = len(list_journal_kinds(client, goal))
    client.ok("PATCH", goal_path(goal), json={"priority": 3})
    assert len(list_journal_kinds(client, goal)) == entries, "nothing changed"


def test_bad_changes_change_nothing(client: Client) -> None:
    goal = add_paused_goal(client)
    before = client.ok("GET", goal_path(goal))
    bad: list[dict[str, Any]] = [
        {"priority": -1},
        {"priority": 1_001},
        {"budget_usd": 0},
        {"budget_usd": -1},
        {"budget_usd": "1"},
        {"deadline": 1},
        {"deadline": 10**15},
        {"description": "  "},
        {"description": "x" * 10_001},
        {"status": "completed"},
        {"source": "agent-discovered"},
    ]
    for change in bad:
        client.refused("PATCH", goal_path(goal), 422, "invalid", json=change)
    assert client.ok("GET", goal_path(goal)) == before
    client.ok("POST", goal_path(goal, "abandon"))
    assert "Run it again" in client.refused("PATCH", goal_path(goal), 409, "conflict", json={"priority": 1})


def test_an_ended_goal_is_run_again_once_per_key(client: Client) -> None:
    goal = add_paused_goal(client, "reach it", success_criteria="It is reached.", priority=7, budget=2_000_000_000)
    assert "when it has ended" in client.refused("POST", goal_path(goal, "run-again"), 409, "conflict")
    client.ok("PATCH", goal_path(goal), json={"deadline": FAR})
    client.ok("POST", goal_path(goal, "abandon"))
    answers = [client.request("POST", goal_path(goal, "run-again"), headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    again, same = (answer.json()["goal"] for answer in answers)
    assert again["id"] == same["id"] != goal.id
    assert again["repeat_of"] == goal.id
    copied = ("description", "success_criteria", "priority", "budget_usd")
    assert [again[name] for name in copied] == ["reach it", "It is reached.", 7, 2.0]
    assert again["deadline"] >= FAR, "it has as much time as the first one had"
    assert list_journal_kinds(client, goal)[-1] == "repeated"


def test_plans_are_listed_with_what_they_changed(client: Client) -> None:
    goal = add_replanned_goal(client)
    page = client.ok("GET", f"{goal_path(goal, 'plans')}?limit=1")
    (second,) = page["plans"]
    assert page["next_cursor"]
    rest = client.ok("GET", f"{goal_path(goal, 'plans')}?limit=1&cursor={page['next_cursor']}")
    assert [(plan["plan"], plan["in_force"], plan["total"]) for plan in rest["plans"]] == [(1, False, 2)]
    assert rest["next_cursor"] is None
    assert (second["plan"], second["in_force"], second["reason"]) == (2, True, "The wrong way.")
    assert [(member["title"], member["divergence"]) for member in second["removed"]] == [("Go", "major")]
    assert [member["title"] for member in second["added"]] == ["Ask the way"]
    assert [member["title"] for member in second["changed"]] == ["Arrive"]
    assert (second["total"], second["done"]) == (2, 0)
    detail = client.ok("GET", goal_path(goal))["goal"]
    assert (detail["progress"]["in_plan"], detail["progress"]["done"], detail["progress"]["completed"]) == (2, 0, 1)
    assert {row["title"]: (row["plan_no"], row["superseded_by"]) for row in detail["sub_goals"]} == {
        "Go": (1, 2),
        "Arrive": (1, None),
        "Ask the way": (2, None),
    }


def escalate(client: Client, goal: Goal, reason: str = "No way forward.") -> None:
    client.desk.write(lambda tx, tenant_id: goals.escalate(tx, goals.get_goal(tx, tenant_id, goal.id), "escalation", reason))


def list_ids(client: Client, **query: Any) -> list[int]:
    """The ids on all pages of a list, two goals at a time."""
    ids: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.ok("GET", "/v1/goals", params={"limit": 2, **query, **cursor})
        ids += [goal["id"] for goal in page["goals"]]
        if not page["next_cursor"]:
            return ids
        cursor = {"cursor": page["next_cursor"]}


def test_goals_are_searched_sorted_and_paged(client: Client) -> None:
    late, soon, plain, pond = (
        add_paused_goal(client, words, **fields).id
        for words, fields in (
            ("Plant the GARDEN", {"priority": 9, "deadline_at": FAR * 1000 + 5_000}),
            ("Weed the garden", {"priority": 1, "deadline_at": FAR * 1000}),
            ("Water the Gärten 100%", {"priority": 9, "success_criteria": "All is wet."}),
            ("Dig a pond", {"priority": 50}),
        )
    )
    assert list_ids(client) == [pond, plain, soon, late]
    assert list_ids(client, sort="priority") == [soon, plain, late, pond]
    assert list_ids(client, sort="deadline") == [soon, late, pond, plain]
    client.ok("PATCH", goal_path(late), json={"priority": 8})
    assert list_ids(client, sort="updated")[0] in (late, pond), "the last change may be in the same moment"
    assert list_ids(client, q="garden") == [soon, late]
    assert list_ids(client, q="the garden weed") == [soon]
    assert list_ids(client, q="GÄRTEN") == list_ids(client, q="wet") == list_ids(client, q="100%") == [plain]
    assert list_ids(client, q=f"#{pond}", sort="priority") == [pond]
    assert list_ids(client, q="100_") == []
    client.ok("POST", goal_path(soon, "abandon"))
    assert list_ids(client, q="garden", status="paused") == [late]
    assert list_ids(client, sort="deadline") == [late, pond, plain, soon], "an ended goal has no deadline"
    for bad in ({"sort": "cost"}, {"waiting": "perhaps"}, {"q": "x" * 1_001}):
        client.refused("GET", "/v1/goals", 422, "invalid", params=bad)
    client.refused("GET", "/v1/goals", 422, "bad_cursor", params={"sort": "priority", "cursor": "x"})


def test_a_goal_that_waits_for_a_person_is_found_until_it_is_handled(client: Client) -> None:
    paused, stuck, asking = add_paused_goal(client), add_paused_goal(client, "get unstuck"), add_paused_goal(client, "ask someone")
    escalate(client, stuck)
    question = client.desk.write(
        lambda tx, tenant_id: inbox.ask(tx, get_main_run(tx, goals.get_goal(tx, tenant_id, asking.id)), "Which way?")
    )
    waiting = client.ok("GET", "/v1/goals?waiting=true")["goals"]
    assert [(goal["id"], goal["needs_decision"], goal["waiting_for"]) for goal in waiting] == [
        (asking.id, False, {"kind": "question", "id": question.id}),
        (stuck.id, True, None),
    ]
    assert not client.ok("GET", goal_path(paused))["goal"]["needs_decision"], "a person paused it"

    client.ok("POST", f"/v1/questions/{question.id}", json={"answer": "left"})
    client.ok("POST", goal_path(stuck, "decision"), json={"action": "abandon"})
    assert client.ok("GET", "/v1/goals?waiting=true")["goals"] == []
