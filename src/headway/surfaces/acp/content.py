"""Content blocks of prompts, and the updates that show a turn in an editor."""

import json
import os
from typing import Any, Final, NamedTuple

from headway.ledger.attachment import Attachment, build_attachment, decode_base64
from headway.ledger.errors import Invalid
from headway.ledger.text import to_one_line
from headway.surfaces.turn_events import (
    QuestionAnswered,
    QuestionAsked,
    TextAppended,
    TextWithdrawn,
    TodosUpdated,
    ToolCallFinished,
    ToolCallStarted,
    TurnEvent,
)

TITLE_LENGTH: Final = 120
RESULT_LENGTH: Final = 20_000  # characters of a tool's result that are shown
TOOL_KINDS: Final = {
    "read_file": "read",
    "list_files": "search",
    "search_files": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "run_command": "execute",
    "run_python": "execute",
    "http_get": "fetch",
    **dict.fromkeys(
        ("create_todo", "list_todo", "start_todo", "complete_todo", "manage_todos", "write_todos", "TodoWrite", "update_plan"),
        "think",
    ),
}
PLAN_STATUSES: Final = {"done": "completed", "current": "in_progress", "pending": "pending"}

Update = dict[str, Any]


class Prompt(NamedTuple):
    text: str
    attachments: list[Attachment]


def parse_prompt(blocks: Any) -> Prompt:
    """Read the content blocks of a prompt. Files that the editor embeds and images become attachments."""
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise Invalid("prompt must be a list of content blocks.")
    texts: list[str] = []
    attachments: list[Attachment] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "resource_link", "uri": str(uri)}:
                texts.append(f"[{block.get('name') or uri}]({uri})")
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
                attachments.append(build_attachment(os.path.basename(uri) or "file", text.encode(), "text/plain"))
                texts.append(f"[{uri}]")
            case {"type": "image", "data": str(data)}:
                attachments.append(build_attachment(f"image-{len(attachments) + 1}", decode_image(data)))
            case _:
                raise Invalid(f"Content of the type {str(block.get('type'))[:40]!r} is not supported.")
    return Prompt(" ".join(texts).strip(), attachments)


def decode_image(data: str) -> bytes:
    try:
        return decode_base64(data)
    except ValueError:
        raise Invalid("The data of an image must be base64.") from None


def build_updates(event: TurnEvent, folder: str) -> list[Update]:
    """Return what an editor is shown for an event of a turn."""
    match event:
        case TextAppended(_, delta):
            return [build_chunk("agent_message_chunk", delta)]
        case TextWithdrawn():  # the editor has shown it, so what follows begins a new paragraph
            return [build_chunk("agent_message_chunk", "\n\n")]
        case ToolCallStarted(id, tool, arguments):
            return [{"sessionUpdate": "tool_call", **build_call(id, tool, arguments, folder), "status": "in_progress"}]
        case ToolCallFinished(id, result, is_error):
            return [build_result(id, result, is_failed=is_error)]
        case QuestionAsked(id, arguments):
            return [{"sessionUpdate": "tool_call", **build_call(id, "ask_person", arguments, folder), "status": "pending"}]
        case QuestionAnswered(id, answer, is_canceled):
            return [build_result(id, answer, is_failed=is_canceled)]
        case TodosUpdated(todos):
            return [build_plan(todos)]
    return []


def build_chunk(kind: str, text: str) -> Update:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def build_call(call_id: str, tool: str, arguments: Any, folder: str) -> Update:
    values = arguments if isinstance(arguments, dict) else {}
    path = values.get("path")
    subject = next((value for name in ("path", "pattern", "command", "url", "question") if (value := values.get(name))), "")
    shown = subject if isinstance(subject, str) else json.dumps(subject, ensure_ascii=False)
    title = to_one_line(f"{tool} {shown}".strip())[:TITLE_LENGTH]
    call: Update = {"toolCallId": call_id, "title": title, "kind": TOOL_KINDS.get(tool, "other"), "rawInput": values}
    if isinstance(path, str) and tool in TOOL_KINDS:
        call["locations"] = [{"path": os.path.normpath(os.path.join(folder, path))}]
    return call


def build_result(call_id: str, result: Any, *, is_failed: bool) -> Update:
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=2)
    shown = text if len(text) <= RESULT_LENGTH else f"{text[:RESULT_LENGTH]}…"
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call_id,
        "status": "failed" if is_failed else "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": shown}}],
    }


def build_plan(todos: dict[str, Any]) -> Update:
    """Return the whole plan, as the protocol wants it with each change."""
    entries = [
        {"content": item["description"], "priority": "medium", "status": PLAN_STATUSES[item["status"]]} for item in todos["items"]
    ]
    return {"sessionUpdate": "plan", "entries": entries}
