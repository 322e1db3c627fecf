"""Routes that fork turns, conversations and goals, and compare turns."""

import asyncio
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.goals import forks, views
from headway.actions.goals.forks import GoalForkRequest
from headway.actions.inspection import steps
from headway.actions.inspection.forks import ForkRequest
from headway.actions.todos import finding
from headway.actions.turns import turns
from headway.ledger.errors import HeadwayError
from headway.ledger.job import Job
from headway.operations import forks as fork_operation
from headway.operations import turns as turn_operation
from headway.operations.goals import ONE_GOAL
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.problems import to_problem
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.turn_streams import start_jobs

routes = HttpRoutes("/v1", "forks")

TURN = TypeAdapter(fork_operation.TurnToFork)
CONVERSATION = TypeAdapter(fork_operation.ConversationToFork)
GOAL = TypeAdapter(fork_operation.GoalToFork)


@routes.post(
    "/turns/{turn_id}/fork",
    summary="Copy a turn up to a step into a new conversation, and continue it there",
    **document_route(
        {201: turn_operation.ONE_TURN}, also=(404,), body=fork_operation.TurnToFork, path={"turn_id": str}, idempotent=True
    ),
)
async def fork_turn(request: Request) -> Response:
    call, turn_id = RequestContext(request), request.path_params["turn_id"]
    body = await call.body(TURN)
    fork = await check_fork(call, body.fork_request(""))
    started_jobs: list[Job] = []

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        started_jobs[:] = [call.headway.forks.begin(tx, tenant_id, turn_id, fork._replace(sender=call.describe_caller(tx)))]
        return {"turn": show_turn(call, tx, tenant_id, started_jobs[0])}

    answer = await call.post(begin)
    start_jobs(call, started_jobs)
    return answer


@routes.post(
    "/conversations/{conversation_id}/fork",
    summary="Copy a conversation up to a message, and send or write that message again",
    **document_route(
        {201: fork_operation.ForkedConversation},
        also=(404,),
        body=fork_operation.ConversationToFork,
        path={"conversation_id": int},
        idempotent=True,
    ),
)
async def fork_conversation(request: Request) -> Response:
    call = RequestContext(request)
    conversation_id = await call.parse_path_id("conversation_id")
    body = await call.body(CONVERSATION)
    fork = await check_fork(call, body.fork_request(""))
    started_jobs: list[Job] = []

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        checked = fork._replace(sender=call.describe_caller(tx))
        started_jobs[:] = [call.headway.forks.begin_at_message(tx, tenant_id, conversation_id, checked)]
        turn = show_turn(call, tx, tenant_id, started_jobs[0])
        return {"conversation": finding.get_conversation(tx, tenant_id, turn["conversation_id"]).as_json(), "turn": turn}

    answer = await call.post(begin)
    start_jobs(call, started_jobs)
    return answer


@routes.post(
    "/goals/{goal_id}/fork",
    summary="Copy a goal as it was after a journal entry, and pursue the copy",
    **document_route({201: ONE_GOAL}, also=(404,), body=fork_operation.GoalToFork, path={"goal_id": int}, idempotent=True),
)
async def fork_goal(request: Request) -> Response:
    call = RequestContext(request)
    goal_id, body = await call.parse_path_id("goal_id"), await call.body(GOAL)
    settings = call.headway.settings
    fork = GoalForkRequest(body.at, body.message or "", body.live, settings.limits)

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        return {"goal": views.show_goal(tx, tenant_id, forks.fork_goal(tx, tenant_id, goal_id, fork).id, settings.goals)}

    answer = await call.post(begin)
    call.headway.nudge()
    return answer


@routes.get(
    "/turns/{turn_id}/diff/{other}",
    summary="Compare two turns step by step",
    **document_route({200: fork_operation.OneDiff}, also=(404,), path={"turn_id": str, "other": str}),
)
async def compare_turns(request: Request) -> Response:
    call = RequestContext(request)
    first, second = request.path_params["turn_id"], request.path_params["other"]
    return to_json_response({"diff": await call.read(lambda tx, tenant_id: steps.compare_turns(tx, tenant_id, first, second))})


async def check_fork(call: RequestContext, request: ForkRequest) -> ForkRequest:
    """Check the model and the role once the model layer is loaded. An error is shown only to callers with a valid token."""
    await call.headway.agents_ready()
    try:
        return await asyncio.to_thread(call.headway.forks.check, request)  # it may import a provider's library
    except HeadwayError as error:
        await call.refuse(to_problem(error))
        raise


def show_turn(call: RequestContext, tx: Transaction, tenant_id: int, job: Job) -> dict[str, Any]:
    return turns.show_turn(tx, tenant_id, turns.get_turn_id(job), call.headway.settings.limits)
