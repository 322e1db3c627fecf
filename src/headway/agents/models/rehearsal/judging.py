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

DISCLAIMER: Final = (
    "This is the rehearsal model: it follows rules and is not an LLM. Set HEADWAY_MODEL to use one, such as "
    "openai:gpt-5-mini with OPENAI_API_KEY."
)
FAILURE_WORDS: Final = re.compile(
    r"\b(?:failed|could(?: not|n['’]t)|can(?:not|['’]t)|unable|was not able|not done)\b", re.IGNORECASE
)
BY_RULE_REASON: Final = "Rehearsal, by rule: there is an outcome, and it does not say that it failed."
NEEDS_JUDGEMENT: Final = "Success criteria and new plans need a real model; checks need none."
READ_ONLY_TOOLS: Final = frozenset(("read_file", "list_files", "recall", "todo_list"))


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
    """Split a goal into pieces of work, keeping steps that need each other's results together."""
    pieces: list[str] = []
    for step in reading.split_request(goal):
        if pieces and isinstance(reading.find_call(step, RecentResults()), CannotRun):
            pieces[-1] = f"{pieces[-1]}, then {step}"
        else:
            pieces.append(step)
    return pieces


def is_read_only(piece: str) -> bool:
    call = reading.find_call(piece, RecentResults())
    return isinstance(call, RehearsalCall) and call.tool in READ_ONLY_TOOLS


def give_up_goal(facts: Facts) -> dict[str, Any]:
    """Give the goal up: rules know no second way, and a goal without a part of its work is not reached."""
    failed = [sub_goal for sub_goal in facts["sub_goals"] if sub_goal["status"] == "failed" or sub_goal["divergence"] == "major"]
    reasons = [format_inline(f"{sub_goal['description']}: {sub_goal['outcome']}", 300) for sub_goal in failed] or [NEEDS_JUDGEMENT]
    return {"sub_goals": [], "give_up": f"{'; '.join(reasons)} {DISCLAIMER}".strip()}


def evaluate_outcome(facts: Facts) -> dict[str, Any]:
    if FAILURE_WORDS.search(facts["outcome"]):
        return {"divergence": "major", "reason": "The outcome says that it was not done."}
    return {"divergence": "none", "reason": BY_RULE_REASON}


def judge_goal(_facts: Facts) -> dict[str, Any]:
    """Refuse to judge: no rule understands success criteria."""
    return {"met": False, "reason": NEEDS_JUDGEMENT}


FORMS: Final[dict[str, Callable[[Facts], dict[str, Any]]]] = {
    prompts.SUBMIT_PLAN: plan_goal,
    prompts.SUBMIT_REPLAN: give_up_goal,
    prompts.SUBMIT_EVALUATION: evaluate_outcome,
    prompts.SUBMIT_VERDICT: judge_goal,
    prompts.SUBMIT_INTERVENTION: lambda _facts: {"action": "message", "text": "Try another way, or end with what you have."},
    prompts.SUBMIT_RESUMPTION: lambda _facts: {"sub_goals": []},
}
