"""How the rehearsal answers, by rules, what LLMs are asked beside the work itself: judging, summarising, planning goals."""

import json
import re
from collections.abc import Callable, Collection
from typing import Any, Final

from headway.agents import prompts
from headway.agents import rehearsal_steps as reading
from headway.agents.rehearsal_steps import Call, Cannot, Known
from headway.ledger.framing import inline

SAYS_NO: Final = re.compile(r"\b(?:failed|could(?: not|n['’]t)|can(?:not|['’]t)|unable|was not able|not done)\b", re.IGNORECASE)
BY_RULE: Final = "Rehearsal, by rule: there is an outcome, and it does not say that it failed."
LOOKING: Final = frozenset(("read_file", "list_files", "recall", "todo_list"))
GOAL: Final = re.compile(r"\[GOAL\]\n(.*?)\n\[END GOAL\]", re.DOTALL)
NODE: Final = re.compile(r"- (#[0-9]+) \[([a-z-]+)(?:, needs ([#0-9, ]+))?\] (.*)")
MAJOR: Final = "(diverged, major:"
NOTE_FILE: Final = "not-done.md"
LONGER_WORDS: Final = re.compile(r"[a-z0-9]{4,20}")


def assessed(question: str) -> str:
    said = question.partition("\n\nAnswer:\n")[2].strip()
    if not said:
        return json.dumps({"ok": False, "reason": "The answer is empty."})
    if SAYS_NO.search(said):
        return json.dumps({"ok": False, "reason": "The answer says that it was not done."})
    return json.dumps({"ok": True, "reason": "Rehearsal, by rule: there is an answer, and it does not say that it failed."})


def summarised(text: str) -> str:
    sentences = [inline(one) for one in re.split(r"(?<=[.!?])\s+|\n+", text) if one.strip()]
    if len(sentences) < 2:
        return f"It said: {''.join(sentences) or 'nothing'}"
    return f"It began: {sentences[0]} … It ended: {sentences[-1]}"


def handed_in(offered: Collection[str], question: str) -> Call | None:
    """The form that is asked for, filled in; nothing if none is."""
    wanted = next((name for name in FORMS if name in offered), None)
    return Call(wanted, FORMS[wanted](question)) if wanted else None


def goal_in(question: str) -> str:
    found = GOAL.search(question)
    return found[1] if found else question


def plan(question: str) -> dict[str, Any]:
    """A sub-goal for each piece of work; what only looks at files comes after what writes them."""
    pieces = worked_out(goal_in(question))
    sub_goals: list[dict[str, Any]] = []
    parallel = sum(not looks(piece) for piece in pieces) > 1
    for place, piece in enumerate(pieces, 1):
        last = looks(piece)
        how = {"mode": "agent", "role": "writer"} if parallel and not last else {"mode": "inline"}
        sub_goals.append(
            {
                "id": f"step-{place}",
                "description": piece,
                "expected_outcome": "It was done, and says what came of it.",
                "depends_on": [one["id"] for one in sub_goals] if last else [],
                "priority": max(1, 11 - place),
                "expected_value": 0.9,
                "kind": "look" if last else "write",
                **how,
            }
        )
    return {"sub_goals": sub_goals}


def worked_out(goal: str) -> list[str]:
    """The steps of a goal, those together that need each other's results. A goal that no rule fits becomes a brief and a
    checklist in files: that much can be done without an LLM."""
    pieces: list[str] = []
    for step in reading.split(goal):
        if pieces and isinstance(reading.doing(step, Known()), Cannot):
            pieces[-1] = f"{pieces[-1]}, then {step}"
        else:
            pieces.append(step)
    if any(reading.doing(step, Known()) for piece in pieces for step in reading.split(piece)):
        return pieces
    name, wish = "-".join(LONGER_WORDS.findall(goal.lower())[:3]) or "goal", inline(goal, 200)
    return [
        f"Write {name}-brief.md: The goal is this: {wish}",
        f"Write {name}-checklist.md: [ ] agree on what done means; [ ] do it; [ ] have somebody else look at it",
        "List the files",
    ]


def looks(piece: str) -> bool:
    call = reading.doing(piece, Known())
    return isinstance(call, Call) and call.tool in LOOKING


def replan(question: str) -> dict[str, Any]:
    """What failed is written down as not done, once; whatever else is open goes on without it."""
    nodes = [found.groups() for line in question.split("\n") if (found := NODE.match(line))]
    gone = {key for key, status, _, _ in nodes if status in ("failed", "skipped")}
    lost = [told for key, _, _, told in nodes if key in gone or MAJOR in told]
    if not lost or any(NOTE_FILE in told for _, _, _, told in nodes):
        return {"sub_goals": [], "give_up": "This is the rehearsal model: it follows rules, and none of them helps here."}
    kept = [
        {"id": key, "depends_on": [below for below in (needs or "").split(", ") if below and below not in gone]}
        for key, status, needs, _ in nodes
        if status in ("pending", "in-progress")
    ]
    words = "; ".join(inline(told, 200) for told in lost)
    note = {
        "id": "note",
        "description": f"Write {NOTE_FILE}: {words}",
        "expected_outcome": "What was not done is written down.",
        "kind": "write",
    }
    return {"sub_goals": [*kept, note], "reason": "What failed is written down, and the rest goes on."}


def evaluation(question: str) -> dict[str, Any]:
    outcome = question.partition("\n\nOutcome:\n")[2]
    if SAYS_NO.search(outcome):
        return {"divergence": "major", "reason": "The outcome says that it was not done."}
    return {"divergence": "none", "reason": BY_RULE}


def verdict(question: str) -> dict[str, Any]:
    done = question.partition("\n\nWhat was done:\n")[2]
    return {"met": "[failed" not in done, "reason": BY_RULE if "[failed" not in done else "Something failed on the way."}


FORMS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    prompts.SUBMIT_PLAN: plan,
    prompts.SUBMIT_REPLAN: replan,
    prompts.SUBMIT_EVALUATION: evaluation,
    prompts.SUBMIT_VERDICT: verdict,
    prompts.SUBMIT_INTERVENTION: lambda _question: {"action": "message", "text": "Try another way, or end with what you have."},
    prompts.SUBMIT_RESUMPTION: lambda _question: {"sub_goals": []},
}
