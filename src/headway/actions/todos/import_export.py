"""Import and export of todos: JSON without loss, Markdown for people."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, get_args

from headway.actions.access import quotas
from headway.actions.todos import conversations, finding
from headway.actions.todos.todos import make_uuid
from headway.actions.todos.turn_state import emit_queue_at_commit
from headway.ledger import cycles, text
from headway.ledger.check import Author, Check, encode_checks
from headway.ledger.errors import BadDocument, Invalid
from headway.ledger.events import build_todo_event
from headway.ledger.parsing import checklist
from headway.ledger.parsing.checks import parse_checks
from headway.ledger.parsing.todo_fields import LATEST_SECOND, parse_fields, parse_words
from headway.ledger.scope import Scope, Selection
from headway.ledger.tenancy import Turn
from headway.ledger.text import MAX_INTEGER
from headway.ledger.todo import ENDED_STATUSES, CompletedBy, Draft, Todo, parse_status
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import todo_pages
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

FORMAT_VERSION = 1
IMPORTER: Author = "person"  # also on the command line: whoever wrote the document is not the operator
IMPORT_LIMIT = 100_000
TIME_FIELDS = ("created_at", "updated_at", "started_at", "completed_at")  # each is optional in a document


class ExportResult(NamedTuple):
    text: str
    notes: list[str]  # sentences about what the text leaves out


class ImportResult(NamedTuple):
    added: list[Todo]
    known: int  # how many were in the ledger already


class ImportedCheck(NamedTuple):
    """A check of a document, as it will be stored."""

    subject: str  # of its todo
    check: Check
    folder: str  # outside the workspace, which was left out; empty: it had none


class ImportEntry(NamedTuple):
    """One validated todo of a document. Its references are still the document's own ids."""

    number: int  # its id in the document
    uuid: str
    draft: Draft
    times: dict[str, int]  # the times given in the document


def list_todos_to_export(tx: Transaction, tenant_id: int, selection: Selection) -> list[Todo]:
    todos: list[Todo] = []
    cursor: str | None = None
    while cursor or not todos:
        page = todo_pages.list_todo_page(tx, tenant_id, selection, 500, cursor)
        todos += page.todos
        cursor = page.next_cursor
        if not page.todos:
            break
    return todos


def export_json(tx: Transaction, tenant_id: int, selection: Selection) -> ExportResult:
    """Export todos as JSON that can be imported without loss. Times keep their milliseconds."""
    todos = sorted(list_todos_to_export(tx, tenant_id, selection), key=lambda todo: todo.id)
    numbers = {todo.id for todo in todos}
    conversation_rows = [
        finding.get_conversation(tx, tenant_id, conversation_id)
        for conversation_id in sorted({todo.conversation_id for todo in todos} - {0})
    ]
    document = {
        "headway": FORMAT_VERSION,
        "conversations": [
            {"id": conversation.id, "key": conversation.key, "title": conversation.title} for conversation in conversation_rows
        ],
        "todos": [
            todo.as_json()
            | {"uuid": todo.uuid, "depends_on": [todo_id for todo_id in todo.depends_on if todo_id in numbers]}
            | {name: getattr(todo, name) / 1000 for name in TIME_FIELDS}
            for todo in todos
        ],
    }
    return ExportResult(text.format_json(document) + "\n", describe_severed(todos))


def export_markdown(tx: Transaction, tenant_id: int, selection: Selection) -> ExportResult:
    """Export a checklist, ordered by position, so that ending a todo moves nothing."""
    todos = sorted(
        list_todos_to_export(tx, tenant_id, selection),
        key=lambda todo: (todo.conversation_id, todo.turn_id or "", todo.position, todo.id),
    )
    rendering = checklist.render(todos)
    losses = rendering.losses
    warnings = [f"A checklist cannot represent {'; '.join(losses)}. Export as JSON to keep it."] if losses else []
    return ExportResult(rendering.text, warnings + describe_severed(todos))


def describe_severed(todos: Sequence[Todo]) -> list[str]:
    """Describe the dependencies that lead out of the document into other lists."""
    numbers = {todo.id for todo in todos}
    return [
        f"#{todo.id} waits for #{other}, which is in a list that was not exported."
        for todo in todos
        for other in todo.depends_on
        if other not in numbers
    ]


def list_markdown_checks(document: str) -> list[ImportedCheck]:
    """List the checks that a checklist would bring, in its order."""
    found: list[ImportedCheck] = []
    for index, item in enumerate(checklist.parse(document)):
        with locate_errors("Item", index):
            found += list_imported(item.subject, list(map(decode_check, item.checks)))
    return found


def list_json_checks(document: str) -> list[ImportedCheck]:
    """List the checks that a JSON document would bring, in its order."""
    found: list[ImportedCheck] = []
    for index, row in enumerate(load_document(document)["todos"]):
        with locate_errors("Todo", index):
            fields = parse_mapping(row)
            found += list_imported(parse_string(fields, "subject") or "", fields.get("checks"))
    return found


def list_imported(subject: str, value: Any) -> list[ImportedCheck]:
    """Parse the checks of one todo. The person who imports it is their author, so they have no folder outside the workspace."""
    return [ImportedCheck(subject, drop_folder(check), check.get("folder", "")) for check in parse_checks(value, IMPORTER)]


def drop_folder(check: Check) -> Check:
    return {name: field for name, field in check.items() if name != "folder"}


def import_checks(value: Any) -> str:
    return encode_checks([imported.check for imported in list_imported("", value)])


def import_markdown(tx: Transaction, scope: Scope, document: str) -> ImportResult:
    items = checklist.parse(document)
    if not items:
        raise BadDocument("No checklist items found; they look like `- [ ] subject`.")
    waits_for: dict[int, list[int]] = {}
    for index, item in enumerate(items):
        if item.parent is not None:
            waits_for.setdefault(item.parent, []).append(index)
    entries: list[ImportEntry] = []
    for index, item in enumerate(items):
        with locate_errors("Item", index):
            draft = Draft(
                item.subject,
                item.description,
                agent_id=scope.agent_id,
                conversation_id=scope.conversation_id,
                status=item.status,
                depends_on=tuple(waits_for.get(index, ())),
                completed_by="person",
                checks=import_checks(list(map(decode_check, item.checks))),
                **parse_words(item.words),
            )
            entries.append(ImportEntry(index, make_uuid(), draft.checked(), {}))
    return import_entries(tx, scope.tenant_id, entries)


def decode_check(line: str) -> Any:
    """Decode the JSON of a line that begins with `check:`."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise BadDocument("a line that begins with `check:` must go on with a JSON object.") from None


def import_json(tx: Transaction, scope: Scope, document: str) -> ImportResult:
    """Import a document from `export_json`, or any {"todos": [{"subject": …}, …]}. Todos already in the ledger are skipped.

    The person who imports it is the author of its checks. Completed todos that have checks are unproven: these did not run here.
    """
    parsed = load_document(document)
    conversation_ids = resolve_conversations(tx, scope, parsed.get("conversations", []))
    entries = [parse_entry(row, index, scope, conversation_ids) for index, row in enumerate(parsed["todos"])]
    return import_entries(tx, scope.tenant_id, open_turns(tx, scope.tenant_id, entries))


def load_document(document: str) -> dict[str, Any]:
    """Return the JSON document, which has a list of todos."""
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise BadDocument(f"The document is not valid JSON: {error}.") from None
    if isinstance(parsed, list):
        parsed = {"todos": parsed}
    if not isinstance(parsed, dict) or not isinstance(parsed.get("todos"), list):
        raise BadDocument('The document has no list of todos. Expected {"todos": [{"subject": "…"}]}.')
    if parsed.get("headway", FORMAT_VERSION) != FORMAT_VERSION:
        raise BadDocument("The document was written by a newer version of Headway. Upgrade this one.")
    return parsed


def resolve_conversations(tx: Transaction, scope: Scope, rows: Any) -> dict[int, int]:
    """Map the document's conversation ids to the ledger's. A conversation is matched by its key, or created."""
    if not isinstance(rows, list):
        raise BadDocument("conversations must be a list.")
    conversation_ids: dict[int, int] = {0: scope.conversation_id}
    for index, row in enumerate(rows):
        with locate_errors("Conversation", index):
            fields = parse_mapping(row)
            number = parse_integer(fields, "id", 0)
            if number in conversation_ids:
                raise BadDocument("id must be unique and not 0.")
            key = text.check_name(parse_string(fields, "key") or "", "key")
            existing = conversation_store.find_by_key(tx, scope.tenant_id, key)
            conversation_ids[number] = (
                existing or conversations.add_conversation(tx, scope.tenant_id, parse_string(fields, "title") or "", key)
            ).id
    return conversation_ids


def open_turns(tx: Transaction, tenant_id: int, entries: list[ImportEntry]) -> list[ImportEntry]:
    """Open the document's turns in the ledger. A turn whose id is taken elsewhere gets a new one."""
    turns: dict[tuple[str, int], str] = {}
    for turn_id, conversation_id in ((entry.draft.turn_id, entry.draft.conversation_id) for entry in entries):
        if turn_id is None or (turn_id, conversation_id) in turns:
            continue
        exists = conversation_store.find_turn_conversation(tx, tenant_id, turn_id) == conversation_id
        if exists or conversation_store.insert_turn_once(tx, tenant_id, Turn(turn_id, conversation_id, started_at=tx.now)):
            turns[turn_id, conversation_id] = turn_id
        else:
            turns[turn_id, conversation_id] = conversations.open_turn(tx, tenant_id, conversation_id).id
    return [
        entry._replace(draft=entry.draft._replace(turn_id=turns.get((entry.draft.turn_id or "", entry.draft.conversation_id))))
        for entry in entries
    ]


def parse_entry(row: Any, index: int, scope: Scope, conversation_ids: dict[int, int]) -> ImportEntry:
    with locate_errors("Todo", index):
        fields = parse_mapping(row)
        conversation = parse_integer(fields, "conversation_id", 0)
        if conversation not in conversation_ids:
            raise BadDocument(f"conversation {conversation} is not in the document.")
        turn = parse_string(fields, "turn_id") if conversation_ids[conversation] else None
        times = {name: parse_milliseconds(fields, name) for name in TIME_FIELDS if fields.get(name) is not None}
        draft = Draft(
            subject=parse_string(fields, "subject") or "",
            description=parse_string(fields, "description") or "",
            completion_criteria=parse_string(fields, "completion_criteria") or "",
            agent_type=parse_string(fields, "agent_type"),
            agent_id=parse_string(fields, "agent_id") or scope.agent_id,
            conversation_id=conversation_ids[conversation],
            turn_id=text.check_name(turn, "turn_id") if turn else None,
            status=parse_status(parse_string(fields, "status") or "pending"),
            position=None if fields.get("position") is None else parse_integer(fields, "position", 0),
            outcome=parse_string(fields, "outcome"),
            depends_on=parse_integers(fields, "depends_on"),
            completed_at=times.get("completed_at") or None,  # 0 means that it has not ended
            checks=import_checks(fields.get("checks")),
            completed_by=parse_completer(fields),
            **parse_fields(fields),
        ).checked()
        if times.get("completed_at") == 0 and draft.status in ENDED_STATUSES:
            raise BadDocument(f"its status is {draft.status}, but completed_at is 0.")
        uuid = text.check_name(parse_string(fields, "uuid") or make_uuid(), "uuid")
        return ImportEntry(parse_integer(fields, "id", -1 - index), uuid, draft, times)


@contextmanager
def locate_errors(part: str, index: int) -> Iterator[None]:
    """Add to an error which part of the document is wrong."""
    try:
        yield
    except Invalid as error:
        raise BadDocument(f"{part} {index + 1} of the document: {error}") from None


def import_entries(tx: Transaction, tenant_id: int, entries: list[ImportEntry]) -> ImportResult:
    """Import all entries or none."""
    if len(entries) > IMPORT_LIMIT:
        raise BadDocument(f"The document has {len(entries):,} todos; at most {IMPORT_LIMIT:,} can be imported at once.")
    check_edges(entries)
    quotas.check_storage(tx, tenant_id)
    existing_ids = todo_store.find_uuids(tx, tenant_id, [entry.uuid for entry in entries])
    fresh = [entry for entry in entries if entry.uuid not in existing_ids]
    lists = {(entry.draft.conversation_id, entry.draft.turn_id) for entry in fresh}
    empty = {list for list in lists if not todo_pages.has_list(tx, tenant_id, *list)}
    ids = {entry.number: existing_ids[entry.uuid] for entry in entries if entry.uuid in existing_ids}
    stored: list[tuple[ImportEntry, Todo]] = []
    for entry in sorted(fresh, key=lambda entry: compute_insert_order(entry, empty)):
        todo = todo_store.insert_todo(tx, tenant_id, entry.draft._replace(depends_on=()), entry.uuid)
        ids[entry.number] = todo.id
        keep_position = (entry.draft.conversation_id, entry.draft.turn_id) in empty
        restored_todo = restore_fields(todo, entry, keep_position=keep_position)
        if restored_todo != todo:
            todo_store.update_todo(tx, tenant_id, todo, restored_todo)
            if not restored_todo.ended:
                todo_store.reserve_positions(tx, tenant_id, restored_todo, restored_todo.position)
        stored.append((entry, restored_todo))
    added = []
    tx.actor = f"import by {tx.actor}" if tx.actor else "import"
    for entry, todo in stored:
        waits_for = tuple(sorted(ids[number] for number in entry.draft.depends_on))
        if waits_for:
            todo_store.replace_edges(tx, tenant_id, todo.id, waits_for)
        added.append(todo._replace(depends_on=waits_for))
        tx.emit(build_todo_event(tenant_id, added[-1], "created"))
        emit_queue_at_commit(tx, tenant_id, todo.turn_id)
    return ImportResult(added, len(entries) - len(fresh))


def compute_insert_order(entry: ImportEntry, empty: set[tuple[int, str | None]]) -> float:
    """Return the sort key for inserting an entry. In an empty list the document's order is kept, and with it ids and positions.
    Entries for an existing list are appended to it, so they are inserted by position; entries without a position come last."""
    if (entry.draft.conversation_id, entry.draft.turn_id) in empty:
        return -1
    return math.inf if entry.draft.position is None else entry.draft.position


def restore_fields(todo: Todo, entry: ImportEntry, *, keep_position: bool) -> Todo:
    if keep_position and entry.draft.position is not None:
        todo = todo._replace(position=entry.draft.position)
    return todo._replace(
        created_at=entry.times.get("created_at", todo.created_at),
        updated_at=entry.times.get("updated_at", todo.updated_at),
        started_at=entry.times.get("started_at", todo.started_at),
    )


def check_edges(entries: Sequence[ImportEntry]) -> None:
    numbers = {entry.number for entry in entries}
    if not len(numbers) == len({entry.uuid for entry in entries}) == len(entries):
        raise BadDocument("Two todos in the document have the same id or uuid.")
    for entry in entries:
        for other in entry.draft.depends_on:
            if other not in numbers:
                raise BadDocument(f"A todo in the document waits for {other}, which is not in the document.")
    cycles.check_acyclic({entry.number: entry.draft.depends_on for entry in entries})


def parse_mapping(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise BadDocument("it is not an object.")
    return row


def parse_string(row: dict[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise BadDocument(f"{name} must be text.")
    return value


def parse_completer(row: dict[str, Any]) -> CompletedBy | None:
    """Parse who completed the todo. A document that does not say so is the word of the person who imports it."""
    value: CompletedBy | None = row.get("completed_by", "person")
    if value is not None and value not in get_args(CompletedBy):
        raise BadDocument(f"completed_by must be {', '.join(get_args(CompletedBy))} or null.")
    return value


def parse_integer(row: dict[str, Any], name: str, default: int) -> int:
    value = row.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise BadDocument(f"{name} must be a whole number.")
    return value


def parse_integers(row: dict[str, Any], name: str) -> tuple[int, ...]:
    values = row.get(name)
    if values is None:
        return ()
    if not isinstance(values, list):
        raise BadDocument(f"{name} must be a list.")
    return tuple(parse_integer({name: value}, name, 0) for value in values)


def parse_milliseconds(row: dict[str, Any], name: str) -> int:
    value = row[name]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LATEST_SECOND:
        raise BadDocument(f"{name} must be a time in epoch seconds.")
    return round(value * 1000)
