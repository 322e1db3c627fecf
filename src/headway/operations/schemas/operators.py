"""Schemas of the halt switch, costs, the audit log, notices and the session."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from headway.actions.operations.spending_history import MOST_DAYS
from headway.ledger.run import MOST_DOLLARS, SpendingGroup
from headway.ledger.tenancy import TokenScope
from headway.ledger.text import MAX_INTEGER, NAME_LIMIT, SUBJECT_LIMIT, TEXT_PATTERN
from headway.operations.schemas.strict_model import StrictModel
from headway.operations.schemas.todos import CursorQuery, Id, QueryModel

MAX_SECONDS = MAX_INTEGER // 1000


class NewHalt(StrictModel):
    why: Annotated[str, Field(max_length=SUBJECT_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})] = ""


class CostLimit(StrictModel):
    limit_usd: Annotated[float, Field(ge=0, le=MOST_DOLLARS, allow_inf_nan=False)]


class HaltShape(BaseModel):
    halted: bool
    why: str
    since: int
    by: Annotated[str, Field(description="Who halted: the label of a token, or `cli`")]


InputTokens = Annotated[int, Field(description="Includes the cached tokens")]
CachedTokens = Annotated[int, Field(description="The input tokens that were read from the provider's prompt cache")]
CacheWriteTokens = Annotated[int, Field(description="The input tokens that were written to it")]


FilterText = Annotated[str, Field(max_length=NAME_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})]


class HistoryQuery(QueryModel):
    days: Annotated[int, Field(ge=1, le=MOST_DAYS, description="How many days, today included")] = 30
    by: SpendingGroup = "model"


class GroupTotals(BaseModel):
    name: Annotated[str | None, Field(description="The model, the role or the id of the goal (0: none); null: all others together")]
    calls: int
    input_tokens: InputTokens
    cached_tokens: CachedTokens
    cache_write_tokens: CacheWriteTokens
    output_tokens: int
    cost_usd: float


class LabeledTotals(GroupTotals):
    label: Annotated[str, Field(description="What people call it, such as the text of the goal")]


class DayTotals(GroupTotals):
    day: Annotated[str, Field(description="YYYY-MM-DD, in UTC")]


class HistoryShape(BaseModel):
    by: SpendingGroup
    first_day: str
    last_day: Annotated[str, Field(description="Today, in UTC")]
    total: LabeledTotals
    groups: Annotated[list[LabeledTotals], Field(description="Those that cost the most first, at most eight, then all others")]
    rows: Annotated[list[DayTotals], Field(description="Days without calls have no row")]


class AuditQuery(CursorQuery):
    action: Annotated[FilterText, Field(description="Such as `limit.set`, or `limit` for all of a kind")] = ""
    who: Annotated[FilterText, Field(description="A part of the author's name, in upper or lower case")] = ""
    target: Annotated[FilterText, Field(description="Such as `token:12`, or `token` for all of a kind")] = ""
    since: Annotated[int, Field(ge=0, le=MAX_SECONDS, description="Epoch seconds: only entries from then on")] = 0
    until: Annotated[int, Field(ge=0, le=MAX_SECONDS, description="Epoch seconds: only entries before that; 0: all")] = 0


class AuditEntryShape(BaseModel):
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


class NoticeShape(BaseModel):
    id: int
    kind: str
    goal_id: int | None
    turn_id: str | None
    text: str
    url: str
    created_at: int
    done_at: Annotated[int, Field(description="0: it is open")]


class SessionShape(BaseModel):
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
    session: SessionShape
