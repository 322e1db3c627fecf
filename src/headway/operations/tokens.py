"""Operations on access tokens: /tokens"""

from typing import Annotated, Literal

from pydantic import Field

from headway.actions.access import tokens
from headway.actions.access.tokens import DEFAULT_OVERLAP_S, MAX_LIFETIME_S, MAX_OVERLAP_S
from headway.ledger.tenancy import TOKEN_SCOPES, TokenFilter, TokenScope
from headway.ledger.text import NAME_LIMIT, TEXT_PATTERN
from headway.operations.fields import CursorQuery, StrictModel
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, one
from headway.values.operators import AccessToken, CreatedAccessToken, RotatedAccessToken


class NewAccessToken(StrictModel):
    label: Annotated[str, Field(max_length=NAME_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})] = ""
    scopes: Annotated[list[TokenScope], Field(min_length=1, description="Each scope includes the ones before it")] = [
        "read",
        "write",
    ]
    expires_s: Annotated[
        float | None,
        Field(ge=1, le=MAX_LIFETIME_S, allow_inf_nan=False, description="Omitted: when the caller's token does, or never"),
    ] = None

    @property
    def scope(self) -> TokenScope:
        """The scope that includes all others."""
        return max(self.scopes, key=TOKEN_SCOPES.index)


class NewRotation(StrictModel):
    overlap_s: Annotated[
        float, Field(ge=0, le=MAX_OVERLAP_S, allow_inf_nan=False, description="How long the old token keeps working")
    ] = DEFAULT_OVERLAP_S


class TokenQuery(CursorQuery):
    kind: Annotated[Literal["token", "session", "all"], Field(description="Tokens for programs, browser sessions, or both")] = "all"
    state: Annotated[Literal["active", "all"], Field(description="`all` includes tokens that were revoked or have expired")] = "all"


# Operations on access tokens: /tokens. An administrator's token manages the tokens of its tenant.


table = OperationTable("tokens")


@table.add(
    "GET /tokens",
    "List the tokens and the active browser sessions of the tenant, newest first",
    AnswerShape("ManyAccessTokens", {"tokens": list[AccessToken], "next_cursor": str | None}),
    right="manage_tokens",
)
def list_tokens(call: OperationCall, query: TokenQuery) -> Document:
    chosen = TokenFilter(query.kind, query.state)
    return tokens.list_tokens(call.tx, call.tenant_id, chosen, query.limit, query.cursor, call.token)


@table.add("POST /tokens", "Create a token", {201: CreatedAccessToken}, right="manage_tokens", has_secret=True)
def create_token(call: OperationCall, body: NewAccessToken) -> Document:
    """The token cannot outlive the one that creates it. Only an operator's token creates another one. A repeated Idempotency-Key
    gets the same answer without the secret."""
    if call.token is None:
        created = tokens.create_token(call.tx, call.tenant_id, body.label, body.expires_s, body.scope)
    else:
        created = tokens.create_with_token(call.tx, call.token, body.label, body.expires_s, body.scope)
    return {"token": created.token.as_json(), "secret": created.secret}


@table.add(
    "POST /tokens/{token_id}/rotate",
    "Create a token that replaces another one, which keeps working for a while",
    {201: RotatedAccessToken},
    errors=(404,),
    right="manage_tokens",
    has_secret=True,
)
def rotate_token(call: OperationCall, token_id: int, body: NewRotation) -> Document:
    """The new token has the same label, scopes and lifetime. A repeated Idempotency-Key gets the same answer without the secret."""
    created, replaced = tokens.rotate(call.tx, call.tenant_id, token_id, body.overlap_s, call.token)
    return {"token": created.token.as_json(), "replaced": replaced.as_json(), "secret": created.secret}


@table.add(
    "DELETE /tokens/{token_id}",
    "Revoke a token with its sessions, or end a session",
    one("token", AccessToken),
    errors=(404, 507),
    right="manage_tokens",
)
def delete_token(call: OperationCall, token_id: int) -> Document:
    return {"token": tokens.revoke(call.tx, call.tenant_id, token_id, call.token).as_json()}
