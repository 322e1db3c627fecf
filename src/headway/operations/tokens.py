"""Operations on access tokens: /tokens. An administrator's token manages the tokens of its tenant."""

from headway.actions.access import tokens
from headway.ledger.tenancy import TokenFilter
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, one
from headway.operations.schemas import tokens as schemas

table = OperationTable("tokens")


@table.add(
    "GET /tokens",
    "List the tokens and the active browser sessions of the tenant, newest first",
    AnswerShape("ManyAccessTokens", {"tokens": list[schemas.ListedAccessToken], "next_cursor": str | None}),
    right="manage_tokens",
)
def list_tokens(call: OperationCall, query: schemas.TokenQuery) -> Document:
    chosen = TokenFilter(query.kind, query.state)
    return tokens.list_page(call.tx, call.tenant_id, chosen, query.limit, query.cursor, call.token)


@table.add("POST /tokens", "Create a token", {201: schemas.CreatedAccessToken}, right="manage_tokens", has_secret=True)
def create_token(call: OperationCall, body: schemas.NewAccessToken) -> Document:
    """The token cannot outlive the one that creates it. Only an operator's token creates another one. A repeated Idempotency-Key
    gets the same answer without the secret."""
    if call.token is None:
        created = tokens.create(call.tx, call.tenant_id, body.label, body.expires_s, body.scope)
    else:
        created = tokens.create_with_token(call.tx, call.token, body.label, body.expires_s, body.scope)
    return {"token": created.token.as_json(), "secret": created.secret}


@table.add(
    "POST /tokens/{token_id}/rotate",
    "Create a token that replaces another one, which keeps working for a while",
    {201: schemas.RotatedAccessToken},
    errors=(404,),
    right="manage_tokens",
    has_secret=True,
)
def rotate_token(call: OperationCall, token_id: int, body: schemas.NewRotation) -> Document:
    """The new token has the same label, scopes and lifetime. A repeated Idempotency-Key gets the same answer without the secret."""
    created, replaced = tokens.rotate(call.tx, call.tenant_id, token_id, body.overlap_s, call.token)
    return {"token": created.token.as_json(), "replaced": replaced.as_json(), "secret": created.secret}


@table.add(
    "DELETE /tokens/{token_id}",
    "Revoke a token with its sessions, or end a session",
    one("token", schemas.AccessTokenShape),
    errors=(404, 507),
    right="manage_tokens",
)
def delete_token(call: OperationCall, token_id: int) -> Document:
    return {"token": tokens.revoke(call.tx, call.tenant_id, token_id, call.token).as_json()}
