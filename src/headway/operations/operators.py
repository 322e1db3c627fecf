"""Operations that administrators and operators use: /halt, /costs, /quotas, /audit and /notices"""

from headway.actions import halts, notices, spending
from headway.actions.access import audit, quotas
from headway.actions.operations import spending_history
from headway.ledger.run import to_nanos
from headway.ledger.tenancy import AuditFilter
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationHost, OperationTable, one, page
from headway.operations.schemas import operators as schemas
from headway.operations.schemas.installation import QuotaUse
from headway.values.work import Costs

table = OperationTable("operator")

ONE_COSTS = one("costs", Costs)
ONE_HALT = one("halt", schemas.HaltShape)


@table.add("GET /halt", "Get the state of the halt", ONE_HALT)
def get_halt(call: OperationCall) -> Document:
    return {"halt": halts.as_json(halts.find_active(call.tx))}


@table.add("PUT /halt", "Halt the whole installation", ONE_HALT, right="halt")
def halt_work(call: OperationCall, body: schemas.NewHalt) -> Document:
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


@table.add("GET /costs/history", "Get what agents spent per day, by model, role or goal", one("history", schemas.HistoryShape))
def get_costs_history(call: OperationCall, query: schemas.HistoryQuery) -> Document:
    """Days are in UTC. The eight groups that cost the most are named, and all others are one group."""
    return {"history": spending_history.build_history(call.tx, call.tenant_id, query.days, query.by)}


@table.add("PUT /costs", "Set the tenant's cost limit", ONE_COSTS, right="set_limit", prepare=load_prices)
def set_cost_limit(call: OperationCall, body: schemas.CostLimit) -> Document:
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
    AnswerShape("ManyAuditEntries", {"entries": list[schemas.AuditEntryShape], "next_cursor": str | None}),
    right="read_audit",
)
def list_audit_entries(call: OperationCall, query: schemas.AuditQuery) -> Document:
    """The entries of the tenant, for a token with the admin scope, and those of the installation, for the operator. With a filter,
    a page may have fewer entries than `limit`, also none, although more follow: continue until `next_cursor` is null."""
    chosen = AuditFilter(query.action, query.since * 1000, query.who, query.target, query.until * 1000)
    with_installation = call.has_right("read_installation_audit")
    return audit.list_page(call.tx, call.tenant_id, chosen, query.limit, query.cursor, with_installation=with_installation)


@table.add("GET /notices", "List notices to the operator, newest first", page("notices", schemas.NoticeShape))
def list_notices(call: OperationCall, query: schemas.NoticesQuery) -> Document:
    is_done = None if query.state is None else query.state == "done"
    return notices.list_page(call.tx, call.tenant_id, query.limit, query.cursor, is_done=is_done)


@table.add("POST /notices/done", "Mark notices as done, or open them again", schemas.MarkedNotices)
def mark_notices(call: OperationCall, body: schemas.NoticeMarks) -> Document:
    """Those with the given `ids`, or all up to the number `up_to`. Ids that do not exist are skipped."""
    return {"changed": notices.mark(call.tx, call.tenant_id, body.ids, body.up_to, is_done=body.done)}
