"""/v1/approvals and /v1/questions: decide and answer."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.people import approvals, questions
from headway.actions.people.approvals import ApprovalDecision
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import people as shapes

routes = APIRouter(prefix="/v1", tags=["people"])

DECISION = TypeAdapter(shapes.NewApprovalDecision)
ANSWER = TypeAdapter(shapes.NewAnswer)
APPROVAL_PATH: dict[str, Any] = {"path": {"approval_id": int}}
QUESTION_PATH: dict[str, Any] = {"path": {"question_id": int}}


@routes.get(
    "/approvals",
    summary="List tool calls that needed approval, newest first",
    **document_route({200: shapes.ManyApprovals}, query=shapes.ApprovalsQuery),
)
async def list_approvals(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(shapes.ApprovalsQuery)
    return to_json_response(
        await call.read(lambda tx, tenant_id: approvals.list_page(tx, tenant_id, query.state, query.limit, query.cursor))
    )


@routes.get(
    "/approvals/{approval_id}",
    summary="Get an approval, and the rule that approving it with `always` would add to the policy",
    **document_route({200: shapes.ApprovalAndRule}, also=(404,), **APPROVAL_PATH),
)
async def get_approval(request: Request) -> Response:
    call = RequestContext(request)
    approval_id = await call.parse_path_id("approval_id")

    def show(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        approval = approvals.get(tx, tenant_id, approval_id)
        rule = call.headway.permission.preview_rule(tx, approval) if approval.is_open else None
        return {"approval": approval.as_json(), "rule": rule.as_json() if rule else None}

    return to_json_response(await call.read(show))


@routes.post(
    "/approvals/{approval_id}",
    summary="Approve or reject a proposed tool call",
    **document_route({200: shapes.OneApproval}, also=(404,), body=shapes.NewApprovalDecision, idempotent=True, **APPROVAL_PATH),
)
async def decide(request: Request) -> Response:
    """The same decision again changes nothing. Another one is refused with 409."""
    call = RequestContext(request)
    approval_id, body = await call.parse_path_id("approval_id"), await call.body(DECISION)
    arguments = None if body.arguments is None else await call.known(approvals.encode_arguments, body.arguments)

    def act(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        decision = ApprovalDecision(body.decision, call.describe_caller(tx), arguments, body.reason)
        return {"approval": call.headway.permission.decide(tx, tenant_id, approval_id, decision, always=body.always).as_json()}

    answer = await call.post(act, 200)
    call.headway.nudge()
    return answer


@routes.get(
    "/questions",
    summary="List questions of agents to people, newest first",
    **document_route({200: shapes.ManyQuestions}, query=shapes.QuestionsQuery),
)
async def list_questions(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(shapes.QuestionsQuery)
    return to_json_response(
        await call.read(lambda tx, tenant_id: questions.list_page(tx, tenant_id, query.state, query.limit, query.cursor))
    )


@routes.get(
    "/questions/{question_id}",
    summary="Get a question",
    **document_route({200: shapes.OneQuestion}, also=(404,), **QUESTION_PATH),
)
async def get_question(request: Request) -> Response:
    call = RequestContext(request)
    question_id = await call.parse_path_id("question_id")
    return to_json_response(
        {"question": (await call.read(lambda tx, tenant_id: questions.get(tx, tenant_id, question_id))).as_json()}
    )


@routes.post(
    "/questions/{question_id}",
    summary="Answer a question",
    **document_route({200: shapes.OneQuestion}, also=(404,), body=shapes.NewAnswer, idempotent=True, **QUESTION_PATH),
)
async def answer(request: Request) -> Response:
    """The same answer again changes nothing. Another one is refused with 409."""
    call = RequestContext(request)
    question_id, body = await call.parse_path_id("question_id"), await call.body(ANSWER)

    def act(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        return {"question": questions.answer(tx, tenant_id, question_id, body.answer, call.describe_caller(tx)).as_json()}

    response = await call.post(act, 200)
    call.headway.nudge()
    return response
