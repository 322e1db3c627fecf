"""/v1/tokens: an operator's token manages the tokens of its tenant."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.access import tokens
from headway.ledger.tenancy import Token, TokenFilter
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.schemas import tokens as shapes
from headway.surfaces.http.secret_answers import SecretAnswer, answer_with_secret

routes = APIRouter(prefix="/v1", tags=["tokens"])

NEW_TOKEN = TypeAdapter(shapes.NewAccessToken)
ROTATION = TypeAdapter(shapes.NewRotation)


@routes.get(
    "/tokens",
    summary="List the tokens and the active browser sessions of the tenant, newest first",
    **document_route({200: shapes.ManyAccessTokens}, query=shapes.TokenQuery),
)
async def list_tokens(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(shapes.TokenQuery)
    chosen = TokenFilter(query.kind, query.state)

    def view(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        caller = tokens.authenticate_operator(tx, call.digest)
        return tokens.list_page(tx, tenant_id, chosen, query.limit, query.cursor, caller)

    return to_json_response(await call.read(view))


@routes.post(
    "/tokens",
    summary="Create a token",
    **document_route({201: shapes.CreatedAccessToken}, body=shapes.NewAccessToken, idempotent=True),
)
async def create_token(request: Request) -> Response:
    """The token cannot outlive the one that creates it. A repeated Idempotency-Key gets the same answer without the secret."""
    call = RequestContext(request)
    body = await call.body(NEW_TOKEN)

    def create(tx: Transaction, caller: Token) -> SecretAnswer:
        created = tokens.create_with_token(tx, caller, body.label, body.expires_s, body.scope)
        return SecretAnswer(created.secret, {"token": created.token.as_json()})

    return await answer_with_secret(call, create)


@routes.post(
    "/tokens/{token_id}/rotate",
    summary="Create a token that replaces another one, which keeps working for a while",
    **document_route(
        {201: shapes.RotatedAccessToken}, also=(404,), body=shapes.NewRotation, path={"token_id": int}, idempotent=True
    ),
)
async def rotate_token(request: Request) -> Response:
    """The new token has the same label, scopes and lifetime. A repeated Idempotency-Key gets the same answer without the secret."""
    call = RequestContext(request)
    token_id, body = await call.parse_path_id("token_id"), await call.body(ROTATION)

    def rotate(tx: Transaction, caller: Token) -> SecretAnswer:
        created, replaced = tokens.rotate(tx, caller.tenant_id, token_id, body.overlap_s, caller)
        return SecretAnswer(created.secret, {"token": created.token.as_json(), "replaced": replaced.as_json()})

    return await answer_with_secret(call, rotate)


@routes.delete(
    "/tokens/{token_id}",
    summary="Revoke a token with its sessions, or end a session",
    **document_route({200: shapes.OneAccessToken}, also=(404, 507), path={"token_id": int}),
)
async def revoke_token(request: Request) -> Response:
    call = RequestContext(request)
    token_id = await call.parse_path_id("token_id")
    revoked = await call.write(lambda tx, tenant_id: tokens.revoke(tx, tenant_id, token_id), tokens.authenticate_operator)
    return to_json_response({"token": revoked.as_json()})
