"""Schemas of access tokens."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headway.actions.access.tokens import DEFAULT_OVERLAP_S, MAX_LIFETIME_S, MAX_OVERLAP_S
from headway.ledger.tenancy import TOKEN_SCOPES, TokenScope
from headway.ledger.text import NAME_LIMIT, TEXT_PATTERN
from headway.operations.schemas.strict_model import StrictModel
from headway.operations.schemas.todos import CursorQuery


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


class AccessTokenShape(BaseModel):
    id: int
    tenant_id: int
    label: str
    scopes: list[TokenScope]
    operator: bool
    session: Annotated[bool, Field(description="Whether it is a browser session")]
    session_of: Annotated[int | None, Field(description="The token that the session was opened with, and ends with")]
    created_at: int
    expires_at: Annotated[int, Field(description="Epoch seconds; 0: never")]
    last_used_at: Annotated[int, Field(description="Also through its sessions; to the minute")]
    revoked_at: int
    replaced_by: Annotated[int | None, Field(description="The token that replaced it in a rotation")]


class TokenQuery(CursorQuery):
    kind: Annotated[Literal["token", "session", "all"], Field(description="Tokens for programs, browser sessions, or both")] = "all"
    state: Annotated[Literal["active", "all"], Field(description="`all` includes tokens that were revoked or have expired")] = "all"


class ListedAccessToken(AccessTokenShape):
    current: Annotated[bool, Field(description="The caller's own token, or the one that its session was opened with")]


Secret = Annotated[
    str | None,
    Field(description="Shown once. Null in the answer to a repeated Idempotency-Key, because secrets are not stored"),
]


class CreatedAccessToken(BaseModel):
    token: AccessTokenShape
    secret: Secret


class RotatedAccessToken(BaseModel):
    token: AccessTokenShape
    secret: Secret
    replaced: AccessTokenShape
