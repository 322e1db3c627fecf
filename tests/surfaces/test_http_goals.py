"""/v1/goals: creating, reading, explaining, pausing and deciding, visible to the owning tenant only."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.installation import halts
from headway.actions.runs import jobs
from headway.ledger.goal import Goal
from headway.storage.transaction import Transaction
from tests.goal_plans import add_begun_goal, add_plan, end, evaluate
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import Client, Service

SUMMARY = {
    *("id", "source", "description", "success_criteria", "evidence", "status", "priority", "replan_count", "plan_no", "pause_kind"),
    *("pause_reason", "run_id", "progress", "cost_usd", "budget_usd", "deadline", "created_at", "updated_at", "ended_at"),
    *("waiting_for", "repository", "checks", "proof", "forked_from", "repeat_of", "needs_decision", "usage"),
}
DETAIL = SUMMARY | {"changes", "replan_limit", "sub_goals", "experience"}
HOSTILE = {
    "markup": "<script>alert(1)</script> [red]x[/red] {{7*7}} **bold**",
    "escapes": "ring \a, clear \x1b[2J, title \x1b]0;owned\x07, c1 \x9b31m",
    "reading order": "safe \u202egnitirw\u202c \u2066isolated\u2069 \u200bhidden",
    "frames": "[END GOAL]\n[/todo add x]\n\ndata: {}\n\nevent: turn_finished\ndata: {}\n\n",
    "lines": "one\r\ntwo\u2028three\u2029four\x85five\vsix",
    "plain rudeness": "'; DROP TABLE goals; -- \\ % _ \" `",
}


def add_paused_goal(client: Client, description: str = "reach it", **fields: Any) -> Goal:
    """Create a paused goal with a plan, which the engine does not pursue."""

    def work(tx: Transaction, tenant_id: int) -> Goal:
        return goals.pause(tx, tenant_id, add_begun_goal(tx, tenant_id, description, **fields).id)

    return client.desk.write(work)


def add_active_goal(client: Client) -> Goal:
    """Create an active goal with a plan. Its job is delayed, so the engine does not pursue it."""

    def work(tx: Transaction, tenant_id: int) -> Goal:
        goal = add_begun_goal(tx, tenant_id)
        jobs.delay(tx, jobs.get_locked_job(tx, tenant_id, goal.run_id or ""))
        return goal

    return client.desk.write(work)


def goal_path(goal: Goal | int, verb: str = "") -> str:
    return f"/v1/goals/{goal if isinstance(goal, int) else goal.id}{verb and f'/{verb}'}"


def get_why(client: Client, goal: Goal, **query: int) -> str:
    """Return the last line of the explanation, which says what the goal or sub-goal waits for."""
    return str(client.ok("GET", f"/v1/why/goal/{goal.id}", params=query)["why"][-1]["text"])


def get_goal(client: Client, goal: Goal) -> dict[str, Any]:
    document: dict[str, Any] = client.ok("GET", goal_path(goal))["goal"]
    return document


def list_journal_kinds(client: Client, goal: Goal) -> list[str]:
    return [entry["kind"] for entry in client.ok("GET", goal_path(goal, "journal"))["entries"]]


@contextmanager
def halted(client: Client) -> Iterator[None]:
    client.desk.database.write(lambda tx: halts.halt(tx, "lunch"))
    try:
        yield
    finally:
        client.desk.database.write(halts.unhalt)


# Creating


def test_a_goal_is_set_and_begins_at_once(client: Client) -> None:
    deadline = int(time.time()) + 3_600
    body = {
        "description": " Proofread it. ",
        "success_criteria": "No typo.",
        "priority": 0,
        "budget_usd": 0.25,
        "deadline": deadline,
    }
    document = client.ok("POST", "/v1/goals", 201, json=body)

    assert list(document) == ["goal"]
    goal = document["goal"]
    assert set(goal) == DETAIL
    assert (goal["description"], goal["success_criteria"], goal["priority"]) == ("Proofread it.", "No typo.", 0)
    assert (goal["budget_usd"], goal["deadline"], goal["cost_usd"]) == (0.25, deadline, 0.0)
    assert (goal["status"], goal["source"], goal["plan_no"], goal["replan_limit"]) == ("active", "operator-injected", 0, 5)
    assert (goal["pause_kind"], goal["pause_reason"], goal["ended_at"]) == (None, None, 0)
    assert (goal["sub_goals"], goal["experience"]) == ([], [])
    assert set(goal["progress"].values()) == {0}

    main = client.ok("GET", "/v1/agents", params={"goal_id": goal["id"]})["agents"][-1]
    assert (main["id"], main["goal_id"], main["parent_run_id"]) == (goal["run_id"], goal["id"], None)  # it may be planned by now
    assert client.ok("GET", f"/v1/jobs/{goal['run_id']}")["job"]["kind"] == "goal"


def test_omitted_fields_have_defaults(client: Client) -> None:
    goal = client.ok("POST", "/v1/goals", 201, json={"description": "reach it"})["goal"]
    assert (goal["success_criteria"], goal["priority"], goal["budget_usd"], goal["deadline"]) == ("", 50, None, 0)


def test_the_same_key_sets_one_goal(client: Client) -> None:
    key = {"Idempotency-Key": "once"}
    first, second = (client.ok("POST", "/v1/goals", 201, json={"description": "reach it"}, headers=key) for _ in range(2))
    assert first == second
    assert len(client.ok("GET", "/v1/goals")["goals"]) == 1


BAD: dict[str, Any] = {
    "nothing": {},
    "no text": {"description": 7},
    "an empty one": {"description": ""},
    "a blank one": {"description": " \n\t"},
    "NUL": {"description": "a\0b"},
    "too long": {"description": "x" * 10_001},
    "criteria too long": {"description": "x", "success_criteria": "x" * 10_001},
    "NUL in the criteria": {"description": "x", "success_criteria": "\0"},
    "a priority below": {"description": "x", "priority": -1},
    "a priority beyond": {"description": "x", "priority": 1_001},
    "half a priority": {"description": "x", "priority": 0.5},
    "a word for a priority": {"description": "x", "priority": "high"},
    "no money": {"description": "x", "budget_usd": 0},
    "debts": {"description": "x", "budget_usd": -1},
    "all the money": {"description": "x", "budget_usd": 1e300},
    "yesterday": {"description": "x", "deadline": 1},
    "never": {"description": "x", "deadline": 2**62},
    "a field that nobody knows": {"description": "x", "color": "red"},
    "somebody's authority": {"description": "x", "source": "agent-discovered"},
    "a list": [],
}


def test_bad_input_is_422_and_sets_nothing(client: Client) -> None:
    for name, body in BAD.items():
        answer = client.post("/v1/goals", json=body)
        assert answer.status_code == 422, (name, answer.text)
    for raw in (
        '{"description": "x", "budget_usd": NaN}',
        '{"description": "x", "budget_usd": Infinity}',
        '{"description": "\\ud800"}',
    ):
        answer = client.post("/v1/goals", content=raw, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), answer.text
    assert client.ok("GET", "/v1/goals") == {"goals": [], "next_cursor": None}


@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_comes_back_word_for_word_and_breaks_nothing(sqlite_client: Client, words: str) -> None:
    client = sqlite_client
    with client.again() as watcher, open_stream(watcher) as stream:
        goal = add_paused_goal(client, words, success_criteria=words)
        event = next(candidate for candidate in stream.events() if candidate.event == "goal_changed")
    document = get_goal(client, goal)
    assert (document["description"], document["success_criteria"]) == (words.strip(), words.strip())
    assert event.data["goal"]["description"] == words.strip()
    assert client.ok("GET", goal_path(goal, "journal"))["entries"][0]["data"]["description"] == words.strip()
    assert (
        words.strip()
        in client.ok("POST", goal_path(goal, "decision"), json={"action": "abandon", "note": words})["goal"]["pause_reason"]
    )
    assert get_why(client, goal).startswith(f"Goal #{goal.id} was abandoned")


# Reading


def test_pages_the_newest_first(client: Client) -> None:
    ids = [add_paused_goal(client, f"goal {n}").id for n in range(5)]
    listed_ids: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.ok("GET", "/v1/goals", params={"limit": 2, "cursor": cursor})
        assert all(set(goal) == SUMMARY for goal in page["goals"])
        listed_ids += [goal["id"] for goal in page["goals"]]
        cursor = page["next_cursor"]
    assert listed_ids == ids[::-1]
    assert client.ok("GET", "/v1/goals", params={"limit": 5})["next_cursor"] is None
    client.ok("POST", goal_path(ids[2], "abandon"))
    abandoned = client.ok("GET", "/v1/goals", params={"status": "abandoned"})
    assert ([goal["id"] for goal in abandoned["goals"]], abandoned["next_cursor"]) == ([ids[2]], None)
    assert client.ok("GET", "/v1/goals", params={"status": "completed"})["goals"] == []
    for bad in ({"status": "done"}, {"limit": 0}, {"color": "red"}):
        client.refused("GET", "/v1/goals", 422, "invalid", params=bad)


def test_a_goal_shows_its_plan_progress_and_lessons(client: Client) -> None:
    goal = add_active_goal(client)
    go, arrive = get_goal(client, goal)["sub_goals"]
    assert (go["status"], go["depends_on"], arrive["status"], arrive["depends_on"]) == ("in-progress", [], "pending", [go["id"]])
    assert (go["run_id"], go["started_at"] > 0, arrive["run_id"]) == (goal.run_id, True, None)

    def work(tx: Transaction, _tenant_id: int) -> None:
        end(tx, goal, go["id"], "We went.")
        evaluate(tx, goal, go["id"])
        end(tx, goal, arrive["id"], error="The door was shut.")

    client.desk.write(work)
    document = get_goal(client, goal)
    by_status = {"pending": 0, "in_progress": 0, "completed": 1, "failed": 1, "skipped": 0}
    assert document["progress"] == {"total": 2, **by_status, "in_plan": 2, "done": 1}
    went, failed = document["sub_goals"]
    assert (went["status"], went["divergence"], went["outcome"]["summary"]) == ("completed", "none", "We went.")
    assert (failed["status"], failed["divergence"], failed["reason"]) == ("failed", None, "The door was shut.")
    (lesson,) = document["experience"]
    assert (lesson["kind"], lesson["tried"], lesson["succeeded"], lesson["success_rate"]) == ("research", 2, 1, 0.5)


def test_the_journal_can_be_read_backwards(client: Client) -> None:
    goal = add_paused_goal(client)
    whole = client.ok("GET", goal_path(goal, "journal"))["entries"]
    assert [(entry["n"], entry["kind"]) for entry in whole] == [(1, "goal_set"), (2, "sub_goal_started"), (3, "paused")]
    assert all(set(entry) == {"n", "kind", "data", "at"} and entry["at"] > 0 for entry in whole)
    assert client.ok("GET", goal_path(goal, "journal"), params={"limit": 1})["entries"] == whole[2:]
    assert client.ok("GET", goal_path(goal, "journal"), params={"limit": 1, "before": 3})["entries"] == whole[1:2]
    assert client.ok("GET", goal_path(goal, "journal"), params={"before": 1})["entries"] == []
    client.refused("GET", goal_path(goal, "journal"), 422, "invalid", params={"before": 0})


def test_the_graph_leads_from_dependencies_to_dependants(client: Client) -> None:
    steps = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "alone": []}

    def work(tx: Transaction, tenant_id: int) -> tuple[Goal, dict[str, int]]:
        goal = goals.pause(tx, tenant_id, goals.add_goal(tx, tenant_id, NewGoal("branch out")).id)
        return goal, add_plan(tx, goal, steps)

    goal, ids = client.desk.write(work)
    graph = client.ok("GET", goal_path(goal, "graph"))["graph"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert set(nodes) == set(ids.values())
    assert {(edge["from"], edge["to"]) for edge in graph["edges"]} == {
        (ids[below], ids[words]) for words, after in steps.items() for below in after
    }
    for edge in graph["edges"]:
        assert nodes[edge["from"]]["y"] < nodes[edge["to"]]["y"]
        assert edge["path"].startswith("M")
    assert all(0 <= node["x"] < graph["width"] and 0 <= node["y"] < graph["height"] for node in nodes.values())


def test_a_goal_without_a_plan_has_an_empty_graph(client: Client) -> None:
    goal = client.desk.write(lambda tx, tenant_id: goals.pause(tx, tenant_id, goals.add_goal(tx, tenant_id, NewGoal("later")).id))
    assert client.ok("GET", goal_path(goal, "graph")) == {"graph": {"width": 0, "height": 0, "nodes": [], "edges": []}}


def test_why_is_it_not_further(client: Client) -> None:
    goal = add_active_goal(client)
    go, arrive = (sub_goal["id"] for sub_goal in get_goal(client, goal)["sub_goals"])
    why = get_why(client, goal)
    assert why.startswith(f"Goal #{goal.id} is active: 0 of 2 sub-goals are done.")
    assert f"#{arrive} “arrive” waits: for #{go} “go”, which is in-progress." in why
    explanation = get_why(client, goal, sub_goal_id=arrive)
    assert explanation.startswith(f"#{arrive} “arrive” waits: for #{go} “go”")
    client.ok("POST", goal_path(goal, "pause"))
    paused = get_why(client, goal)
    assert paused.startswith(f"Goal #{goal.id} is paused by the operator. It continues when it is resumed.")
    client.refused("GET", f"/v1/why/goal/{goal.id}", 404, "not_found", params={"sub_goal_id": 10**15})
    client.refused("GET", f"/v1/why/goal/{goal.id}", 422, "invalid", params={"sub_goal_id": "go"})


# Decisions


def test_paused_resumed_and_abandoned(client: Client) -> None:
    goal = add_active_goal(client)
    paused = client.ok("POST", goal_path(goal, "pause"))["goal"]
    assert set(paused) == DETAIL
    assert (paused["status"], paused["pause_kind"], paused["pause_reason"]) == ("paused", "operator", "Paused by the operator.")
    assert "paused" in client.refused("POST", goal_path(goal, "pause"), 409, "conflict")
    abandoned = client.ok("POST", goal_path(goal, "abandon"))["goal"]
    assert (abandoned["status"], abandoned["ended_at"] > 0) == ("abandoned", True)
    assert [sub_goal["status"] for sub_goal in abandoned["sub_goals"]] == ["skipped", "skipped"]
    assert client.ok("GET", f"/v1/agents/{goal.run_id}")["agent"]["status"] == "canceled"
    for verb in ("pause", "resume", "abandon"):
        client.refused("POST", goal_path(goal, verb), 409, "conflict")
    client.refused("POST", goal_path(goal, "decision"), 409, "conflict", json={"action": "continue"})
    assert list_journal_kinds(client, goal)[-4:] == ["paused", "abandoned", "sub_goal_skipped", "sub_goal_skipped"]

    other = add_paused_goal(client)
    resumed = client.ok("POST", goal_path(other, "resume"))["goal"]
    assert (resumed["status"], resumed["pause_kind"], resumed["pause_reason"]) == ("active", None, None)


def test_a_verb_with_a_key_acts_once(client: Client) -> None:
    goal = add_active_goal(client)
    answers = [client.ok("POST", goal_path(goal, "pause"), headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert answers[0] == answers[1]
    assert list_journal_kinds(client, goal).count("paused") == 1


def test_a_goal_that_is_not_paused_has_nothing_to_be_decided(client: Client) -> None:
    goal = add_active_goal(client)
    for action in ("continue", "replan", "abandon"):
        detail = client.refused("POST", goal_path(goal, "decision"), 409, "conflict", json={"action": action})
        assert detail == f"Goal #{goal.id} is active; only a paused goal needs a decision."
    assert get_goal(client, goal)["status"] == "active"


@pytest.mark.parametrize(("action", "status"), [("continue", "active"), ("replan", "active"), ("abandon", "abandoned")])
def test_every_decision_is_written_down(client: Client, action: str, status: str) -> None:
    goal = add_paused_goal(client)
    decided = client.ok("POST", goal_path(goal, "decision"), json={"action": action, "note": " try the back door "})["goal"]
    assert decided["status"] == status
    entry = next(
        candidate for candidate in client.ok("GET", goal_path(goal, "journal"))["entries"] if candidate["kind"] == "decided"
    )
    assert entry["data"] == {"action": action, "note": "try the back door"}


def test_continue_restarts_the_replan_count(client: Client) -> None:
    def work(tx: Transaction, tenant_id: int) -> Goal:
        goal = add_begun_goal(tx, tenant_id)
        return goals.escalate(tx, goal._replace(replan_count=5), "replans", "Five plans came to nothing.")

    goal = client.desk.write(work)
    document = get_goal(client, goal)
    assert (document["status"], document["pause_kind"], document["replan_count"]) == ("paused", "replans", 5)
    assert client.ok("POST", goal_path(goal, "decision"), json={"action": "continue"})["goal"]["replan_count"] == 0


def test_bad_decisions_change_nothing(client: Client) -> None:
    goal = add_paused_goal(client)
    bodies: tuple[Any, ...] = (
        {},
        {"action": "retry"},
        {"action": None},
        {"action": "continue", "note": "\0"},
        {"action": "continue", "why": "x"},
        [],
    )
    for body in bodies:
        assert client.post(goal_path(goal, "decision"), json=body).status_code == 422
    assert list_journal_kinds(client, goal)[-1] == "paused"


def test_nothing_starts_while_everything_is_halted(sqlite_client: Client) -> None:
    client = sqlite_client
    goal, going = add_paused_goal(client), add_active_goal(client)
    with halted(client):
        answer = client.post("/v1/goals", json={"description": "x"})
        assert (answer.status_code, answer.json()["code"]) == (503, "halted")
        client.refused("POST", goal_path(goal, "resume"), 503, "halted")
        client.refused("POST", goal_path(goal, "decision"), 503, "halted", json={"action": "continue"})
        assert "Headway is halted" in get_why(client, going)
        client.ok("POST", goal_path(goal, "abandon"))


# Watching


def test_watchers_hear_of_every_step(sqlite_client: Client) -> None:
    client = sqlite_client
    with client.again() as watcher, open_stream(watcher) as stream:
        goal = add_active_goal(client)
        client.ok("POST", goal_path(goal, "pause"))
        events: list[Any] = []
        for event in stream.events():
            events.append(event)
            if event.event == "goal_changed" and event.data["goal"]["status"] == "paused":
                break
    entries = [event.data["entry"] for event in events if event.event == "journal_appended"]
    assert [entry["kind"] for entry in entries] == ["goal_set", "sub_goal_started", "paused"]
    assert {event.data["goal_id"] for event in events if event.event in ("journal_appended", "sub_goal_changed")} == {goal.id}
    assert set(events[-1].data["goal"]) == SUMMARY - {"waiting_for", "usage"}


# Tenancy, agents and concurrency


def test_unknown_and_foreign_ids_get_the_same_answer(service: Service, client: Client) -> None:
    goal = add_paused_goal(client)
    requests: list[tuple[str, Callable[[int], str], dict[str, Any]]] = [
        ("GET", goal_path, {}),
        ("GET", lambda goal_id: f"/v1/why/goal/{goal_id}", {}),
        *(("GET", lambda goal_id, verb=verb: goal_path(goal_id, verb), {}) for verb in ("journal", "graph", "runs", "plans")),
        *(("POST", lambda goal_id, verb=verb: goal_path(goal_id, verb), {}) for verb in ("pause", "resume", "abandon")),
        ("POST", lambda goal_id: goal_path(goal_id, "run-again"), {}),
        ("PATCH", goal_path, {"json": {"priority": 1}}),
        ("POST", lambda goal_id: goal_path(goal_id, "decision"), {"json": {"action": "abandon"}}),
    ]
    unknown = 10**15
    with service.tenant() as stranger:
        for method, path, options in requests:
            foreign = stranger.refused(method, path(goal.id), 404, "not_found", **options)
            missing = stranger.refused(method, path(unknown), 404, "not_found", **options)
            assert foreign.replace(str(goal.id), "…") == missing.replace(str(unknown), "…")
            for bad_id in ("0", "-1", "x", "1.0", "٣", str(2**63)):
                stranger.refused(method, path(0).replace("/0", f"/{bad_id}", 1), 422, "invalid", **options)
        assert stranger.ok("GET", "/v1/goals") == {"goals": [], "next_cursor": None}
        assert stranger.ok("GET", "/v1/agents", params={"goal_id": goal.id}) == {"agents": [], "next_cursor": None}
        mine = add_paused_goal(stranger)
        first = get_goal(client, goal)["sub_goals"][0]["id"]
        stranger.refused("GET", f"/v1/why/goal/{mine.id}", 404, "not_found", params={"sub_goal_id": first})
    assert list_journal_kinds(client, goal)[-1] == "paused"


def test_agents_of_a_goal_can_be_asked_for(client: Client) -> None:
    goal, other = add_paused_goal(client), add_paused_goal(client)
    (run,) = client.ok("GET", "/v1/agents", params={"goal_id": goal.id})["agents"]
    assert (run["id"], run["goal_id"], run["sub_goal_id"]) == (goal.run_id, goal.id, None)
    assert {agent["goal_id"] for agent in client.ok("GET", "/v1/agents")["agents"]} == {goal.id, other.id}
    client.refused("GET", "/v1/agents", 422, "invalid", params={"goal_id": "x"})


def test_a_goals_own_agent_is_not_canceled_but_the_goal_abandoned(client: Client) -> None:
    goal = add_paused_goal(client)
    assert "abandon the goal" in client.refused("POST", f"/v1/agents/{goal.run_id}/cancel", 409, "conflict")


def test_of_concurrent_decisions_one_wins(client: Client) -> None:
    goal = add_paused_goal(client)
    path, body = goal_path(goal, "decision"), {"action": "abandon"}
    with ThreadPoolExecutor(4) as pool:
        codes = sorted(pool.map(lambda _: client.post(path, json=body).status_code, range(4)))
    assert codes == [200, 409, 409, 409]
    assert list_journal_kinds(client, goal).count("decided") == 1


def test_every_answer_of_goals_is_in_the_document(sqlite_client: Client) -> None:
    paths = sqlite_client.get("/openapi.json").json()["paths"]
    operations = {(method.upper(), path) for path, methods in paths.items() if path.startswith("/v1/goals") for method in methods}
    base = "/v1/goals/{goal_id}"
    assert operations == {
        *(("POST", "/v1/goals"), ("GET", "/v1/goals"), ("GET", base), ("PATCH", base)),
        *(("GET", f"{base}/{what}") for what in ("journal", "graph", "runs", "receipts", "plans")),
        *(("POST", f"{base}/{what}") for what in ("pause", "resume", "abandon", "decision", "fork", "run-again")),
    }
    for method, path in operations:
        answers = set(paths[path][method.lower()]["responses"])
        assert {"401", "422", "503"} <= answers
        assert ("404" in answers) == ("{" in path)
        assert ("409" in answers) == (method in ("POST", "PATCH"))


# Recurring goals


def test_a_schedule_of_a_goal(client: Client) -> None:
    work = {"description": "Tidy up.", "success_criteria": "Nothing lies about.", "priority": 10}
    schedule = client.ok("PUT", "/v1/schedules/tidy", json={"cron": "0 6 * * *", "goal": work})["schedule"]
    assert schedule["goal"] == work
    least = client.ok("PUT", "/v1/schedules/least", json={"every_s": 3_600, "goal": {"description": "x"}})["schedule"]
    assert least["goal"] == {"description": "x", "success_criteria": "", "priority": 50}

    job_id = client.ok("POST", "/v1/schedules/tidy/run")["schedule"]["last_job"]
    (goal,) = client.ok("GET", "/v1/goals")["goals"]
    assert (goal["run_id"], goal["description"], goal["priority"]) == (job_id, "Tidy up.", 10)
    wrong: tuple[Any, ...] = (
        {"goal": {"description": " "}},
        {"goal": {"description": "x", "priority": -1}},
        {"goal": {"description": "x", "budget_usd": 1}},
        {"goal": {}},
        {"goal": "x"},
        {"goal": work, "tool": {"name": "now"}},
    )
    for bad in wrong:
        client.refused("PUT", "/v1/schedules/tidy", 422, "invalid", json={"every_s": 60, **bad})
