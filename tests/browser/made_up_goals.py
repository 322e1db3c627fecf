"""Goals as the API would tell of them, for looking at pages that would take hours to come about."""

import json
import time
from typing import Any

from browsing import Visit
from playwright.sync_api import Route

from headway.ledger.graph_layout import layout

NOW = int(time.time())
STEPS: list[tuple[str, str, list[int]]] = [
    ("Map services on the checkout path", "completed", []),
    ("Collect p95 traces for the last 14 days", "completed", []),
    ("Reproduce production load in staging", "completed", [1]),
    ("Rank spans by share of total latency", "completed", [1, 2]),
    ("Record baseline benchmark", "completed", [3]),
    ("Audit indexes on the orders table", "completed", [4]),
    ("Draft and rank hypotheses", "completed", [4, 5]),
    ("Profile cart service", "completed", [7]),
    ("Profile payment gateway client", "completed", [7]),
    ("Add composite index on orders", "completed", [6]),
    ("Remove N+1 query in promotions", "skipped", [8]),
    ("Batch cart price lookups", "in-progress", [8]),
    ("Try gRPC keep-alive on the gateway", "failed", [9]),
    ("Pool gateway connections", "in-progress", [9]),
    ("Verify new index in staging", "completed", [10]),
    ("Combined staging soak, two hours", "pending", [12, 14, 15]),
    ("Compare cost against baseline", "pending", [5, 16]),
    ("Canary on 5% of traffic", "pending", [17]),
    ("Write change report for the operator", "pending", [18]),
]


def sub_goal(number: int, description: str, status: str, waits_for: list[int]) -> dict[str, Any]:
    ended = status in ("completed", "failed", "skipped")
    return {
        "id": number,
        "description": description,
        "expected_outcome": "A number that the next step can rely on.",
        "kind": "work",
        "mode": "agent",
        "role": "coder",
        "depends_on": waits_for,
        "status": status,
        "priority": 50,
        "expected_value": 0.5,
        "outcome": {"summary": "Done, p95 is 612 ms.", "data": None, "error": None} if status == "completed" else None,
        "divergence": "none" if status == "completed" else None,
        "divergence_reason": "",
        "reason": "503 from the sandbox gateway after 5 attempts" if status == "failed" else "",
        "run_id": f"run-{number}" if status == "in-progress" else None,
        "plan_no": 2,
        "cost_usd": 0.19 if ended else 0.0,
        "created_at": NOW - 3000,
        "started_at": NOW - 900 if status != "pending" else 0,
        "ended_at": NOW - 300 if ended else 0,
        "checked_at": NOW - 20,
    }


def goal(number: int, description: str, status: str, **fields: Any) -> dict[str, Any]:
    steps = fields.pop("sub_goals", [])
    counts = {one: sum(step["status"] == one.replace("_", "-") for step in steps) for one in STATUSES}
    return {
        "id": number,
        "source": "operator-injected",
        "description": description,
        "success_criteria": "p95 of the checkout stays below 400 ms for a week.",
        "evidence": "",
        "status": status,
        "priority": 20,
        "replan_count": 2,
        "replan_limit": 5,
        "plan_no": 2,
        "pause_kind": None,
        "pause_reason": "",
        "run_id": "run-main",
        "progress": {"total": len(steps) or 8, **counts},
        "cost_usd": 4.18,
        "budget_usd": 10.0,
        "deadline": NOW + 86400,
        "created_at": NOW - 3060,
        "updated_at": NOW - 40,
        "ended_at": 0,
        **({"sub_goals": steps} if steps else {}),
        **fields,
    }


STATUSES = ("completed", "failed", "skipped", "in_progress", "pending")
PLAN = [sub_goal(number, *step) for number, step in enumerate(STEPS, 1)]
WHOLE = goal(7, "Cut checkout p95 below 400 ms without raising cost", "active", sub_goals=PLAN)
PAUSED = {"status": "paused", "pause_kind": "replans", "pause_reason": "Replan limit reached: 5 of 5 plans used."}
GOALS = [
    {name: value for name, value in WHOLE.items() if name != "sub_goals"} | PAUSED,
    goal(9, "Find and fix flaky tests in the billing suite", "active", source="agent-discovered", cost_usd=1.92),
    goal(6, "Migrate invoices to the new ledger table", "completed", cost_usd=7.7, updated_at=NOW - 90000),
    goal(4, "Translate help centre to Portuguese", "abandoned", cost_usd=0.33, updated_at=NOW - 260000),
]
JOURNAL: list[dict[str, Any]] = [
    {"kind": "goal_set", "data": {"source": "operator-injected"}},
    {"kind": "planned", "data": {"plan_no": 1, "added": [{}] * 17}},
    {"kind": "sub_goal_started", "data": {"sub_goal_id": 1, "description": STEPS[0][0], "mode": "agent", "role": "coder"}},
    {"kind": "sub_goal_ended", "data": {"sub_goal_id": 1, "description": STEPS[0][0], "status": "completed", "outcome": {}}},
    {"kind": "evaluated", "data": {"sub_goal_id": 1, "description": STEPS[0][0], "divergence": "none", "reason": ""}},
    {
        "kind": "sub_goal_ended",
        "data": {"sub_goal_id": 13, "description": STEPS[12][0], "status": "failed", "outcome": {"error": "503"}},
    },
    {"kind": "replanned", "data": {"plan_no": 2, "why": "keep-alive is not worth it", "added": [{}, {}], "dropped": [11]}},
    {"kind": "interrupted", "data": {"agents": ["coder", "coder"], "sub_goals": [12, 14]}},
    {"kind": "recovered", "data": {"sub_goals": {"12": "resume", "14": "retry"}}},
    {"kind": "never_heard_of", "data": {"note": "something new"}},
]
ENTRIES = [{"n": n, "at": NOW - 60 * (len(JOURNAL) - n), **entry} for n, entry in enumerate(JOURNAL, 1)]
AGENTS = [
    {
        "id": one["run_id"],
        "parent_run_id": "run-main",
        "conversation_id": 0,
        "turn_id": None,
        "role": "coder",
        "task": one["description"],
        "depth": 1,
        "status": "running",
        "result": None,
        "iterations": 7,
        "limit": 20,
        "cost_usd": 0.19,
        "created_at": NOW - 240,
        "updated_at": NOW - (5 if one["id"] == 12 else 152),
        "ended_at": 0,
    }
    for one in PLAN
    if one["run_id"]
]


def graph() -> dict[str, Any]:
    drawn = layout([one["id"] for one in PLAN], [(below, one["id"]) for one in PLAN for below in one["depends_on"]])
    return {
        "width": drawn.width,
        "height": drawn.height,
        "nodes": [spot._asdict() for spot in drawn.spots],
        "edges": [{"from": curve.source, "to": curve.target, "path": curve.path} for curve in drawn.curves],
    }


def pretend(visit: Visit, **changes: Any) -> list[tuple[str, Any]]:
    """Answer for the server; what was sent to it comes back."""
    sent: list[tuple[str, Any]] = []
    shown = {**WHOLE, **changes}
    answers: dict[str, Any] = {
        "/v1/goals": {"goals": GOALS},
        "/v1/goals/7": {"goal": shown},
        "/v1/goals/7/graph": {"graph": graph()},
        "/v1/goals/7/journal": {"entries": ENTRIES},
        "/v1/goals/7/why": {"why": "Goal #7 is active: 12 of 19 sub-goals are done. #12 and #14 are being worked on."},
        "/v1/agents": {"agents": AGENTS},
    }

    def answer(route: Route) -> None:
        path = route.request.url.partition("?")[0].removeprefix(visit.url)
        if route.request.method != "GET":
            sent.append((path, route.request.post_data_json))
            route.fulfill(status=201 if path == "/v1/goals" else 200, json={"goal": shown})
        elif path in answers:
            route.fulfill(status=200, body=json.dumps(answers[path]), content_type="application/json")
        else:
            route.fulfill(status=404, body=json.dumps({"code": "not_found", "detail": "nothing"}))

    visit.page.route("**/v1/goals**", answer)
    visit.page.route("**/v1/agents?goal_id**", answer)
    return sent
