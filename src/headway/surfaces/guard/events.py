"""The events of assistants' hooks, in one form, and the answers to them. Imports next to nothing, for quick hooks."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

EVENT_KINDS = {
    "SessionStart": "start",
    "sessionStart": "start",
    "PostToolUse": "plan",
    "AfterTool": "plan",
    "postToolUse": "plan",
    "Stop": "stop",
    "SubagentStop": "stop",
    "AfterAgent": "stop",
    "stop": "stop",
    "subagentStop": "stop",
    "afterAgentResponse": "words",
    "SessionEnd": "end",
    "sessionEnd": "end",
}
STATUSES = {
    "pending": "pending",
    "blocked": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "done": "completed",
    "cancelled": "canceled",
    "canceled": "canceled",
    "deleted": "canceled",
}
LIST_TOOLS = ("todowrite", "todo_write", "write_todos", "update_plan")  # they replace the whole list
TASK_TOOLS = ("taskcreate", "taskupdate", "tasklist")  # they change one task; the client numbers them
RUNNING = ("running", "pending", "in_progress")


class ListedItem(NamedTuple):
    """An item of an assistant's list. Fields are None if the event does not say."""

    subject: str | None
    status: str | None
    key: str = ""
    description: str = ""


class HookEvent(NamedTuple):
    client: str
    name: str  # the client's own name of the event
    kind: str  # start, plan, words, stop or end; empty: nothing that matters here
    session: str
    folder: str
    agent: str = ""  # the client's id of a sub-agent
    items: tuple[ListedItem, ...] = ()
    is_whole: bool = False  # whether the items are the whole list
    answer: str = ""  # the last words before a stop
    is_repeated: bool = True
    is_waiting: bool = False  # whether the assistant stops only until something happens, or to show a plan

    @property
    def key(self) -> str:
        """The key of the session's conversation."""
        return f"{self.client}:{self.session}"


class HookAnswer(NamedTuple):
    refusal: str = ""  # sends the assistant back
    context: str = ""  # for the assistant
    notice: str = ""  # for the person


def parse_event(client: str, raw: bytes, environment: Mapping[str, str]) -> HookEvent:
    """Parse what a hook got on standard input. Raises ValueError if it is not the event of a client."""
    try:
        document = json.loads(raw)
    except ValueError as error:
        raise ValueError(f"The event is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError("The event is not a JSON object.")
    name = take_text(document, "hook_event_name")
    session = take_text(document, "session_id") or take_text(document, "conversation_id")
    roots = document.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    folder = environment.get("CLAUDE_PROJECT_DIR") or environment.get("GEMINI_PROJECT_DIR") or take_text(document, "cwd") or root
    event = HookEvent(client, name, EVENT_KINDS.get(name, ""), session, folder or ".", agent=take_text(document, "agent_id"))
    if not session:
        return event._replace(kind="")
    if event.kind == "plan":
        return add_items(event, document)
    if event.kind == "words":
        return event._replace(answer=take_text(document, "text"))
    if event.kind == "stop":
        is_sub_agent = name.lower() == "subagentstop"
        return add_stop(event if is_sub_agent == bool(event.agent) else event._replace(kind=""), document)
    return event


def take_text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


def add_stop(event: HookEvent, document: Mapping[str, Any]) -> HookEvent:
    tasks = document.get("background_tasks")
    is_waiting = document.get("permission_mode") == "plan" or document.get("status") in ("aborted", "error")
    if isinstance(tasks, list):
        is_waiting = is_waiting or any(isinstance(task, dict) and task.get("status") in RUNNING for task in tasks)
    answer = take_text(document, "last_assistant_message") or take_text(document, "prompt_response")
    loops = document.get("loop_count")
    is_repeated = loops > 0 if isinstance(loops, int) else document.get("stop_hook_active", True) is not False
    return event._replace(answer=answer, is_waiting=is_waiting, is_repeated=is_repeated)


def add_items(event: HookEvent, document: Mapping[str, Any]) -> HookEvent:
    """Read an assistant's list from the call of its planning tool."""
    tool = take_text(document, "tool_name").lower()
    given = parse_if_text(document.get("tool_input"))
    if tool in LIST_TOOLS:
        items = next((given[name] for name in ("todos", "plan", "items") if isinstance(given.get(name), list)), None)
        if items is None:
            return event._replace(kind="")
        return event._replace(items=tuple(map(read_item, filter_objects(items))), is_whole=given.get("merge") is not True)
    if tool in TASK_TOOLS:
        return add_tasks(event, tool, given, parse_if_text(document.get("tool_response")))
    return event._replace(kind="")


def parse_if_text(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    return value if isinstance(value, dict) else {}


def filter_objects(items: list[Any]) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)]


def read_item(item: Mapping[str, Any]) -> ListedItem:
    subject = next((text for name in ("content", "step", "title", "subject", "description") if (text := take_text(item, name))), "")
    return ListedItem(subject.strip(), STATUSES.get(take_text(item, "status"), "pending"))


def add_tasks(event: HookEvent, tool: str, given: Mapping[str, Any], result: Mapping[str, Any]) -> HookEvent:
    if tool == "tasklist":
        tasks = result.get("tasks")
        if not isinstance(tasks, list):
            return event._replace(kind="")
        return event._replace(items=tuple(map(read_task, filter_objects(tasks))))
    if tool == "taskcreate":
        task = result.get("task")
        key = str(task.get("id", "")) if isinstance(task, dict) else ""
        item = ListedItem(take_text(given, "subject").strip(), "pending", key, take_text(given, "description"))
        return event._replace(items=(item,)) if key else event._replace(kind="")
    if result.get("success") is False:
        return event._replace(kind="")
    status = STATUSES.get(take_text(given, "status"))
    return event._replace(items=(ListedItem(take_text(given, "subject").strip() or None, status, str(given.get("taskId", ""))),))


def read_task(task: Mapping[str, Any]) -> ListedItem:
    return ListedItem(take_text(task, "subject").strip(), STATUSES.get(take_text(task, "status")), str(task.get("id", "")))


def render_answer(client: str, event_name: str, answer: HookAnswer) -> str:
    """Return what a client expects on standard output. Claude Code is content with nothing; the others want JSON."""
    document: dict[str, Any] = {}
    if client == "cursor":
        document = {"followup_message": answer.refusal, "additional_context": answer.context}
    elif client == "opencode":
        document = {"refusal": answer.refusal, "context": answer.context, "notice": answer.notice}
    else:
        if answer.refusal:
            document = {"decision": "deny" if client == "gemini" else "block", "reason": answer.refusal}
        if answer.context:
            document["hookSpecificOutput"] = {"hookEventName": event_name, "additionalContext": answer.context}
        document["systemMessage"] = answer.notice
    document = {name: value for name, value in document.items() if value}
    return "" if client == "claude-code" and not document else json.dumps(document)
