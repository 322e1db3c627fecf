"""Copies of conversations and turns, whose rows get new ids and refer to each other by them."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import uuid4

from headway.actions.todos import finding, proof, todos
from headway.actions.todos.turn_state import emit_queue_at_commit
from headway.actions.turns import turns
from headway.ledger.check import encode_checks
from headway.ledger.events import TURN_ENDS, LoggedEvent, build_todo_event, restore_texts, to_json
from headway.ledger.parsing.todo_fields import parse_fields
from headway.ledger.plan_digest import PlanDigest, compute_plan_digest
from headway.ledger.run import Run
from headway.ledger.text import MAX_INTEGER
from headway.ledger.todo import Draft, Todo
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import files as attachment_store
from headway.storage.stores import forks as fork_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

# An item as the runtime shows it: 14 [pending] buy milk
SHOWN_ITEM: Final = re.compile(r"(?<![\w.])(\d{1,19})(?= \[(?:pending|in_progress|completed|canceled)\] )")
ID_KEYS: Final = frozenset(("id", "todoId"))
ID_LIST_KEYS: Final = frozenset(("delete", "depends_on"))
DELEGATE: Final = "delegate"
TODO_TOOLS: Final = frozenset(
    (
        *("create_todo", "list_todo", "complete_todo", "start_todo", "manage_todos", "write_todos", "TodoWrite", "update_plan"),
        *("todo_add", "todo_update", "todo_list", "todo_ready", "todo_claim"),
    )
)


def renumber_messages(stored: list[str], numbers: Mapping[str, int], plan: PlanDigest) -> list[str]:
    """Rewrite the messages of one run. The last one that shows the whole plan gets the digest of the copied plan."""
    renumbering = Renumbering(numbers)
    messages = [renumbering.rewrite(json.loads(message)[0]) for message in stored]
    shown = [facts for message in messages if "plan_digest" in (facts := (message.get("metadata") or {}).get("headway") or {})]
    if shown:
        shown[-1] |= {"plan_digest": plan.plan, "item_digests": plan.items}
    return [to_json([message]) for message in messages]


class Renumbering:
    """Rewrites the messages of one run, in order."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers  # of the copies, by the numbers and UUIDs of the originals
        self.todo_calls: set[str] = set()  # the ids of calls whose results name todos

    def rewrite(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message with the new numbers."""
        facts = (message.get("metadata") or {}).get("headway")
        for part in message["parts"]:
            match part["part_kind"]:
                case "tool-call":
                    self.rewrite_call(part)
                case "tool-return" if part["tool_call_id"] in self.todo_calls and isinstance(part["content"], str):
                    part["content"] = self.rewrite_result(part["content"])
                case "user-prompt" if facts is not None and isinstance(part["content"], str):
                    part["content"] = self.rewrite_text(part["content"])
        if facts and "plan" in facts:
            facts["plan"] = [{**item, "id": str(self.find(item["id"]))} for item in facts["plan"]]
            facts["item_digests"] = {str(self.find(name)): digest for name, digest in facts.get("item_digests", {}).items()}
        return message

    def rewrite_call(self, part: dict[str, Any]) -> None:
        arguments = part.get("args")
        try:
            values = json.loads(arguments) if isinstance(arguments, str) and arguments.strip() else arguments
        except ValueError:
            return  # the model wrote no valid JSON
        if not isinstance(values, dict):
            return
        name = values.get("name") if part["tool_name"] == "use_tool" else part["tool_name"]
        if name in TODO_TOOLS or name == DELEGATE:
            values = self.rewrite_value(values)
            part["args"] = encode_like(arguments, values) if isinstance(arguments, str) else values
        if name in TODO_TOOLS:
            self.todo_calls.add(part["tool_call_id"])

    def rewrite_result(self, content: str) -> str:
        try:
            return json.dumps(self.rewrite_value(json.loads(content)), ensure_ascii=False)
        except ValueError:
            return self.rewrite_text(content)

    def rewrite_value(self, value: Any, key: str = "") -> Any:
        """Rewrite the numbers in a JSON value: ids under the keys that hold ids, and the numbers of shown items."""
        match value:
            case dict():
                return {name: self.rewrite_value(member, name) for name, member in value.items()}
            case list():
                return [self.rewrite_value(member, "id" if key in ID_LIST_KEYS else "") for member in value]
            case int() if key in ID_KEYS and not isinstance(value, bool):
                return self.find(value)
            case str() if key in ID_KEYS:
                return str(self.find(value))
            case str():
                return self.rewrite_text(value)
        return value

    def rewrite_text(self, text: str) -> str:
        return SHOWN_ITEM.sub(lambda match: str(self.find(match[1])), text)

    def find(self, name: Any) -> Any:
        return self.numbers.get(str(name).removeprefix("#"), name)


def encode_like(original: str, values: dict[str, Any]) -> str:
    """Encode arguments with or without spaces, as the model did."""
    separators = None if '": ' in original else (",", ":")
    return json.dumps(values, ensure_ascii=False, separators=separators)


# Copies of a conversation's rows for a fork: its earlier turns, its todos as they were, and the events that people see.


CALL_KINDS: Final = ("message", "tool_call", "tool_result")
TODO_KINDS: Final = ("todo_changed", "todos_moved")
NOT_COPIED: Final = ("turn_id", "models", "usage", "duration_s")  # in events; a copy costs nothing
TURN_KINDS: Final = ("turn_started", *CALL_KINDS, *sorted(TURN_ENDS))


class ConversationCopy:
    """A conversation and its copy, with the ids that the copied turns and todos have there."""

    def __init__(self, tx: Transaction, tenant_id: int, source_id: int, conversation_id: int) -> None:
        self.tx = tx
        self.tenant_id = tenant_id
        self.source_id = source_id
        self.conversation_id = conversation_id
        self.turn_ids: dict[str, str] = {}
        self.run_ids: list[str] = []
        self.todo_ids: dict[int, int] = {}

    # Turns

    def copy_history(self, source: Run, before: int) -> None:
        """Copy the turns that ended before the forked one, oldest first. Their costs are not copied."""
        by_turn: dict[str, list[LoggedEvent]] = {}
        for event in fork_store.list_events(self.tx, self.tenant_id, self.source_id, TURN_KINDS, 0, before):
            by_turn.setdefault(event.turn_id or "", []).append(event)
        for earlier in reversed(run_store.list_earlier_turns(self.tx, source)):
            run = self.copy_ended_turn(earlier)
            self.emit_copies(earlier, run, by_turn.get(earlier.turn_id or "", []))

    def copy_ended_turn(self, earlier: Run) -> Run:
        turn = finding.get_turn(self.tx, self.tenant_id, earlier.turn_id or "")
        turn_id = str(uuid4())
        conversation_store.insert_turn(
            self.tx, self.tenant_id, turn._replace(id=turn_id, conversation_id=self.conversation_id, waiting=0)
        )
        run = earlier._replace(
            id=earlier.id[:8] + str(uuid4())[8:],
            conversation_id=self.conversation_id,
            turn_id=turn_id,
            reserved=0,
            cost=0,
            unread=0,
            hint="",
        )
        run_store.insert_run(self.tx, run)
        self.copy_run(earlier, run, MAX_INTEGER)
        return run

    def copy_run(self, source: Run, run: Run, end: int) -> None:
        """Copy the messages of a run with a number below `end`, with their tool calls and attachments."""
        self.turn_ids[source.turn_id or ""] = run.turn_id or ""
        self.run_ids.append(run.id)
        fork_store.copy_attachments(self.tx, self.tenant_id, source.turn_id or "", run.turn_id or "")
        fork_store.copy_transcript(self.tx, self.tenant_id, source.id, run.id, end)
        fork_store.copy_effects(self.tx, self.tenant_id, source.id, run.id, end)

    def copy_events(self, source: Run, run: Run, first: int, before: int, last_message: int) -> None:
        """Copy the messages and the tool calls of the forked turn itself."""
        events = fork_store.list_events(self.tx, self.tenant_id, self.source_id, CALL_KINDS, first, before)
        own = [event for event in events if event.turn_id == source.turn_id]
        self.emit_copies(source, run, [event for event in own if event.kind != "message" or event.seq < last_message])

    def emit_copies(self, source: Run, run: Run, events: list[LoggedEvent]) -> None:
        """Emit events again for a copied run. Its sub-agents are not copied, so their events are left out."""
        turn_id = run.turn_id or ""
        files = attachment_store.list_by_turns(self.tx, self.tenant_id, [turn_id]).get(turn_id, ())
        attachments = tuple(files)
        for event in events:
            data: dict[str, Any] = json.loads(event.data)
            if data.get("run_id", source.id) != source.id:
                continue
            if event.kind == "message":
                turns.append_message(self.tx, run, data["role"], data["content"], attachments, data.get("kind", "text"))
                attachments = ()  # they came with the turn's first message
                continue
            own_ids = {"conversation_id": self.conversation_id, "run_id": run.id}
            mapped = {name: own_ids.get(name, value) for name, value in data.items() if name not in NOT_COPIED}
            turns.emit_event(self.tx, run, event.kind, {**mapped, "replayed": True})

    # Todos

    def copy_todos(self, before: int, forked_turn_id: str, plan: dict[int, str] | None) -> None:
        """Copy the todos of the conversation and of its copied turns, as they were before an event.

        `plan` has the statuses that the forked turn's model was shown. It decides where the events do not tell before and after.
        """
        events = fork_store.list_events(self.tx, self.tenant_id, self.source_id, TODO_KINDS, 0, MAX_INTEGER)
        copies: list[tuple[dict[str, Any], Todo]] = []
        for todo_id, versions in group_versions(events).items():
            row = choose_version(versions, before, plan.get(todo_id) if plan else None)
            is_unseen = plan is not None and row and row["turn_id"] == forked_turn_id and todo_id not in plan
            if row and not is_unseen and (row["turn_id"] is None or row["turn_id"] in self.turn_ids):
                copies.append((row, self.insert_todo(row)))
        for row, todo in copies:
            self.copy_dependencies(row, todo)
        for turn_id, copy_id in self.turn_ids.items():
            original, copied = (self.source_id, turn_id), (self.conversation_id, copy_id)
            fork_store.copy_plan_source(self.tx, self.tenant_id, original, copied)
        self.copy_queue_deletions(before, forked_turn_id)
        self.copy_names()
        for _, todo in copies:
            emit_queue_at_commit(self.tx, self.tenant_id, todo.turn_id)

    def insert_todo(self, row: dict[str, Any]) -> Todo:
        """Insert a copy of a todo with its times and its position."""
        draft = Draft(
            row["subject"],
            row["description"],
            row["completion_criteria"],
            row["agent_type"],
            row["agent_id"],
            self.conversation_id,
            self.turn_ids[row["turn_id"]] if row["turn_id"] else None,
            row["status"],
            outcome=row["outcome"],
            checks=encode_checks(row.get("checks", [])),
            completed_by=row.get("completed_by"),
            **parse_fields(row),
        )
        todo = todo_store.insert_todo(self.tx, self.tenant_id, draft, todos.make_uuid())
        times = {name: row[name] * 1000 for name in ("created_at", "updated_at", "started_at", "completed_at")}
        copied = todo._replace(position=row["position"], proof=row.get("proof", "none"), **times)
        todo_store.update_todo(self.tx, self.tenant_id, todo, copied)
        todo_store.reserve_positions(self.tx, self.tenant_id, copied, copied.position)
        self.todo_ids[row["id"]] = todo.id
        proof.copy_receipt(self.tx, self.tenant_id, "todo", row["id"], copied)
        return copied

    def copy_dependencies(self, row: dict[str, Any], todo: Todo) -> None:
        """Copy a todo's dependencies: on copies, and on tenant-wide todos, of which there is only one. Then emit the todo."""
        wanted = sorted(self.todo_ids.get(todo_id, todo_id) for todo_id in row["depends_on"])
        if wanted:
            existing = todo_store.lock_existing(self.tx, self.tenant_id, wanted)
            todo_store.replace_edges(self.tx, self.tenant_id, todo.id, sorted(existing))
            todo = todo._replace(depends_on=tuple(sorted(existing)))
        self.tx.emit(build_todo_event(self.tenant_id, todo, "created"))

    def copy_queue_deletions(self, before: int, turn_id: str) -> None:
        """Take the done items out of the fork's queue that were deleted from the original's."""
        event = fork_store.find_last_event(self.tx, self.tenant_id, self.source_id, turn_id, "todos_updated", before)
        shown = {item["id"] for item in json.loads(event.data)["items"]} if event else set()
        for todo_id, copy_id in self.todo_ids.items():
            copied = todo_store.find_todo(self.tx, self.tenant_id, copy_id)
            if event and copied and copied.turn_id == self.turn_ids[turn_id] and copied.ended and todo_id not in shown:
                todo_store.dequeue(self.tx, self.tenant_id, copied)

    def copy_names(self) -> None:
        """Replace the numbers of the todos in the copied messages, and store the former numbers and UUIDs, which texts may name. A
        fork of a fork has the names of both."""
        uuids = fork_store.list_todo_uuids(self.tx, self.tenant_id, self.source_id)
        former = fork_store.list_former_names(self.tx, self.tenant_id, self.source_id)
        names = {name: self.todo_ids[todo_id] for name, todo_id in former if todo_id in self.todo_ids}
        for todo_id, copy_id in self.todo_ids.items():
            names[str(todo_id)] = copy_id
            if todo_id in uuids:
                names[uuids[todo_id]] = copy_id
        fork_store.insert_former_names(self.tx, self.tenant_id, self.conversation_id, names)
        for run_id, turn_id in zip(self.run_ids, self.turn_ids.values(), strict=True) if names else ():
            plan = todo_store.list_by_turn(self.tx, self.tenant_id, turn_id)
            messages = fork_store.list_transcript(self.tx, self.tenant_id, run_id)
            rewritten = renumber_messages([stored.message for stored in messages], names, compute_plan_digest(plan))
            for stored, message in zip(messages, rewritten, strict=True):
                fork_store.replace_message(self.tx, self.tenant_id, run_id, stored.n, message)


class TodoVersion(NamedTuple):
    seq: int
    row: dict[str, Any] | None  # None if it was deleted


def group_versions(events: list[LoggedEvent]) -> dict[int, list[TodoVersion]]:
    """Group the states of todos by their number, in order of their creation. An event lacks the long texts that it did not
    change; they show the state before."""
    versions: dict[int, list[TodoVersion]] = {}
    for event in events:
        data = json.loads(event.data)
        if event.kind == "todos_moved":
            for todo_id, position in data["positions"].items():
                states = versions.get(int(todo_id))
                if states and (row := states[-1].row):
                    moved = {**row, "position": position, "updated_at": data["updated_at"]}
                    states.append(TodoVersion(event.seq, moved))
            continue
        states = versions.setdefault(data["todo"]["id"], [])
        row = restore_texts(data, "todo", states[-1].row if states else None) if data["change"] != "deleted" else None
        states.append(TodoVersion(event.seq, row))
    return versions


def choose_version(versions: list[TodoVersion], before: int, status: str | None) -> dict[str, Any] | None:
    """Choose the last state before an event; if the status then was another one, the first state with that status after it."""
    earlier = [version.row for version in versions if version.seq < before]
    row = earlier[-1] if earlier else None
    if status is None or (row and row["status"] == status):
        return row
    later = (version.row for version in versions if version.seq >= before and version.row)
    return next((candidate for candidate in later if candidate["status"] == status), row)
