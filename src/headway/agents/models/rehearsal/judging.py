"""The rehearsal model's rule-based answers to side questions: judging an answer, summarising a text, planning a goal."""

import json
import re
from collections.abc import Callable, Collection
from typing import Any, Final

from headway.agents.instructions import prompts
from headway.agents.models.rehearsal import reading
from headway.agents.models.rehearsal.reading import CannotRun, RecentResults, RehearsalCall
from headway.agents.transcripts.transcript import Facts
from headway.ledger.framing import format_inline
from headway.ledger.goal import OPEN_STATUSES

FAILURE_WORDS: Final = re.compile(
    r"\b(?:failed|could(?: not|n['’]t)|can(?:not|['’]t)|unable|was not able|not done)\b", re.IGNORECASE
)
BY_RULE_REASON: Final = "Rehearsal, by rule: there is an outcome, and it does not say that it failed."
READ_ONLY_TOOLS: Final = frozenset(("read_file", "list_files", "recall", "todo_list"))
NOTE_FILE: Final = "not-done.md"
LONG_WORD: Final = re.compile(r"[a-z0-9]{4,20}")


def assess_answer(answer: str) -> str:
    if not answer.strip():
        return json.dumps({"ok": False, "reason": "The answer is empty."})
    if FAILURE_WORDS.search(answer):
        return json.dumps({"ok": False, "reason": "The answer says that it was not done."})
    return json.dumps({"ok": True, "reason": "Rehearsal, by rule: there is an answer, and it does not say that it failed."})


def summarise(text: str) -> str:
    sentences = [format_inline(sentence) for sentence in re.split(r"(?<=[.!?])\s+|\n+", text) if sentence.strip()]
    if len(sentences) < 2:
        return f"It said: {''.join(sentences) or 'nothing'}"
    return f"It began: {sentences[0]} … It ended: {sentences[-1]}"


def fill_form(offered: Collection[str], facts: Facts) -> RehearsalCall | None:
    """Fill in the form that is asked for; return None if the model is not asked for one."""
    form = next((name for name in FORMS if name in offered), None)
    return RehearsalCall(form, FORMS[form](facts)) if form else None


def plan_goal(facts: Facts) -> dict[str, Any]:
    """Plan one sub-goal per piece of work. Pieces that only read files come after those that write them."""
    pieces = split_goal(facts["goal"])
    sub_goals: list[dict[str, Any]] = []
    parallel = sum(not is_read_only(piece) for piece in pieces) > 1
    for number, piece in enumerate(pieces, 1):
        last = is_read_only(piece)
        assignment = {"mode": "agent", "role": "writer"} if parallel and not last else {"mode": "inline"}
        sub_goals.append(
            {
                "id": f"step-{number}",
                "title": piece.partition(":")[0],
                "description": piece,
                "expected_outcome": "The work is done, and its result is stated.",
                "depends_on": [sub_goal["id"] for sub_goal in sub_goals] if last else [],
                "priority": max(1, 11 - number),
                "expected_value": 0.9,
                "kind": "look" if last else "write",
                **assignment,
            }
        )
    return {"sub_goals": sub_goals}


def split_goal(goal: str) -> list[str]:
    """Split a goal into pieces of work, keeping steps that need each other's results together.

    A goal that no rule fits becomes a brief and a checklist in files, which is as much as can be done without an LLM.
    """
    pieces: list[str] = []
    for step in reading.split_request(goal):
        if pieces and isinstance(reading.find_call(step, RecentResults()), CannotRun):
            pieces[-1] = f"{pieces[-1]}, then {step}"
        else:
            pieces.append(step)
    if any(reading.find_call(step, RecentResults()) for piece in pieces for step in reading.split_request(piece)):
        return pieces
    name, quotation = "-".join(LONG_WORD.findall(goal.lower())[:3]) or "goal", format_inline(goal, 200)
    return [
        f"Write {name}-brief.md: The goal is this: {quotation}",
        f"Write {name}-checklist.md: [ ] agree on what done means; [ ] do it; [ ] have someone else review it",
        "List the files",
    ]


def is_read_only(piece: str) -> bool:
    call = reading.find_call(piece, RecentResults())
    return isinstance(call, RehearsalCall) and call.tool in READ_ONLY_TOOLS


def replan_goal(facts: Facts) -> dict[str, Any]:
    """Record failed work as not done, once, and keep the remaining sub-goals without it."""
    sub_goals = facts["sub_goals"]
    dropped_ids = {sub_goal["id"] for sub_goal in sub_goals if sub_goal["status"] in ("failed", "skipped")}
    failed = [sub_goal for sub_goal in sub_goals if sub_goal["id"] in dropped_ids or sub_goal["divergence"] == "major"]
    if not failed or any(NOTE_FILE in sub_goal["description"] for sub_goal in sub_goals):
        return {"sub_goals": [], "give_up": "This is the rehearsal model: it follows rules, and none of them helps here."}
    remaining = [
        {"id": sub_goal["id"], "depends_on": [dependency for dependency in sub_goal["depends_on"] if dependency not in dropped_ids]}
        for sub_goal in sub_goals
        if sub_goal["status"] in OPEN_STATUSES
    ]
    summary = "; ".join(format_inline(f"{sub_goal['description']}: {sub_goal['outcome']}", 200) for sub_goal in failed)
    note = {
        "id": "note",
        "title": "Note what was not done",
        "description": f"Write {NOTE_FILE}: {summary}",
        "expected_outcome": "The file says what was not done.",
        "kind": "write",
    }
    return {"sub_goals": [*remaining, note], "reason": "The failed work is written down, and the rest continues."}


def evaluate_outcome(facts: Facts) -> dict[str, Any]:
    if FAILURE_WORDS.search(facts["outcome"]):
        return {"divergence": "major", "reason": "The outcome says that it was not done."}
    return {"divergence": "none", "reason": BY_RULE_REASON}


def judge_goal(facts: Facts) -> dict[str, Any]:
    failed = any(fact["status"] == "failed" for fact in facts["sub_goals"])
    return {"met": not failed, "reason": "A sub-goal failed." if failed else BY_RULE_REASON}


FORMS: Final[dict[str, Callable[[Facts], dict[str, Any]]]] = {
    prompts.SUBMIT_PLAN: plan_goal,
    prompts.SUBMIT_REPLAN: replan_goal,
    prompts.SUBMIT_EVALUATION: evaluate_outcome,
    prompts.SUBMIT_VERDICT: judge_goal,
    prompts.SUBMIT_INTERVENTION: lambda _facts: {"action": "message", "text": "Try another way, or end with what you have."},
    prompts.SUBMIT_RESUMPTION: lambda _facts: {"sub_goals": []},
}
