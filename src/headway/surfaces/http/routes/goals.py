"""/v1/goals: set, follow and control goals."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import goal_views, goals, runs
from headway.actions.goals import NewGoal
from headway.actions.inspection import goal_runs, plan_history
from headway.actions.people import goal_edits
from headway.actions.proof import receipts
from headway.ledger.goal import Goal, GoalFilter
from headway.ledger.run import Limits
from headway.ledger.text import MAX_INTEGER
from headway.settings import Settings
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import Action, RequestContext, to_json_response
from headway.surfaces.http.schemas import goals as shapes
from headway.surfaces.http.schemas.checks import ManyReceipts
from headway.surfaces.http.schemas.todos import CursorQuery

routes = APIRouter(prefix="/v1", tags=["goals"])

GOAL = TypeAdapter(shapes.NewGoalBody)
CHANGE = TypeAdapter(shapes.GoalChange)
DECISION = TypeAdapter(shapes.NewDecision)
GOAL_PATH: dict[str, Any] = {"path": {"goal_id": int}}
MAX_GOAL_RUNS = 500


@routes.post(
    "/goals",
    summary="Set a goal and start to pursue it",
    **document_route({201: shapes.OneGoal}, body=shapes.NewGoalBody, idempotent=True),
)
async def set_goal(request: Request) -> Response:
    call = RequestContext(request)
    body, settings = await call.body(GOAL), call.headway.settings

    def add(tx: Transaction, tenant_id: int) -> Goal:
        new_goal = body.new_goal(call.get_author(tx) if body.checks else "person")
        return goals.add(tx, tenant_id, check_place(new_goal, settings, tenant_id), settings.limits)

    return await answer_with_goal(call, add, 201)


def check_place(new_goal: NewGoal, settings: Settings, tenant_id: int) -> NewGoal:
    """Check the repository of a new goal, if it names one."""
    if not new_goal.repository:
        return new_goal
    from headway.agents.repositories.places import check_repository  # noqa: PLC0415  few goals name a repository

    return check_repository(new_goal, settings.get_workspace(tenant_id))


@routes.get(
    "/goals",
    summary="List goals, newest first unless `sort` says otherwise",
    **document_route({200: shapes.ManyGoals}, query=shapes.GoalsQuery),
)
async def list_goals(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(shapes.GoalsQuery)
    chosen = GoalFilter(query.status, query.q, query.waiting, query.sort)
    page = await call.read(lambda tx, tenant_id: goal_views.list_page(tx, tenant_id, chosen, query.limit, query.cursor))
    return to_json_response(page._asdict())


@routes.get(
    "/goals/{goal_id}", summary="Get a goal with its sub-goals", **document_route({200: shapes.OneGoal}, also=(404,), **GOAL_PATH)
)
async def get_goal(request: Request) -> Response:
    call = RequestContext(request)
    goal_id, limits = await call.parse_path_id("goal_id"), call.headway.settings.goals
    return to_json_response({"goal": await call.read(lambda tx, tenant_id: goal_views.show(tx, tenant_id, goal_id, limits))})


@routes.patch(
    "/goals/{goal_id}",
    summary="Change a goal's texts, priority, budget or deadline",
    **document_route({200: shapes.OneGoal}, also=(404, 409), body=shapes.GoalChange, idempotent=True, **GOAL_PATH),
)
async def change_goal(request: Request) -> Response:
    call = RequestContext(request)
    goal_id, change = await call.parse_path_id("goal_id"), await call.body(CHANGE)
    edit, limits = change.to_edit(), call.headway.settings.limits
    return await answer_with_goal(call, lambda tx, tenant_id: goal_edits.edit(tx, tenant_id, goal_id, edit, limits))


@routes.post(
    "/goals/{goal_id}/run-again",
    summary="Start an ended goal again, as a new goal",
    **document_route({201: shapes.OneGoal}, also=(404, 409), idempotent=True, **GOAL_PATH),
)
async def run_again(request: Request) -> Response:
    call = RequestContext(request)
    goal_id, settings = await call.parse_path_id("goal_id"), call.headway.settings

    def start(tx: Transaction, tenant_id: int) -> Goal:
        new_goal = check_place(goal_edits.build_repeat(tx, tenant_id, goal_id), settings, tenant_id)
        return goal_edits.run_again(tx, tenant_id, new_goal, settings.limits)

    return await answer_with_goal(call, start, 201)


@routes.get(
    "/goals/{goal_id}/plans",
    summary="List the plans of a goal, the one in force first, with what each changed",
    **document_route({200: shapes.ManyPlans}, also=(404,), query=CursorQuery, **GOAL_PATH),
)
async def list_plans(request: Request) -> Response:
    call = RequestContext(request)
    goal_id, query = await call.parse_path_id("goal_id"), await call.query(CursorQuery)
    page = await call.read(lambda tx, tenant_id: plan_history.list_page(tx, tenant_id, goal_id, query.limit, query.cursor))
    return to_json_response(page._asdict())


@routes.get(
    "/goals/{goal_id}/journal",
    summary="List journal entries, oldest first: the latest, or those before a number",
    **document_route({200: shapes.ManyEntries}, also=(404,), query=shapes.JournalQuery, **GOAL_PATH),
)
async def get_journal(request: Request) -> Response:
    call = RequestContext(request)
    goal_id, query = await call.parse_path_id("goal_id"), await call.query(shapes.JournalQuery)
    before = query.before or MAX_INTEGER
    entries = await call.read(lambda tx, tenant_id: goal_views.list_entries(tx, tenant_id, goal_id, query.limit, before))
    return to_json_response({"entries": [entry.as_json() for entry in entries]})


@routes.get(
    "/goals/{goal_id}/receipts",
    summary="List what the checks of a goal found at its end, newest first",
    **document_route({200: ManyReceipts}, also=(404,), **GOAL_PATH),
)
async def list_receipts(request: Request) -> Response:
    call = RequestContext(request)
    goal_id = await call.parse_path_id("goal_id")

    def view(tx: Transaction, tenant_id: int) -> list[dict[str, Any]]:
        goals.get(tx, tenant_id, goal_id)
        return [receipt.as_json() for receipt in receipts.list_newest(tx, tenant_id, "goal", goal_id)]

    return to_json_response({"receipts": await call.read(view)})


@routes.get(
    "/goals/{goal_id}/graph",
    summary="Get the layout of the graph of sub-goals",
    **document_route({200: shapes.OneGraph}, also=(404,), query=shapes.GraphQuery, **GOAL_PATH),
)
async def get_graph(request: Request) -> Response:
    call = RequestContext(request)
    goal_id, query = await call.parse_path_id("goal_id"), await call.query(shapes.GraphQuery)

    def view(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        return goal_views.build_graph(tx, tenant_id, goal_id, query.plan, query.columns)

    return to_json_response({"graph": await call.read(view)})


@routes.get(
    "/goals/{goal_id}/runs",
    summary="List the agent runs of a goal with their tokens, newest first, and what they used together",
    **document_route({200: shapes.GoalRuns}, also=(404,), **GOAL_PATH),
)
async def list_runs(request: Request) -> Response:
    call = RequestContext(request)
    goal_id = await call.parse_path_id("goal_id")
    return to_json_response(await call.read(lambda tx, tenant_id: goal_runs.list_runs(tx, tenant_id, goal_id)))


@routes.get(
    "/goals/{goal_id}/why",
    summary="Explain why a goal or a sub-goal is not making progress",
    **document_route({200: shapes.Explained}, also=(404,), query=shapes.WhyQuery, **GOAL_PATH),
)
async def get_why(request: Request) -> Response:
    call = RequestContext(request)
    goal_id, query = await call.parse_path_id("goal_id"), await call.query(shapes.WhyQuery)
    return to_json_response(
        {"why": await call.read(lambda tx, tenant_id: goal_views.explain(tx, tenant_id, goal_id, query.sub_goal_id))}
    )


def add_verb_route(name: str, summary: str, action: Callable[[Transaction, int, int, Limits], Goal]) -> None:
    """Add the route POST /goals/{goal_id}/VERB."""

    async def handle(request: Request) -> Response:
        call = RequestContext(request)
        goal_id, limits = await call.parse_path_id("goal_id"), call.headway.settings.limits
        answer = await answer_with_goal(call, lambda tx, tenant_id: action(tx, tenant_id, goal_id, limits))
        await interrupt_ended_runs(call, goal_id)
        return answer

    described_as = document_route({200: shapes.OneGoal}, also=(404, 409), idempotent=True, **GOAL_PATH)
    routes.post(f"/goals/{{goal_id}}/{name}", summary=summary, **described_as)(handle)


add_verb_route("pause", "Pause a goal", lambda tx, tenant_id, goal_id, _limits: goals.pause(tx, tenant_id, goal_id))
add_verb_route("resume", "Resume a paused goal where it stopped", goals.resume)
add_verb_route("abandon", "Abandon a goal for good", lambda tx, tenant_id, goal_id, _limits: goals.abandon(tx, tenant_id, goal_id))


@routes.post(
    "/goals/{goal_id}/decision",
    summary="Decide about a paused goal",
    **document_route({200: shapes.OneGoal}, also=(404,), body=shapes.NewDecision, idempotent=True, **GOAL_PATH),
)
async def decide(request: Request) -> Response:
    call = RequestContext(request)
    goal_id, decision = await call.parse_path_id("goal_id"), await call.body(DECISION)
    limits = call.headway.settings.limits
    answer = await answer_with_goal(
        call, lambda tx, tenant_id: goals.decide(tx, tenant_id, goal_id, decision.action, decision.note, limits)
    )
    await interrupt_ended_runs(call, goal_id)
    return answer


async def answer_with_goal(request: RequestContext, action: Action[Goal], status: int = 200) -> Response:
    limits = request.headway.settings.goals

    def act(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        return {"goal": goal_views.show(tx, tenant_id, action(tx, tenant_id).id, limits)}

    answer = await request.post(act, status)
    request.headway.nudge()
    return answer


async def interrupt_ended_runs(request: RequestContext, goal_id: int) -> None:
    """Interrupt the goal's ended runs in this process, so that they do not wait for a model or a tool."""
    goal_runs = await request.read(lambda tx, tenant_id: runs.list_page(tx, tenant_id, None, MAX_GOAL_RUNS, goal_id))
    request.headway.interrupt(run.id for run in goal_runs if run.ended)
