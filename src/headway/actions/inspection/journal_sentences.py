"""Renders the entries of a goal's journal, each as a sentence."""

from collections.abc import Callable
from typing import Any

from headway.ledger.text import cut_at_word, to_one_line

MAX_QUOTE_LENGTH = 160  # characters of quoted text
MAX_TITLE_LENGTH = 60

Data = dict[str, Any]


def describe_entry(entry: dict[str, Any]) -> str:
    """Describe a journal entry in one line without control characters. Unknown kinds, written by a newer version, are named."""
    describe = SENTENCES.get(entry["kind"])
    return to_one_line(describe(entry["data"]) if describe else entry["kind"].replace("_", " "))


def format_sub_goal(data: Data) -> str:
    title = cut_at_word(to_one_line(str(data.get("title") or data.get("description") or "")).strip(), MAX_TITLE_LENGTH)
    return f"#{data.get('sub_goal_id')} “{title}”"


def shorten(text: Any, limit: int = MAX_QUOTE_LENGTH) -> str:
    line = to_one_line(str(text or "")).strip()
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def say_once(word: str, reason: str) -> str:
    """Begin a sentence with a word, unless the reason does so already."""
    return reason if reason.startswith(word) else f"{word}: {reason}"


def describe_goal_set(data: Data) -> str:
    if data.get("source") == "agent-discovered":
        return f"An agent set the goal: {shorten(data.get('evidence'))}"
    return f"Goal #{data['repeat_of']} was run again." if data.get("repeat_of") else "The goal was set."


def describe_plan(data: Data) -> str:
    return f"Plan {data.get('plan_no')}: {len(data.get('added', ()))} sub-goals."


def describe_replan(data: Data) -> str:
    changes = ", ".join(f"{len(data.get(kind, ()))} {kind}" for kind in ("added", "kept", "dropped"))
    return f"Plan {data.get('plan_no')} ({changes}): {shorten(data.get('why'))}"


def describe_start(data: Data) -> str:
    agent = "the main agent" if data.get("mode") == "inline" else f"a {data.get('role')}"
    return f"{format_sub_goal(data)} started, by {agent}."


def describe_end(data: Data) -> str:
    outcome = data.get("outcome") or {}
    result = outcome.get("summary") if data.get("status") == "completed" else outcome.get("error") or outcome.get("summary")
    effort = f"{data.get('duration_s', 0)} s, ${outcome.get('cost_usd') or 0:.4f}"
    return f"{format_sub_goal(data)} {data.get('status')} ({effort}): {shorten(result)}"


def describe_evaluation(data: Data) -> str:
    match data.get("divergence"):
        case "none":
            return f"{format_sub_goal(data)} came out as expected."
        case "minor":
            return f"{format_sub_goal(data)} diverged slightly: {shorten(data.get('reason'))}"
    return f"{format_sub_goal(data)} diverged: {shorten(data.get('reason'))}"


def describe_intervention(data: Data) -> str:
    verbs = {"message": "got a hint", "rescope": "was rescoped", "cancel": "was canceled", "wait": "got more time"}
    return f"{format_sub_goal(data)} {verbs.get(str(data.get('action')), 'was checked')}: {shorten(data.get('why'))}"


def describe_interruption(data: Data) -> str:
    return f"A process died while {len(data.get('agents', ()))} of its agents were running."


def describe_decision(data: Data) -> str:
    note = f": {shorten(data.get('note'))}" if data.get("note") else "."
    return f"The operator decided to {data.get('action')}{note}"


def describe_edit(data: Data) -> str:
    return f"A person changed the {' and the '.join(data.get('fields', ()))}."


def describe_goal_evaluation(data: Data) -> str:
    return "The goal is met." if data.get("met") else f"The goal is not met yet: {shorten(data.get('reason'))}"


SENTENCES: dict[str, Callable[[Data], str]] = {
    "goal_set": describe_goal_set,
    "goal_proposed": lambda data: f"An agent proposed the goal: {shorten(data.get('evidence'))}",
    "cycle_began": lambda _data: "A planning cycle began.",
    "planned": describe_plan,
    "replanned": describe_replan,
    "sub_goal_started": describe_start,
    "sub_goal_ended": describe_end,
    "sub_goal_skipped": lambda data: f"{format_sub_goal(data)} was skipped: {shorten(data.get('reason'))}",
    "evaluated": describe_evaluation,
    "intervened": describe_intervention,
    "interrupted": describe_interruption,
    "recovered": lambda _data: "Recovered from the last checkpoint.",
    "goal_evaluated": describe_goal_evaluation,
    "paused": lambda data: say_once("Paused", shorten(data.get("reason"))),
    "resumed": lambda _data: "Resumed.",
    "decided": describe_decision,
    "edited": describe_edit,
    "repeated": lambda data: f"Run again as goal #{data.get('goal_id')}.",
    "abandoned": lambda data: say_once("Abandoned", shorten(data.get("reason"))),
    "completed": lambda data: f"Completed: {shorten(data.get('summary'))}",
}
