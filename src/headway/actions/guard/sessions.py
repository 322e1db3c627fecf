"""Sessions of coding assistants. The list that an assistant keeps with its own tool becomes the plan of its session."""

import json
import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4, uuid5

from headway.actions.todos import conversations, finding, todos
from headway.actions.todos.turn_state import check_room, emit_queue_at_commit, lock_plan
from headway.actions.turns import plan
from headway.actions.turns.plan import renumber
from headway.ledger.errors import Invalid
from headway.ledger.events import Event, encode_json
from headway.ledger.guard import RULE_AGENT, AssistantSession, MirroredItem, describe_open
from headway.ledger.tenancy import Conversation, Turn
from headway.ledger.text import NAME_LIMIT, SUBJECT_LIMIT, TEXT_LIMIT, to_one_line
from headway.ledger.todo import Change, Draft, Todo
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import guard_rules as rule_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import AgentRights, Transaction

SESSIONS_SHOWN: Final = 20  # the newest of a folder
ITEMS_LIMIT: Final = 200  # of one list
OMISSION: Final = "The assistant left it out of a new list."
REMOVAL: Final = "The assistant took it off its list."
CONTINUATION: Final = "Continued in a later session, as #{}."
LIVE_MS: Final = 600_000  # a session that was heard of since then may still be at work


def find_session(tx: Transaction, tenant_id: int, session: AssistantSession) -> Conversation | None:
    if len(session.key) > NAME_LIMIT:
        return None
    return conversation_store.find_by_key(tx, tenant_id, session.key)


def find_plan(tx: Transaction, tenant_id: int, session: AssistantSession) -> Turn | None:
    """Return the unfinished plan of a session or a sub-agent, if there is one."""
    conversation = find_session(tx, tenant_id, session)
    return conversation and conversation_store.find_open_plan(tx, tenant_id, conversation.id, session.agent)


def ensure(tx: Transaction, tenant_id: int, session: AssistantSession) -> Conversation:
    """Return the session's conversation, which is created when it is first needed."""
    if found := find_session(tx, tenant_id, session):
        return found
    title = f"{session.title}: {to_one_line(os.path.basename(session.folder) or session.folder)}"
    conversation = conversations.get_or_create(tx, tenant_id, session.key, title[:SUBJECT_LIMIT])
    conversation = conversation._replace(folder=session.folder, client=session.client, client_session=session.id)
    conversation_store.set_client(tx, tenant_id, conversation)
    return conversation


def ensure_plan(tx: Transaction, tenant_id: int, session: AssistantSession) -> Turn:
    """Return the unfinished plan of a session. A new one continues the open items of the one before it."""
    conversation = ensure(tx, tenant_id, session)
    conversation_store.lock(tx, tenant_id, conversation.id)
    plan = conversation_store.find_open_plan(tx, tenant_id, conversation.id, session.agent)
    return plan or open_plan(tx, tenant_id, conversation.id, session.agent)


def open_plan(tx: Transaction, tenant_id: int, conversation_id: int, agent: str) -> Turn:
    last = conversation_store.find_last_plan(tx, tenant_id, conversation_id, agent)
    turn = Turn(str(uuid4()), conversation_id, started_at=tx.now, client_agent=agent)
    conversation_store.insert_turn(tx, tenant_id, turn)
    if last is not None and any(not todo.ended for todo in todo_store.list_by_turn(tx, tenant_id, last.id)):
        plan.take_over(tx, tenant_id, last, turn.id)
    return turn


def mirror(
    tx: Transaction, tenant_id: int, session: AssistantSession, items: Sequence[MirroredItem], *, is_whole: bool
) -> Turn | None:
    """Give a session's plan the state of the assistant's own list. `is_whole`: the list has no other items.

    Items keep their rows: by the assistant's own ids if it has some, otherwise by their text. Checks are never skipped: an item
    that has some stays open until they pass.
    """
    if len(items) > ITEMS_LIMIT:
        raise Invalid(f"The assistant's list has {len(items)} items. Lists of up to {ITEMS_LIMIT} are followed.")
    items = [item for item in map(clean_item, items) if item.subject != ""]
    if not items and (not is_whole or find_plan(tx, tenant_id, session) is None):
        return None
    tx.agent, tx.actor = AgentRights(lambda: ""), session.client
    turn = ensure_plan(tx, tenant_id, session)
    conversation = finding.get_conversation(tx, tenant_id, turn.conversation_id)
    known = list_known(tx, tenant_id, conversation.id)
    matches = match_items(conversation, session, known, items)
    new_items = [item for index, item in enumerate(items) if index not in matches and item.subject]
    if new_items and plan.is_drained(tx, tenant_id, turn.id):
        finish(tx, tenant_id, turn, "drained")
        turn = open_plan(tx, tenant_id, conversation.id, session.agent)
    added = add_items(tx, tenant_id, session, conversation, turn, new_items)
    rows = dict(matches)
    fresh = iter(added)
    for index, item in enumerate(items):
        if index not in rows and item.subject:
            rows[index] = next(fresh)
    for index, row in rows.items():
        apply_item(tx, tenant_id, row, items[index])
    if is_whole:
        listed = {row.id for row in rows.values()}
        drop_omitted(tx, tenant_id, turn, [row for row in known if row.id not in listed], is_new=bool(added))
    emit_queue_at_commit(tx, tenant_id, turn.id)
    conversation_store.touch(tx, tenant_id, conversation.id, "")
    return turn


def drop_omitted(tx: Transaction, tenant_id: int, turn: Turn, rows: Sequence[Todo], *, is_new: bool) -> None:
    """Cancel the open rows that a list no longer has, if it has new items, or if its assistant was sent back because of them.
    Otherwise they stay open: a list that only lost items may have lost them by mistake."""
    for row in rows if is_new or turn.refusals else ():
        if row.turn_id == turn.id and not row.ended and not row.checks:
            todos.end_todo(tx, tenant_id, row.id, "canceled", OMISSION if is_new else REMOVAL)


def clean_item(item: MirroredItem) -> MirroredItem:
    """Cut the assistant's text to what the ledger stores."""
    subject = None if item.subject is None else clean_text(item.subject)[:SUBJECT_LIMIT].strip()
    return item._replace(subject=subject, description=clean_text(item.description)[:TEXT_LIMIT])


def clean_text(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def list_known(tx: Transaction, tenant_id: int, conversation_id: int) -> list[Todo]:
    """List the rows that mirror the lists of the assistant and its sub-agents, newest first."""
    rows = todo_store.list_of_conversation(tx, tenant_id, conversation_id, 4 * ITEMS_LIMIT)
    return [row for row in rows if row.agent_id != RULE_AGENT]


def match_items(
    conversation: Conversation, session: AssistantSession, known: Sequence[Todo], items: Sequence[MirroredItem]
) -> dict[int, Todo]:
    """Find the rows of items, by the items' places: by the assistant's own id, or by the text."""
    by_uuid = {row.uuid: row for row in known}
    free = sorted((row for row in known if row.agent_id == session.agent_id), key=lambda row: row.ended)  # open rows first
    matches: dict[int, Todo] = {}
    for index, item in enumerate(items):
        if item.key:
            row = by_uuid.get(make_uuid(conversation, item.key))
        else:
            row = next((row for row in free if row.subject == item.subject), None)
            if row is not None and row.ended and item.status in ("pending", "in_progress"):
                row = None  # a new item with the words of one that has ended
        if row is not None:
            matches[index] = row
            free = [other for other in free if other.id != row.id]
    return matches


def make_uuid(conversation: Conversation, key: str) -> str:
    """Make the UUID of the row of an item, so that the same item is the same row."""
    return str(uuid5(UUID(conversation.uuid), key))


def add_items(
    tx: Transaction,
    tenant_id: int,
    session: AssistantSession,
    conversation: Conversation,
    turn: Turn,
    items: Sequence[MirroredItem],
) -> list[Todo]:
    if not items:
        return []
    _, plan = lock_plan(tx, tenant_id, turn.id)
    check_room(sum(not todo.ended for todo in plan), len(items))
    drafts = [
        Draft(
            item.subject or "",
            item.description,
            agent_id=session.agent_id,
            conversation_id=conversation.id,
            turn_id=turn.id,
        ).checked()
        for item in items
    ]
    uuids = [make_uuid(conversation, item.key) if item.key else todos.make_uuid() for item in items]
    added = todo_store.insert_pending(tx, tenant_id, drafts, uuids, "agent")
    numbered = renumber(tx, tenant_id, [*plan, *added], {todo.id for todo in added})
    close_continued(tx, tenant_id, session, conversation, added)
    by_id = {todo.id: todo for todo in numbered}
    return [by_id[todo.id] for todo in added]


def close_continued(
    tx: Transaction, tenant_id: int, session: AssistantSession, conversation: Conversation, added: Sequence[Todo]
) -> None:
    """End the items of sessions that are over, if this session continues them: they have the same text."""
    by_subject = {todo.subject.casefold(): todo for todo in added}
    for old in list_left(tx, tenant_id, session.folder, conversation.id):
        if (new := by_subject.pop(old.subject.casefold(), None)) and not old.checks:
            todos.end_todo(tx, tenant_id, old.id, "canceled", CONTINUATION.format(new.id))


def list_left(tx: Transaction, tenant_id: int, folder: str, conversation_id: int) -> list[Todo]:
    """List the open items that other sessions left in a folder. Sessions that may still be at work are left out."""
    sessions = conversation_store.list_of_folder(tx, tenant_id, folder, SESSIONS_SHOWN)
    left: list[Todo] = []
    for other in sessions:
        if other.id == conversation_id:
            continue
        is_live = other.updated_at > tx.now - LIVE_MS and conversation_store.find_open_plan(tx, tenant_id, other.id)
        if not is_live:
            rows = todo_store.list_of_conversation(tx, tenant_id, other.id, 4 * ITEMS_LIMIT)
            left += [row for row in rows if not row.ended and row.agent_id != RULE_AGENT]
    return left


def apply_item(tx: Transaction, tenant_id: int, row: Todo, item: MirroredItem) -> None:
    """Give a row the state of its item. One that has checks is completed by them alone, and dropped by a person alone."""
    status = item.status
    if row.checks and status == "completed":
        status = "in_progress"
    if row.checks and status == "canceled":
        status = None
    if row.ended and row.status != status and status is not None:
        row = todos.change_todo(tx, tenant_id, row.id, Change(status="pending"))
    change = Change(status=status) if status is not None and status != row.status else Change()
    if status == "canceled" and not row.outcome:
        change = change._replace(outcome=REMOVAL)
    if item.subject and item.subject != row.subject:
        change = change._replace(subject=item.subject)
    if change != Change():
        todos.change_todo(tx, tenant_id, row.id, change)


def begin_session(tx: Transaction, tenant_id: int, session: AssistantSession) -> str:
    """Tell an assistant what is open in its project; empty if nothing is. A session that is resumed continues its plan."""
    conversation = find_session(tx, tenant_id, session)
    own: list[Todo] = []
    if conversation is not None and (last := conversation_store.find_last_plan(tx, tenant_id, conversation.id, session.agent)):
        own = [todo for todo in todo_store.list_by_turn(tx, tenant_id, last.id) if not todo.ended and todo.agent_id != RULE_AGENT]
        if own and last.ended:
            open_plan(tx, tenant_id, conversation.id, session.agent)
    left = list_left(tx, tenant_id, session.folder, conversation.id if conversation else 0)
    return describe_open(own, left, rule_store.list_rules(tx, tenant_id, session.folder))


def end_session(tx: Transaction, tenant_id: int, session: AssistantSession) -> None:
    """Record that a session is over. Its open items stay as they are, and the session can be resumed."""
    conversation = find_session(tx, tenant_id, session)
    for turn in conversation_store.list_open_plans(tx, tenant_id, conversation.id) if conversation else ():
        rows = todo_store.list_by_turn(tx, tenant_id, turn.id)
        finish(tx, tenant_id, turn, "incomplete" if any(not row.ended for row in rows) else "drained")


def finish(tx: Transaction, tenant_id: int, turn: Turn, outcome: str) -> None:
    """End the turn of a plan."""
    conversation_store.save_turn(tx, tenant_id, turn._replace(status="finished", outcome=outcome, ended_at=tx.now))
    open_rows = [row for row in todo_store.list_by_turn(tx, tenant_id, turn.id) if not row.ended]
    incomplete = [{"id": row.id, "title": row.subject, "status": row.status} for row in open_rows]
    document = encode_json({"turn_id": turn.id, "outcome": outcome, "incomplete": incomplete})
    tx.emit(Event(tenant_id, "turn_finished", document, turn.conversation_id, turn.id))


# The state of a project's guard: its sessions, their open items and their refusals.

EVENTS_LIMIT: Final = 200  # of a plan, among which refusals are counted
ROWS_LIMIT: Final = 500
SUB_AGENTS_SHOWN: Final = 20


class GuardedSession(NamedTuple):
    conversation: Conversation
    turn_id: str | None  # the plan of the last refusal, or else the newest one, if it has any
    outcome: str | None  # of the newest plan
    open_items: list[Todo]
    refusals: int  # of the newest plan, and of its sub-agents' plans
    reason: str  # of the last refusal

    def as_json(self) -> dict[str, Any]:
        conversation = self.conversation
        return {
            "client": conversation.client,
            "session": conversation.client_session,
            "conversation_id": conversation.id,
            "turn_id": self.turn_id,
            "outcome": self.outcome,
            "updated_at": conversation.updated_at // 1000,
            "open": [{"id": todo.id, "title": todo.subject, "status": todo.status} for todo in self.open_items],
            "refusals": self.refusals,
            "reason": self.reason,
        }


def list_sessions(tx: Transaction, tenant_id: int, folder: str) -> list[GuardedSession]:
    """List the newest sessions of a project."""
    found = conversation_store.list_of_folder(tx, tenant_id, folder, SESSIONS_SHOWN)
    return [describe_session(tx, tenant_id, conversation) for conversation in found]


def describe_session(tx: Transaction, tenant_id: int, conversation: Conversation) -> GuardedSession:
    rows = todo_store.list_of_conversation(tx, tenant_id, conversation.id, ROWS_LIMIT)
    last = conversation_store.find_last_plan(tx, tenant_id, conversation.id, "")
    open_items = [row for row in reversed(rows) if not row.ended or (row.agent_id == RULE_AGENT and row.proof == "broken")]
    sub_agents = {row.turn_id for row in rows if row.turn_id and row.agent_id.startswith(f"{conversation.client}/")}
    plans = [*([last.id] if last else []), *sorted(sub_agents)[:SUB_AGENTS_SHOWN]]
    windows = [event_store.list_newest_events(tx, tenant_id, "turn_id", plan, ("refused",), EVENTS_LIMIT) for plan in plans]
    refused = sorted((event for window in windows for event in window.events), key=lambda event: event.seq)
    newest: dict[str, Any] = json.loads(refused[-1].data) if refused else {"turn_id": last and last.id, "reason": ""}
    outcome = last.outcome if last else None
    return GuardedSession(conversation, newest["turn_id"], outcome, open_items, len(refused), newest["reason"])
