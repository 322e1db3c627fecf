"""The entries of a goal's journal, each as a sentence."""

from collections.abc import Callable
from typing import Any

from headway.ledger.text import one_line

SHOWN = 160  # characters of what others wrote
TITLE = 60

Data = dict[str, Any]


def sentence(entry: dict[str, Any]) -> str:
    """One harmless line. Kinds that only a newer Headway writes are named."""
    told = SENTENCES.get(entry["kind"])
    return one_line(told(entry["data"]) if told else entry["kind"].replace("_", " "))


def named(data: Data) -> str:
    return f"#{data.get('sub_goal_id')} “{cut(data.get('description'), TITLE)}”"


def cut(words: Any, most: int = SHOWN) -> str:
    line = one_line(str(words or "")).strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"


def goal_set(data: Data) -> str:
    if data.get("source") == "agent-discovered":
        return f"An agent set the goal: {cut(data.get('evidence'))}"
    return "The goal was set."


def planned(data: Data) -> str:
    return f"Plan {data.get('plan_no')}: {len(data.get('added', ()))} sub-goals."


def replanned(data: Data) -> str:
    changes = ", ".join(f"{len(data.get(what, ()))} {what}" for what in ("added", "kept", "dropped"))
    return f"Plan {data.get('plan_no')} ({changes}), because {cut(data.get('why'))}"


def started(data: Data) -> str:
    who = "the main agent itself" if data.get("mode") == "inline" else f"a {data.get('role')}"
    return f"{named(data)} began, by {who}."


def ended(data: Data) -> str:
    outcome = data.get("outcome") or {}
    words = outcome.get("summary") if data.get("status") == "completed" else outcome.get("error") or outcome.get("summary")
    effort = f"{data.get('duration_s', 0)} s, ${outcome.get('cost_usd') or 0:.4f}"
    return f"{named(data)} {data.get('status')} ({effort}): {cut(words)}"


def evaluated(data: Data) -> str:
    match data.get("divergence"):
        case "none":
            return f"{named(data)} came out as expected."
        case "minor":
            return f"{named(data)} is a little off: {cut(data.get('reason'))}"
    return f"{named(data)} is off: {cut(data.get('reason'))}"


def intervened(data: Data) -> str:
    what = {"message": "was given a hint", "rescope": "was cut anew", "cancel": "was given up", "wait": "gets more time"}
    return f"{named(data)} {what.get(str(data.get('action')), 'was looked after')}: {cut(data.get('why'))}"


def interrupted(data: Data) -> str:
    return f"A process was lost while {len(data.get('agents', ()))} of its agents were at work."


def decided(data: Data) -> str:
    note = f": {cut(data.get('note'))}" if data.get("note") else "."
    return f"The operator decided to {data.get('action')}{note}"


def goal_evaluated(data: Data) -> str:
    return "The goal was found to be met." if data.get("met") else f"The goal is not met yet: {cut(data.get('reason'))}"


SENTENCES: dict[str, Callable[[Data], str]] = {
    "goal_set": goal_set,
    "goal_proposed": lambda data: f"An agent proposed the goal: {cut(data.get('evidence'))}",
    "cycle_began": lambda _data: "Its pursuit began.",
    "planned": planned,
    "replanned": replanned,
    "sub_goal_started": started,
    "sub_goal_ended": ended,
    "sub_goal_skipped": lambda data: f"{named(data)} was skipped: {cut(data.get('reason'))}",
    "evaluated": evaluated,
    "intervened": intervened,
    "interrupted": interrupted,
    "recovered": lambda _data: "It goes on from the last checkpoint.",
    "goal_evaluated": goal_evaluated,
    "paused": lambda data: f"Paused: {cut(data.get('reason'))}",
    "resumed": lambda _data: "It goes on.",
    "decided": decided,
    "abandoned": lambda data: f"Abandoned: {cut(data.get('reason'))}",
    "completed": lambda data: f"Completed: {cut(data.get('summary'))}",
}
