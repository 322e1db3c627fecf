"""/v1/webhooks: an operator's token manages what is sent to other systems."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import webhooks
from headway.actions.access import tokens
from headway.ledger.tenancy import Token
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import Action, RequestContext, to_json_response
from headway.surfaces.http.schemas import webhooks as shapes
from headway.surfaces.http.schemas.todos import CursorQuery, Deleted
from headway.surfaces.http.secret_answers import SecretAnswer, answer_with_secret
from headway.webhooks.delivery import prepare_test, send_test

routes = APIRouter(prefix="/v1", tags=["webhooks"])

NEW_WEBHOOK = TypeAdapter(shapes.NewWebhookBody)
CHANGE = TypeAdapter(shapes.WebhookChangeBody)
ROTATION = TypeAdapter(shapes.SecretRotation)
REPLAY = TypeAdapter(shapes.ReplayStart)
PATH: dict[str, Any] = {"path": {"webhook_id": str}}


@routes.get(
    "/webhooks",
    summary="List the webhooks of the tenant, newest first",
    **document_route({200: shapes.ManyWebhooks}, query=CursorQuery),
)
async def list_webhooks(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(CursorQuery)
    return to_json_response(await read(call, lambda tx, tenant_id: webhooks.list_page(tx, tenant_id, query.limit, query.cursor)))


@routes.post(
    "/webhooks",
    summary="Subscribe an address to the events from now on",
    **document_route({201: shapes.WebhookWithSecret}, also=(404,), body=shapes.NewWebhookBody, idempotent=True),
)
async def create_webhook(request: Request) -> Response:
    """The answer has the secret that messages are signed with. A repeated Idempotency-Key gets the same answer without it."""
    call = RequestContext(request)
    new, hosts = (await call.body(NEW_WEBHOOK)).to_new(), call.headway.settings.webhook_hosts

    def create(tx: Transaction, caller: Token) -> SecretAnswer:
        view = webhooks.create(tx, caller.tenant_id, new, hosts)
        return SecretAnswer(view.secret, {"webhook": view.as_json()})

    return await answer_with_secret(call, create)


@routes.get("/webhooks/{webhook_id}", summary="Get a webhook", **document_route({200: shapes.OneWebhook}, also=(404,), **PATH))
async def get_webhook(request: Request) -> Response:
    webhook_id = request.path_params["webhook_id"]
    return to_json_response(
        await read(RequestContext(request), lambda tx, tenant_id: {"webhook": webhooks.get(tx, tenant_id, webhook_id).as_json()})
    )


@routes.patch(
    "/webhooks/{webhook_id}",
    summary="Change, pause or resume a webhook",
    **document_route({200: shapes.OneWebhook}, also=(404,), body=shapes.WebhookChangeBody, **PATH),
)
async def change_webhook(request: Request) -> Response:
    call, webhook_id = RequestContext(request), request.path_params["webhook_id"]
    wanted, hosts = (await call.body(CHANGE)).to_change(), call.headway.settings.webhook_hosts

    def change(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        return {"webhook": webhooks.change(tx, tenant_id, webhook_id, wanted, hosts).as_json()}

    document = await call.write(change, tokens.authenticate_operator)
    call.headway.nudge()
    return to_json_response(document)


@routes.delete("/webhooks/{webhook_id}", summary="Delete a webhook", **document_route({200: Deleted}, also=(404, 507), **PATH))
async def delete_webhook(request: Request) -> Response:
    call, webhook_id = RequestContext(request), request.path_params["webhook_id"]
    await call.write(lambda tx, tenant_id: webhooks.remove(tx, tenant_id, webhook_id), tokens.authenticate_operator)
    return to_json_response({"deleted": True})


@routes.post(
    "/webhooks/{webhook_id}/rotate",
    summary="Create a new secret. Messages are also signed with the old one for a while",
    **document_route({201: shapes.WebhookWithSecret}, also=(404,), body=shapes.SecretRotation, idempotent=True, **PATH),
)
async def rotate_secret(request: Request) -> Response:
    """A repeated Idempotency-Key gets the same answer without the secret."""
    call, webhook_id = RequestContext(request), request.path_params["webhook_id"]
    body = await call.body(ROTATION)

    def rotate(tx: Transaction, caller: Token) -> SecretAnswer:
        view = webhooks.rotate(tx, caller.tenant_id, webhook_id, body.overlap_s)
        return SecretAnswer(view.secret, {"webhook": view.as_json()})

    return await answer_with_secret(call, rotate)


@routes.post(
    "/webhooks/{webhook_id}/replay",
    summary="Deliver the events after a number, again or for the first time",
    **document_route({200: shapes.OneWebhook}, also=(404,), body=shapes.ReplayStart, idempotent=True, **PATH),
)
async def replay_events(request: Request) -> Response:
    call, webhook_id = RequestContext(request), request.path_params["webhook_id"]
    body = await call.body(REPLAY)
    answer = await call.post(
        lambda tx, tenant_id: {"webhook": webhooks.replay(tx, tenant_id, webhook_id, body.after).as_json()},
        200,
        authenticate=tokens.authenticate_operator,
    )
    call.headway.nudge()
    return answer


@routes.post(
    "/webhooks/{webhook_id}/test",
    summary="Send a test message once, and report what the receiver answered",
    **document_route({200: shapes.OneDelivery}, also=(404, 409), idempotent=True, **PATH),
)
async def test_webhook(request: Request) -> Response:
    call, webhook_id = RequestContext(request), request.path_params["webhook_id"]
    if replay := await call.find_replay():
        return replay
    outbox = await call.write(lambda tx, tenant_id: prepare_test(tx, tenant_id, webhook_id), tokens.authenticate_operator)
    attempt = await send_test(call.headway.webhook_sender, outbox)

    def store(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        webhooks.record_test(tx, tenant_id, webhook_id, attempt)
        return {"delivery": attempt.as_json()}

    return await call.post(store, 200, authenticate=tokens.authenticate_operator)


@routes.get(
    "/webhooks/{webhook_id}/deliveries",
    summary="List the last attempts to deliver, newest first",
    **document_route({200: shapes.ManyDeliveries}, also=(404,), **PATH),
)
async def list_deliveries(request: Request) -> Response:
    webhook_id = request.path_params["webhook_id"]
    return to_json_response(
        await read(
            RequestContext(request), lambda tx, tenant_id: {"deliveries": webhooks.list_deliveries(tx, tenant_id, webhook_id)}
        )
    )


async def read(call: RequestContext, view: Action[dict[str, Any]]) -> dict[str, Any]:
    """Read for an operator's token. Addresses of receivers may contain secrets."""

    def load(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        tokens.authenticate_operator(tx, call.digest)
        return view(tx, tenant_id)

    return await call.read(load)
