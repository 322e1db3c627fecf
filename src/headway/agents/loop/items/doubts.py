"""Doubts about what an agent is about to write. A doubted call is refused with a hint."""

from functools import partial
from typing import Any

from headway.actions.turn_items import get_item_text
from headway.agents.loop.items.contexts import NOTHING_WRITTEN, list_focus
from headway.agents.loop.items.plan_items import get_task, is_active, list_calls, load_work
from headway.agents.loop.step import Step
from headway.agents.tools import arithmetic
from headway.agents.tools.files import contents
from headway.ledger.errors import HeadwayError
from headway.ledger.items.doubts import find_doubts
from headway.ledger.items.evidence import find_item
from headway.ledger.items.request_items import changes_file, list_paths, list_sources, normalise
from headway.ledger.items.work import join_names


def find_doubt(step: Step, tool: str, arguments: dict[str, Any]) -> str:
    """Return why a file should not be written like this. Each doubt is raised once, except if the write would do harm."""
    path, content = arguments.get("path"), arguments.get("content" if tool == "write_file" else "new")
    if tool not in ("write_file", "edit_file") or not is_active(step) or not isinstance(path, str) or not isinstance(content, str):
        return ""
    path = normalise(path.strip())
    texts = [get_item_text(todo) for todo in step.plan()] or [get_task(step)]
    focused = [get_item_text(todo) for todo in step.plan() if todo.id in list_focus(step)]
    item = find_item(focused, arguments) or find_item(texts, arguments)
    raised = "".join(call.result for call in list_calls(step, step.entries) if not call.succeeded)
    if not item or path not in list_paths(item):
        doubt = doubt_path([item] if item else focused, path)
        return doubt if doubt not in raised or item else ""
    if focused and item not in focused:
        return f"{NOTHING_WRITTEN} {path} belongs to another item, which is not to be done now."
    exists = partial(contents.exists, step.context.execution.workspace)
    for kind, reason in find_doubts(item, tool, path, content, load_work(step), exists):
        explained = explain_expression(content) if kind == "expression" else ""
        if kind in ("absent", "source", "lost") or (explained or reason) not in raised:
            return f"{NOTHING_WRITTEN} {explained or reason}"
    return ""


def doubt_path(texts: list[str], path: str) -> str:
    """Doubt a file that no item names, if all items name the files that they change."""
    meant = [name for text in texts if changes_file(text) for name in list_paths(text) if name not in list_sources(text)]
    return f"{NOTHING_WRITTEN} The path is {join_names(meant)}, not {path}." if meant else ""


def explain_expression(content: str) -> str:
    """Say the value of a calculation that was written instead of its result."""
    expression = content.partition("=")[0].replace("×", "*").replace("^", "**").strip()
    try:
        value = arithmetic.calculate(expression)
    except HeadwayError:
        return ""
    return f"{expression} = {value}. Write only {value}."
