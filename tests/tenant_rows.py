"""A tenant with a row in every table, the ids of these rows, and a dump of all rows that it owns."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from headway.actions.access import idempotency, spending, tokens
from headway.actions.engine import schedules, webhooks
from headway.actions.engine.schedules import Timing
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.guard import rules
from headway.actions.history import files
from headway.actions.runs import inbox, notices
from headway.actions.runs.notices import NoticeSubject
from headway.actions.todos import board, claims, proof
from headway.actions.turns import memory, steering, turns
from headway.ledger.attachment import Attachment
from headway.ledger.check import ReceiptDraft
from headway.ledger.file_versions import FileOrigin, WrittenFiles, build_written
from headway.ledger.run import Effect, Run
from headway.ledger.scope import Scope, ViewFilters
from headway.ledger.webhook import NewWebhook
from headway.storage.stores import forks as fork_store
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Row, Transaction
from headway.testing import TenantHarness
from tests.goal_plans import add_begun_goal

NOTE = Attachment("note.txt", "text/plain", b"the door is green")


@dataclass
class Ids:
    """Ids and keys that a request can name."""

    todo: int
    conversation: int
    turn: str
    token: int
    lease: str
    key: str
    job: str
    schedule: str
    goal: int
    sub_goal: int
    plan_item: str
    approval: int
    question: int
    decision: int
    memory: int
    webhook: str
    file: str
    comment: int
    view: int
    rule: int


UNKNOWN_IDS = Ids(
    987_654_321,
    987_654_321,
    str(uuid4()),
    987_654_321,
    uuid4().hex,
    "nobody's",
    str(uuid4()),
    "nobody's daily",
    987_654_321,
    987_654_321,
    str(uuid4()),
    987_654_321,
    987_654_321,
    987_654_321,
    987_654_321,
    str(uuid4()),
    uuid4().hex,
    987_654_321,
    987_654_321,
    987_654_321,
)


def fill_tenant(desk: TenantHarness) -> Ids:
    """Give the tenant a row in every table that has a tenant_id."""
    conversation = desk.conversation(key="somebody's")
    run = desk.write(
        turns.start_turn, conversation.id, turns.TurnRequest("look into it", attachments=(NOTE,), context="a red door")
    )
    turn = run.turn_id
    assert turn is not None
    entry = desk.database.write(lambda tx: write_run_rows(tx, run))
    written = WrittenFiles((build_written("report.md", b"the door is green"),))
    origin = FileOrigin("write_file", run.role, run.id, turn, 0, 0, conversation.id)
    recorded = desk.write(files.record_files, "", written, origin)
    desk.write(proof.store, ReceiptDraft("todo", 1, (), {}, "ada"))
    approval, question = desk.database.write(lambda tx: ask_people(tx, run))
    planned = desk.add("planned", conversation_id=conversation.id, turn_id=turn)
    desk.write(fork_store.insert_former_names, conversation.id, {"14": planned.id})
    desk.add("waiting", conversation_id=conversation.id, depends_on=(planned.id,))
    desk.add("claimed", conversation_id=conversation.id)
    token = desk.write(tokens.create_token, "laptop").token
    claim = desk.write(claims.claim, "ada", conversation.id)
    assert claim is not None
    desk.write(
        idempotency.run_once,
        idempotency.IdempotentRequest("POST /v1/todos", "a key", "a hash"),
        lambda _: idempotency.Answer(201, "{}"),
    )
    schedule = desk.write(schedules.put, "somebody's daily", Timing(every_ms=60_000), message_work(conversation.id))
    goal = desk.write(add_begun_goal)
    rule = desk.write(rules.add_guard_rule, "/srv/garden", "the door is green", [{"kind": "file", "path": "door.txt"}])
    return Ids(
        claim.todo.id,
        conversation.id,
        turn,
        token.id,
        claim.lease.token,
        conversation.key,
        run.id,
        schedule.name,
        goal.id,
        desk.read(goal_store.list_sub_goals, goal.id)[0].id,
        planned.uuid,
        approval,
        question,
        desk.write(ask_about_goal),
        entry,
        desk.write(webhooks.create_webhook, NewWebhook("https://example.com/events"), ("*",)).webhook.id,
        recorded["files"][0]["id"],
        desk.write(board.add_comment, claim.todo.id, "Use the small brush.", "ada").id,
        desk.write(board.add_saved_view, "Mine", ViewFilters(conversation_id=conversation.id), "ada").id,
        rule.id,
    )


def message_work(conversation_id: int) -> dict[str, Any]:
    return {"message": {"conversation_id": conversation_id, "content": "go"}}


def write_run_rows(tx: Transaction, run: Run) -> int:
    """Write the rows that an agent's run leaves, and return the id of its memory entry."""
    run_store.append_messages(tx, run.tenant_id, run.id, 0, "{}")
    run_store.save_effect(tx, run.tenant_id, run.id, Effect(0, 0, "call", "now", "{}", "started"))
    steering.send(tx, run, "look closer", "ada")
    run = spending.reserve(tx, run, 5, 100) or run
    spending.settle_payment(tx, run, ModelCall("strong", "some:model", 1, 1, 7), 100)
    notices.notify(tx, run.tenant_id, "note", "look", NoticeSubject(run.conversation_id, run.turn_id))
    return memory.remember(tx, Scope(run.tenant_id, run.conversation_id), "the door is green", run_id=run.id).id


def ask_people(tx: Transaction, run: Run) -> tuple[int, int]:
    """Have the run ask for an approval and an answer, and return their ids."""
    effect = Effect(0, 1, "second call", "now", "{}", "proposed")
    approval = inbox.propose_call(tx, run, effect, "policy.toml, line 1", tx.now + 3_600_000)
    return approval.id, inbox.ask(tx, run, "Which colour?").id


def ask_about_goal(tx: Transaction, tenant_id: int) -> int:
    """Have an agent propose a goal, and return the id of the decision about it."""
    goal = goals.propose(tx, tenant_id, NewGoal("The shed is tidy."), "It is full.")
    requests = inbox.list_page(tx, tenant_id, "decision", "open", 10).requests
    return next(request.id for request in requests if request.goal_id == goal.id)


def list_tenant_tables(tx: Transaction) -> list[str]:
    """Every table with a tenant_id, according to the database's schema."""
    rows = tx.all(
        "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'tenant_id'"
        if tx.dialect.name == "sqlite"
        else "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name = 'tenant_id'"
    )
    return sorted(str(row[0]) for row in rows)


def read_tenant_rows(desk: TenantHarness) -> dict[str, list[Row]]:
    """Every row of the tenant, by table."""

    def look(tx: Transaction) -> dict[str, list[Row]]:
        return {
            table: sorted(tx.all(f"SELECT * FROM {table} WHERE tenant_id = ?", desk.tenant.id), key=repr)
            for table in list_tenant_tables(tx)
        }

    return desk.database.read(look)
