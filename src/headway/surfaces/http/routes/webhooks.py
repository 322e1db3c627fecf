"""POST /v1/webhooks/{webhook_id}/test, which waits for the receiver. The other operations are in operations/webhooks."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access import tokens
from headway.actions.engine import webhooks
from headway.operations import webhooks as shapes
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext
from headway.surfaces.http.routing import HttpRoutes
from headway.webhooks import prepare_test, send_test

routes = HttpRoutes("/v1", "webhooks")

ADMIT = tokens.authenticate_for("manage_webhooks")
PATH: dict[str, Any] = {"path": {"webhook_id": str}}


@routes.post(
    "/webhooks/{webhook_id}/test",
    summary="Send a test message once, and report what the receiver answered",
    **document_route({200: shapes.OneDelivery}, also=(404, 409), idempotent=True, **PATH),
)
async def test_webhook(request: Request) -> Response:
    call, webhook_id = RequestContext(request), request.path_params["webhook_id"]
    if replay := await call.find_replay():
        return replay
    outbox = await call.write(lambda tx, tenant_id: prepare_test(tx, tenant_id, webhook_id), ADMIT)
    attempt = await send_test(call.headway.webhook_sender, outbox)

    def store(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        webhooks.record_test(tx, tenant_id, webhook_id, attempt)
        return {"delivery": attempt.as_json()}

    return await call.post(store, 200, authenticate=ADMIT)
