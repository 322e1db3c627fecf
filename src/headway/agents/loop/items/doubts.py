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
from headway.ledger.items.evidence import find_doubts
from headway.ledger.items.request_items import changes_file, list_paths, list_sources


def find_doubt(step: Step, tool: str, arguments: dict[str, Any]) -> str:
    """Return why a file should not be written like this. Each doubt is raised once, except about files that must not be written."""
    path, content = arguments.get("path"), arguments.get("content" if tool == "write_file" else "new")
    if tool not in ("write_file", "edit_file") or not is_active(step) or not isinstance(path, str) or not isinstance(content, str):
        return ""
    path = path.strip().removeprefix("./")
    texts = [get_item_text(todo) for todo in step.plan()] or [get_task(step)]
    item = find_item(texts, path)
    if not item:
        meant = next((named for text in texts if changes_file(text) for named in list_paths(text) if path.endswith(named)), "")
        return f"{NOTHING_WRITTEN} The path is {meant}, not {path}." if meant else ""
    focused = [get_item_text(todo) for todo in step.plan() if todo.id in list_focus(step)]
    if focused and not any(path in list_paths(text) for text in focused):
        return f"{NOTHING_WRITTEN} {path} belongs to another item, which is not to be done now."
    calls = list(list_calls(step, step.entries))
    raised = "".join(call.result for call in calls if not call.succeeded)
    exists = partial(contents.exists, step.context.execution.workspace)
    for kind, reason in find_doubts(item, tool, path, content, load_work(step), exists):
        explained = explain_expression(content) if kind == "expression" else ""
        if kind in ("absent", "source") or (explained or reason) not in raised:
            return f"{NOTHING_WRITTEN} {explained or reason}"
    return ""


def find_item(texts: list[str], path: str) -> str:
    """Find the item that a file belongs to: first one that writes it, then any that names it."""
    naming = [text for text in texts if path in list_paths(text) and changes_file(text)]
    return next((text for text in naming if path not in list_sources(text)), naming[0] if naming else "")


def explain_expression(content: str) -> str:
    """Say the value of a calculation that was written instead of its result."""
    expression = content.partition("=")[0].replace("×", "*").replace("^", "**").strip()
    try:
        value = arithmetic.calculate(expression)
    except HeadwayError:
        return ""
    return f"{expression} = {value}. Write only {value}."
