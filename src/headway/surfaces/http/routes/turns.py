"""Messages that agents answer, which are streamed and may carry files. The other operations are in operations/turns."""

from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.turns import turns
from headway.ledger.attachment import BINARY_TYPES
from headway.ledger.job import Job
from headway.operations import turns as turn_operation
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import ATTACHMENTS_BODY_LIMIT, RequestContext
from headway.surfaces.http.routes.events import STREAM_RESPONSE
from headway.surfaces.http.routing import HttpRoutes
from headway.surfaces.http.server_sent_events import MEDIA_TYPE
from headway.surfaces.http.turn_streams import begin_when_free, start_jobs, stream_turn

routes = HttpRoutes("/v1", "turns")

MESSAGE = TypeAdapter(turn_operation.NewMessage)


SAY_DOCS: dict[str, Any] = document_route(
    {202: turn_operation.TurnAccepted},
    also=(404,),
    body=turn_operation.NewMessage,
    query=turn_operation.WaitQuery,
    path={"conversation_id": int},
    idempotent=True,
)
SAY_DOCS["responses"] |= STREAM_RESPONSE


@routes.post("/conversations/{conversation_id}/messages", summary="Send a message for an agent to answer", **SAY_DOCS)
async def run_turn(request: Request) -> Response:
    """With `Accept: text/event-stream`, answers with the turn's events; otherwise with its id. Disconnecting does not stop it."""
    call = RequestContext(request)
    conversation_id = await call.parse_path_id("conversation_id")
    query = await call.query(turn_operation.WaitQuery)
    message = await call.body(MESSAGE, ATTACHMENTS_BODY_LIMIT)
    attachments = await call.known(turn_operation.build_attachments, message)
    started_jobs: list[Job] = []

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        job = call.headway.begin_turn(
            tx, tenant_id, conversation_id, message.content, message.mode, attachments, message.continues or ""
        )
        started_jobs[:] = [job]
        return {"turn_id": turns.get_turn_id(started_jobs[0])}

    if MEDIA_TYPE not in request.headers.get("accept", ""):
        answer = await begin_when_free(call, begin, query.wait or 0)
        start_jobs(call, started_jobs)
        return answer
    return await stream_turn(call, begin, started_jobs, query.wait or 0)


ATTACHMENT_DOCS: dict[str, Any] = document_route({200: None}, also=(404,), path={"turn_id": str, "n": int})
ATTACHMENT_DOCS["responses"][200] = {
    "description": "The file",
    "content": {media_type: {} for media_type in ("text/plain", *sorted(BINARY_TYPES))},
}


@routes.get("/turns/{turn_id}/attachments/{n}", summary="Download a file that came with the turn's message", **ATTACHMENT_DOCS)
async def get_turn_attachment(request: Request) -> Response:
    call = RequestContext(request)
    n = await call.parse_path_id("n")
    turn_id = request.path_params["turn_id"]
    attachment = await call.read(lambda tx, tenant_id: turns.get_attachment(tx, tenant_id, turn_id, n))
    # Text is never served under its own type, because a browser would run scripts in it.
    media_type = "text/plain; charset=utf-8" if attachment.is_text else attachment.media_type
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(attachment.name, safe='')}"}
    return Response(attachment.data, 200, headers, media_type)
