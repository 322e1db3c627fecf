"""Decides whether an agent that Headway does not run may stop: not while its plan is open or its checks fail. It is refused at most
a number of times in a row without progress."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID, uuid5

from headway.actions.guard import sessions
from headway.actions.todos import finding, proof, todos
from headway.actions.todos.turn_state import emit_queue_at_commit, lock_plan
from headway.actions.turns.plan import renumber
from headway.ledger.check import decode_checks, describe_check
from headway.ledger.errors import ChecksRequired, Conflict
from headway.ledger.events import Event, encode_json
from headway.ledger.guard import (
    RULE_AGENT,
    AssistantSession,
    FailedCheck,
    GuardRule,
    StopRequest,
    StopRuling,
    count_items,
    describe_left,
    describe_refusal,
    is_question,
)
from headway.ledger.tenancy import Turn
from headway.ledger.todo import Draft, Todo
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import guard_rules as rule_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

SUCCESS: Final = "Its checks passed."
RULE_IS_GONE: Final = "The rule was removed."
NO_REFUSALS: Final[Mapping[int, str]] = {}


def prepare(tx: Transaction, tenant_id: int, session: AssistantSession) -> Turn | None:
    """Return the plan that decides whether a session may stop, with an item for each rule of its folder, or None if it may stop."""
    rules = [] if session.agent else rule_store.list_rules(tx, tenant_id, session.folder)
    turn = sessions.ensure_plan(tx, tenant_id, session) if rules else sessions.find_plan(tx, tenant_id, session)
    if turn is None:
        return None
    _, plan = lock_plan(tx, tenant_id, turn.id)
    wanted = {name_rule_item(turn, rule): rule for rule in rules}
    for row in plan:
        if row.agent_id == RULE_AGENT and row.uuid not in wanted and not row.ended:
            todos.end_todo(tx, tenant_id, row.id, "canceled", RULE_IS_GONE)
    missing = {uuid: rule for uuid, rule in wanted.items() if uuid not in {row.uuid for row in plan}}
    if missing:
        drafts = [
            Draft(
                rule.subject,
                agent_id=RULE_AGENT,
                conversation_id=turn.conversation_id,
                turn_id=turn.id,
                checks=rule.checks,
            ).checked()
            for rule in missing.values()
        ]
        added = todo_store.insert_pending(tx, tenant_id, drafts, list(missing), "person")
        renumber(tx, tenant_id, [*plan, *added], {todo.id for todo in added})
        emit_queue_at_commit(tx, tenant_id, turn.id)
    return turn


def name_rule_item(turn: Turn, rule: GuardRule) -> str:
    """Make the UUID of a rule's item in a plan."""
    return str(uuid5(UUID(turn.id), f"rule {rule.id}"))


def decide_stop(
    tx: Transaction, tenant_id: int, turn_id: str, stop: StopRequest, limit: int, not_run: Mapping[int, str] = NO_REFUSALS
) -> StopRuling:
    """Decide whether the agent of a turn may stop, and store the refusal. Raises ChecksRequired until the transaction has the
    results of the checks that matter. `not_run` says of todos why their checks may not run."""
    turn = finding.lock_turn(tx, tenant_id, turn_id)
    if run_store.find_by_turn(tx, tenant_id, turn_id) is not None:
        raise Conflict(f"Headway's own agent answers turn {turn_id} and decides itself when it ends.")
    if turn.ended:
        return StopRuling(may_stop=True)
    failed = [found for row in list_checked(tx, tenant_id, turn) if (found := prove(tx, tenant_id, row, not_run))]
    rows = todo_store.list_by_turn(tx, tenant_id, turn_id)
    failed_ids = {found.todo.id for found in failed}
    incomplete = tuple(row for row in rows if not row.ended or row.id in failed_ids)
    open_rows = [row for row in incomplete if row.id not in failed_ids]
    if not incomplete:
        if turn.refusals:
            conversation_store.save_refusal(tx, tenant_id, turn_id, 0, 0)
        return StopRuling(may_stop=True)
    client = finding.get_conversation(tx, tenant_id, turn.conversation_id).client
    title = AssistantSession(client, "", "").title or "the agent"
    if is_question(stop.answer):
        return StopRuling(
            may_stop=True, notice=f"{title} asks you something. {count_items(len(incomplete))}.", incomplete=incomplete
        )
    progress = len(rows) - len(incomplete)
    goes_on = stop.is_repeated and turn.refusals and progress <= turn.progress
    refusals = turn.refusals + 1 if goes_on else 1
    if refusals > limit:
        sessions.finish(tx, tenant_id, turn, "incomplete")
        notice = describe_left(title, limit, incomplete)
        return StopRuling(may_stop=True, notice=notice, refusals=limit, incomplete=incomplete)
    reason = describe_refusal(open_rows, failed)
    conversation_store.save_refusal(tx, tenant_id, turn_id, refusals, progress)
    data = encode_json({"turn_id": turn_id, "remaining": len(incomplete), "reason": reason, "refusals": refusals})
    tx.emit(Event(tenant_id, "refused", data, turn.conversation_id, turn_id))
    return StopRuling(may_stop=False, reason=reason, refusals=refusals, incomplete=incomplete)


def list_checked(tx: Transaction, tenant_id: int, turn: Turn) -> list[Todo]:
    """List the items whose checks decide: the open ones, and the rules, which must hold at every stop."""
    folder = finding.get_conversation(tx, tenant_id, turn.conversation_id).folder
    standing = {name_rule_item(turn, rule) for rule in rule_store.list_rules(tx, tenant_id, folder)} if folder else set()
    _, rows = lock_plan(tx, tenant_id, turn.id)
    return [row for row in rows if row.checks and (not row.ended or (row.uuid in standing and row.status == "completed"))]


def prove(tx: Transaction, tenant_id: int, todo: Todo, not_run: Mapping[int, str]) -> FailedCheck | None:
    """Complete a todo whose checks passed, and note whether the checks of a completed one still pass. Return the failures."""
    checks = decode_checks(todo.checks)
    if reason := not_run.get(todo.id):
        return FailedCheck(todo, [{"check": describe_check(checks[0]), "detail": f"It was not run. {reason}"}])
    draft = tx.receipts.get(todo.id)
    if draft is None or not draft.covers(checks):
        raise ChecksRequired(todo_id=todo.id, outcome=todo.outcome)
    if todo.ended:
        proof.verify(tx, tenant_id, todo.id)
    elif draft.ok:
        todos.end_todo(tx, tenant_id, todo.id, "completed", SUCCESS)
    return None if draft.ok else FailedCheck(todo, draft.list_failures())
