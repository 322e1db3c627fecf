"""Schemas of tenants, settings, tiers of models and MCP servers."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from headway.agents.mcp.config import ServerStatus
from headway.ledger.text import NAME_LIMIT, TEXT_PATTERN
from headway.ledger.tiers import Tier
from headway.operations.schemas.strict_model import StrictModel
from headway.operations.schemas.tokens import AccessTokenShape, Secret

MESSAGE_LIMIT: Final = 2_000
NO_ANSWER: Final[dict[str, Any]] = {
    "answer": "",
    "model": "",
    "input_tokens": 0,
    "output_tokens": 0,
    "cost_usd": 0.0,
    "seconds": 0.0,
}


class NewTenant(StrictModel):
    name: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})]


class TenantShape(BaseModel):
    id: int
    name: str
    created_at: int


class TenantUsageShape(BaseModel):
    turns: Annotated[int, Field(description="Turns that have not ended")]
    jobs: Annotated[int, Field(description="Jobs that run")]
    storage: Annotated[int, Field(description="Bytes of stored text and files")]
    webhooks: int


class ListedTenant(TenantShape):
    tokens: Annotated[int, Field(description="Active tokens, without browser sessions")]
    usage: TenantUsageShape
    spent_usd: Annotated[float, Field(description="In the last 24 hours")]
    limit_usd: float


class QuotasShape(BaseModel):
    """The most that one tenant may use. Null: no limit."""

    turns: int | None
    jobs: int | None
    streams: int | None
    storage: int | None
    webhooks: int | None


class QuotaUse(BaseModel):
    usage: TenantUsageShape
    quotas: QuotasShape


class ManyTenants(BaseModel):
    tenants: list[ListedTenant]
    quotas: QuotasShape
    next_cursor: str | None


class CreatedTenant(BaseModel):
    tenant: TenantShape
    token: Annotated[AccessTokenShape, Field(description="Its first token, with the admin scope")]
    secret: Secret


class SettingShape(BaseModel):
    name: str
    value: Annotated[str, Field(description="Empty: not set. Secrets appear only as `set`, and URLs without passwords")]
    source: Literal["flag", "environment", ".env", "models.toml", "default"]
    group: str
    description: str
    secret: bool


class ManySettings(BaseModel):
    settings: list[SettingShape]


class ModelTierShape(BaseModel):
    tier: Tier
    model: str
    host: Annotated[str, Field(description="Of the provider, with the port if it is unusual; empty: in this process, or unknown")]
    context_tokens: Annotated[int, Field(description="That a request and its answer may have together")]
    context_source: Annotated[
        Literal["set", "known"], Field(description="`set`: by the installation; `known`: the model's own window, or an assumption")
    ]
    max_output_tokens: int
    supports_tools: bool
    fallback: Annotated[list[str], Field(description="Models that are asked when this one is out of service")]
    priced: Annotated[bool, Field(description="Whether a price is known. Without one, calls cost 0, and no limit stops them")]
    error: Annotated[str, Field(description="Why the model cannot be used; empty: it can be asked")]


class ManyTiers(BaseModel):
    tiers: list[ModelTierShape]


class NewTrial(StrictModel):
    message: Annotated[str, Field(min_length=1, max_length=MESSAGE_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})] = (
        "Answer with one short sentence that says who you are."
    )


class TrialShape(BaseModel):
    ok: Annotated[bool, Field(description="Whether the model answered")]
    tier: Tier
    error: Annotated[str, Field(description="Why it did not; empty: it did")]
    answer: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float
    seconds: float


class OneTrial(BaseModel):
    trial: TrialShape


class McpToolShape(BaseModel):
    """A tool with what its server says about it. Null: it says nothing."""

    name: str
    description: str
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    needs_approval: Annotated[bool, Field(description="Whether calls need approval if no rule of the policy matches")]


class McpServerDetails(BaseModel):
    name: str
    transport: Literal["stdio", "http"]
    location: Annotated[str, Field(description="The program, or scheme and host; arguments and paths may have secrets")]
    status: ServerStatus
    error: Annotated[str, Field(description="Why it is down; empty: it is not")]
    checked_at: Annotated[int, Field(description="When it last answered or failed to, in epoch seconds; 0: it was not used yet")]
    timeout_s: Annotated[float, Field(description="Of a call")]
    tools: list[McpToolShape]


class ManyMcpServers(BaseModel):
    servers: list[McpServerDetails]


class OneMcpServer(BaseModel):
    server: McpServerDetails
