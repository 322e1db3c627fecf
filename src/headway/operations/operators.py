"""Operations for operators: the halt, costs, quotas, audit and notices. Tenants, settings and health have their schemas here."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from headway.actions.access import audit, quotas, spending
from headway.actions.access.spending import MOST_DAYS
from headway.actions.installation import halts
from headway.actions.runs import notices
from headway.agents.mcp.config import ServerStatus
from headway.ledger.money import MOST_DOLLARS, to_nanos
from headway.ledger.run import SpendingGroup
from headway.ledger.tenancy import AuditFilter, TokenScope
from headway.ledger.text import MAX_INTEGER, NAME_LIMIT, SUBJECT_LIMIT, TEXT_PATTERN
from headway.ledger.tiers import Tier
from headway.operations.fields import CursorQuery, Id, QueryModel, StrictModel
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationHost, OperationTable, one, page
from headway.operations.todos import CheckFailure
from headway.values.operators import AccessToken, HaltState, Secret
from headway.values.value import Meaning
from headway.values.work import CallTotals, Costs

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


class Tenant(BaseModel):
    id: int
    name: str
    created_at: int


class TenantUsage(BaseModel):
    turns: Annotated[int, Field(description="Turns that have not ended")]
    jobs: Annotated[int, Field(description="Jobs that run")]
    storage: Annotated[int, Field(description="Bytes of stored text and files")]
    webhooks: int


class ListedTenant(Tenant):
    tokens: Annotated[int, Field(description="Active tokens, without browser sessions")]
    usage: TenantUsage
    spent_usd: Annotated[float, Field(description="In the last 24 hours")]
    limit_usd: float


class Quotas(BaseModel):
    """The most that one tenant may use. Null: no limit."""

    turns: int | None
    jobs: int | None
    streams: int | None
    storage: int | None
    webhooks: int | None


class QuotaUse(BaseModel):
    usage: TenantUsage
    quotas: Quotas


class ManyTenants(BaseModel):
    tenants: list[ListedTenant]
    quotas: Quotas
    next_cursor: str | None


class CreatedTenant(BaseModel):
    tenant: Tenant
    token: Annotated[AccessToken, Field(description="Its first token, with the admin scope")]
    secret: Secret


class Setting(BaseModel):
    name: str
    value: Annotated[str, Field(description="Empty: not set. Secrets appear only as `set`, and URLs without passwords")]
    source: Literal["flag", "environment", ".env", "models.toml", "default"]
    group: str
    description: str
    secret: bool


class ManySettings(BaseModel):
    settings: list[Setting]


class ModelTier(BaseModel):
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
    tiers: list[ModelTier]


class NewTrial(StrictModel):
    message: Annotated[str, Field(min_length=1, max_length=MESSAGE_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})] = (
        "Answer with one short sentence that says who you are."
    )


class Trial(BaseModel):
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
    trial: Trial


class McpTool(BaseModel):
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
    tools: list[McpTool]


class ManyMcpServers(BaseModel):
    servers: list[McpServerDetails]


class OneMcpServer(BaseModel):
    server: McpServerDetails


# Answers. Handlers render them by hand, for speed; these models document them.


class Alive(BaseModel):
    ok: Literal[True]


class Checks(BaseModel):
    database: Literal[True]
    migrations: Literal[True]
    feed: Literal[True]
    worker: Literal[True]
    loop: Literal[True]


class Ready(BaseModel):
    ready: Literal[True]
    checks: Checks


class Problem(BaseModel):
    """The body of every error response."""

    title: str
    status: int
    detail: str
    code: str
    failures: Annotated[list[CheckFailure] | None, Field(description="With the code check_failed: the checks that failed")] = None
    cell: Annotated[str | None, Field(description="With the code wrong_cell: the tenant's cell")] = None
    location: Annotated[str | None, Field(description="With the code wrong_cell: the address of the tenant's cell")] = None


# Schemas of the halt switch, costs, the audit log, notices and the session.


MAX_SECONDS = MAX_INTEGER // 1000


class NewHalt(StrictModel):
    why: Annotated[str, Field(max_length=SUBJECT_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})] = ""


class CostLimit(StrictModel):
    limit_usd: Annotated[float, Field(ge=0, le=MOST_DOLLARS, allow_inf_nan=False)]


FilterText = Annotated[str, Field(max_length=NAME_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})]


class HistoryQuery(QueryModel):
    days: Annotated[int, Field(ge=1, le=MOST_DAYS, description="How many days, today included")] = 30
    by: SpendingGroup = "model"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupTotals(CallTotals):
    name: Annotated[str | None, Meaning("The model, the role or the id of the goal (0: none); null: all others together")]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LabeledTotals(GroupTotals):
    label: Annotated[str, Meaning("What people call it, such as the text of the goal")]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DayTotals(GroupTotals):
    day: Annotated[str, Meaning("YYYY-MM-DD, in UTC")]


class History(BaseModel):
    by: SpendingGroup
    first_day: str
    last_day: Annotated[str, Field(description="Today, in UTC")]
    total: LabeledTotals
    groups: Annotated[list[LabeledTotals], Field(description="The most expensive first, at most eight, then all others")]
    rows: Annotated[list[DayTotals], Field(description="Days without calls have no row")]


class AuditQuery(CursorQuery):
    action: Annotated[FilterText, Field(description="Such as `limit.set`, or `limit` for all of a kind")] = ""
    who: Annotated[FilterText, Field(description="A part of the author's name, in upper or lower case")] = ""
    target: Annotated[FilterText, Field(description="Such as `token:12`, or `token` for all of a kind")] = ""
    since: Annotated[int, Field(ge=0, le=MAX_SECONDS, description="Epoch seconds: only entries from then on")] = 0
    until: Annotated[int, Field(ge=0, le=MAX_SECONDS, description="Epoch seconds: only entries before that; 0: all")] = 0


class AuditEntry(BaseModel):
    seq: int
    at: int
    who: Annotated[str, Field(description="The label and the number of the token, the user of the command line, or `headway`")]
    tenant: Annotated[str | None, Field(description="Its tenant; null: the whole installation")]
    action: str
    target: str
    old: Any
    new: Any


class NoticesQuery(CursorQuery):
    state: Literal["open", "done"] | None = None


class NoticeMarks(StrictModel):
    """Either `ids` or `up_to`."""

    ids: Annotated[list[Id] | None, Field(min_length=1, max_length=500)] = None
    up_to: Id | None = None
    done: bool = True


class MarkedNotices(BaseModel):
    changed: Annotated[int, Field(description="How many were changed")]


class Notice(BaseModel):
    id: int
    kind: str
    goal_id: int | None
    turn_id: str | None
    text: str
    url: str
    created_at: int
    done_at: Annotated[int, Field(description="0: it is open")]


class Session(BaseModel):
    tenant: str
    admin: Annotated[bool, Field(description="Whether the token may manage its tenant: tokens, webhooks, the cost limit")]
    operator: Annotated[bool, Field(description="Whether the token is the operator's, who runs the installation")]
    host: Annotated[bool, Field(description="The same as `operator`")]
    scopes: list[TokenScope]
    expires_at: Annotated[int, Field(description="Epoch seconds; 0: never")]
    model: Annotated[str, Field(description="The model that answers; `rehearsal` is a stand-in that follows rules, not an LLM")]
    workspace: Annotated[
        str | None, Field(description="The folder of the agents' files on the server's machine; null for all but the operator")
    ]
    page: Annotated[str, Field(description="The build of the web page that is served; a page from another build is outdated")]


class OneSession(BaseModel):
    session: Session


# Operations that administrators and operators use: /halt, /costs, /quotas, /audit and /notices


table = OperationTable("operator")

ONE_COSTS = one("costs", Costs)
ONE_HALT = one("halt", HaltState)


@table.add("GET /halt", "Get the state of the halt", ONE_HALT)
def get_halt(call: OperationCall) -> Document:
    return {"halt": halts.as_json(halts.find_active(call.tx))}


@table.add("PUT /halt", "Halt the whole installation", ONE_HALT, right="halt")
def halt_work(call: OperationCall, body: NewHalt) -> Document:
    return {"halt": halts.as_json(halts.halt(call.tx, body.why))}


@table.add("DELETE /halt", "Lift the halt", ONE_HALT, errors=(507,), right="halt")
def end_halt(call: OperationCall) -> Document:
    halts.unhalt(call.tx)
    call.nudge()
    return {"halt": halts.as_json(None)}


def load_prices(host: OperationHost) -> None:
    """Load the price list, which takes a while right after the start."""
    _ = host.unpriced_models


def encode_costs(call: OperationCall) -> Document:
    budget, unpriced = call.host.settings.limits.budget, call.host.unpriced_models
    return {"costs": spending.build_costs(call.tx, call.tenant_id, budget, unpriced)}


@table.add("GET /costs", "Get the costs of the last 24 hours", ONE_COSTS, prepare=load_prices)
def get_costs(call: OperationCall) -> Document:
    return encode_costs(call)


@table.add("GET /costs/history", "Get what agents spent per day, by model, role or goal", one("history", History))
def get_costs_history(call: OperationCall, query: HistoryQuery) -> Document:
    """Days are in UTC. The eight groups that cost the most are named, and all others are one group."""
    return {"history": spending.build_history(call.tx, call.tenant_id, query.days, query.by)}


@table.add("PUT /costs", "Set the tenant's cost limit", ONE_COSTS, right="set_limit", prepare=load_prices)
def set_cost_limit(call: OperationCall, body: CostLimit) -> Document:
    """Needs the admin scope, and the operator scope for more than the operator has set for the tenant or, without that, for each
    tenant."""
    limit = to_nanos(body.limit_usd)
    if call.tx.author == "operator":
        spending.set_limit(call.tx, call.tenant_id, limit)
    else:
        spending.set_own_limit(call.tx, call.tenant_id, limit, call.host.settings.limits.budget)
    call.nudge()
    return encode_costs(call)


@table.add("GET /quotas", "Get what the tenant uses of its quotas", QuotaUse)
def get_quotas(call: OperationCall) -> Document:
    return quotas.describe_usage(call.tx, call.tenant_id)


@table.add(
    "GET /audit",
    "List who changed access, limits or rules, newest first",
    AnswerShape("ManyAuditEntries", {"entries": list[AuditEntry], "next_cursor": str | None}),
    right="read_audit",
)
def list_audit_entries(call: OperationCall, query: AuditQuery) -> Document:
    """The entries of the tenant, for a token with the admin scope; for the operator, also the entries of the installation. With a
    filter, a page may have fewer entries than `limit`, also none, although more follow: continue until `next_cursor` is null."""
    chosen = AuditFilter(query.action, query.since * 1000, query.who, query.target, query.until * 1000)
    with_installation = call.has_right("read_installation_audit")
    return audit.list_audit_entries(call.tx, call.tenant_id, chosen, query.limit, query.cursor, with_installation=with_installation)


@table.add("GET /notices", "List notices to the operator, newest first", page("notices", Notice))
def list_notices(call: OperationCall, query: NoticesQuery) -> Document:
    is_done = None if query.state is None else query.state == "done"
    return notices.list_page(call.tx, call.tenant_id, query.limit, query.cursor, is_done=is_done)


@table.add("POST /notices/done", "Mark notices as done, or open them again", MarkedNotices)
def mark_notices(call: OperationCall, body: NoticeMarks) -> Document:
    """The notices with the given `ids`, or all up to the number `up_to`. Ids that do not exist are skipped."""
    return {"changed": notices.mark(call.tx, call.tenant_id, body.ids, body.up_to, is_done=body.done)}
