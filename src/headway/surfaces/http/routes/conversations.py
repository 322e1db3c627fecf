"""POST /v1/conversations, which may carry files. The other operations are in operations/conversations."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.todos import conversations, finding
from headway.actions.turns import turns
from headway.ledger.job import Job
from headway.operations import conversations as operations
from headway.operations import turns as turn_operation
from headway.storage.transaction import Transaction
from headway.surfaces.http.mounting import build_call
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import ATTACHMENTS_BODY_LIMIT, RequestContext
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.turn_streams import start_jobs

routes = HttpRoutes("/v1", "conversations")

CONVERSATION = TypeAdapter(operations.NewConversation)


@routes.post(
    "/conversations",
    summary="Create a conversation, and send its first message if there is one",
    **document_route({201: operations.STARTED_CONVERSATION}, also=(404,), body=operations.NewConversation, idempotent=True),
)
async def create_conversation(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(CONVERSATION, ATTACHMENTS_BODY_LIMIT)
    message = body.message
    attachments = await call.known(turn_operation.build_attachments, message) if message else []
    started_jobs: list[Job] = []

    def begin(tx: Transaction, tenant_id: int) -> Mapping[str, Any]:
        if message is None:
            return operations.create_conversation(build_call(call, tx, tenant_id), body)
        conversation = (tenant_id, conversations.add_conversation(tx, tenant_id, body.title, body.key).id)
        job = call.headway.begin_turn(tx, *conversation, message.content, message.mode, attachments, message.continues or "")
        started_jobs[:] = [job]
        return {"conversation": finding.get_conversation(tx, *conversation).as_json(), "turn_id": turns.get_turn_id(job)}

    if message:
        await call.headway.agents_ready()
    answer = await call.post(begin)
    start_jobs(call, started_jobs)
    return answer
