"""Events and entries of journals as sentences."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from headway.ledger.text import cut_at_word, to_one_line
from headway.storage.stores.events import CausedEvent

MAX_QUOTE_LENGTH = 160  # characters of quoted text
MAX_TITLE_LENGTH = 60

Data = dict[str, Any]


def describe_entry(entry: dict[str, Any]) -> str:
    """Describe a journal entry in one line without control characters. Unknown kinds, written by a newer version, are named."""
    describe = JOURNAL_SENTENCES.get(entry["kind"])
    return to_one_line(describe(entry["data"]) if describe else entry["kind"].replace("_", " "))


def format_sub_goal(data: Data) -> str:
    title = cut_at_word(to_one_line(str(data.get("title") or data.get("description") or "")).strip(), MAX_TITLE_LENGTH)
    return f"#{data.get('sub_goal_id')} “{title}”"


def excerpt(text: Any, limit: int = MAX_QUOTE_LENGTH) -> str:
    line = to_one_line(str(text or "")).strip()
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def say_once(word: str, reason: str) -> str:
    """Begin a sentence with a word, unless the reason does so already."""
    return reason if reason.startswith(word) else f"{word}: {reason}"


def describe_goal_set(data: Data) -> str:
    if data.get("source") == "agent-discovered":
        return f"An agent set the goal: {excerpt(data.get('evidence'))}"
    return f"Goal #{data['repeat_of']} was run again." if data.get("repeat_of") else "The goal was set."


def describe_plan(data: Data) -> str:
    count = len(data.get("added", ()))
    return f"Plan {data.get('plan_no')}: {count} sub-goal{'' if count == 1 else 's'}."


def describe_replan(data: Data) -> str:
    changes = ", ".join(f"{len(data.get(kind, ()))} {kind}" for kind in ("added", "kept", "dropped"))
    return f"Plan {data.get('plan_no')} ({changes}): {excerpt(data.get('why'))}"


def describe_sub_goal_start(data: Data) -> str:
    agent = "the main agent" if data.get("mode") == "inline" else f"a {data.get('role')}"
    return f"{format_sub_goal(data)} started, by {agent}."


def describe_end(data: Data) -> str:
    outcome = data.get("outcome") or {}
    result = outcome.get("summary") if data.get("status") == "completed" else outcome.get("error") or outcome.get("summary")
    effort = f"{data.get('duration_s', 0)} s, ${outcome.get('cost_usd') or 0:.4f}"
    return f"{format_sub_goal(data)} {data.get('status')} ({effort}): {excerpt(result)}"


def describe_evaluation(data: Data) -> str:
    match data.get("divergence"):
        case "none":
            return f"{format_sub_goal(data)} came out as expected."
        case "minor":
            return f"{format_sub_goal(data)} diverged slightly: {excerpt(data.get('reason'))}"
    return f"{format_sub_goal(data)} diverged: {excerpt(data.get('reason'))}"


def describe_intervention(data: Data) -> str:
    verbs = {"message": "got a hint", "rescope": "was rescoped", "cancel": "was canceled", "wait": "got more time"}
    return f"{format_sub_goal(data)} {verbs.get(str(data.get('action')), 'was checked')}: {excerpt(data.get('why'))}"


def describe_interruption(data: Data) -> str:
    return f"A process died while {len(data.get('agents', ()))} of its agents were running."


def describe_goal_decision(data: Data) -> str:
    note = f": {excerpt(data.get('note'))}" if data.get("note") else "."
    return f"The operator decided to {data.get('action')}{note}"


def describe_edit(data: Data) -> str:
    return f"A person changed the {' and the '.join(data.get('fields', ()))}."


def describe_goal_evaluation(data: Data) -> str:
    return "The goal is met." if data.get("met") else f"The goal is not met yet: {excerpt(data.get('reason'))}"


JOURNAL_SENTENCES: dict[str, Callable[[Data], str]] = {
    "goal_set": describe_goal_set,
    "goal_proposed": lambda data: f"An agent proposed the goal: {excerpt(data.get('evidence'))}",
    "cycle_began": lambda _data: "A planning cycle began.",
    "planned": describe_plan,
    "replanned": describe_replan,
    "sub_goal_started": describe_sub_goal_start,
    "sub_goal_ended": describe_end,
    "sub_goal_skipped": lambda data: f"{format_sub_goal(data)} was skipped: {excerpt(data.get('reason'))}",
    "evaluated": describe_evaluation,
    "intervened": describe_intervention,
    "interrupted": describe_interruption,
    "recovered": lambda _data: "Recovered from the last checkpoint.",
    "goal_evaluated": describe_goal_evaluation,
    "paused": lambda data: say_once("Paused", excerpt(data.get("reason"))),
    "resumed": lambda _data: "Resumed.",
    "decided": describe_goal_decision,
    "edited": describe_edit,
    "repeated": lambda data: f"Run again as goal #{data.get('goal_id')}.",
    "abandoned": lambda data: say_once("Abandoned", excerpt(data.get("reason"))),
    "completed": lambda data: f"Completed: {excerpt(data.get('summary'))}",
}


# Describes events of the log, each in one sentence, for people who ask why something is as it is.


NAME_LENGTH: Final = 80


class WhyLine(NamedTuple):
    """One step of an explanation."""

    seq: int | None  # the number of the event; None if it is derived from rows
    at: int
    text: str  # one line without control characters
    is_key: bool = True  # False: a detail, left out first

    def as_json(self) -> dict[str, Any]:
        return {"seq": self.seq, "at": self.at // 1000, "text": self.text}


def describe_events(events: Iterable[CausedEvent]) -> list[WhyLine]:
    """Describe those events that explain something."""
    return [line for event in events if (line := describe_event(event))]


def describe_event(event: CausedEvent) -> WhyLine | None:
    describe, is_key = EVENT_SENTENCES[event.kind]
    sentence = describe(json.loads(event.data), format_actor(event.actor))
    return WhyLine(event.seq, event.at, to_one_line(sentence), is_key) if sentence else None


def format_actor(actor: str) -> str:
    """Return ` by NAME`, or an empty text for what Headway did itself."""
    return f" by {excerpt(actor, 2 * NAME_LENGTH)}" if actor else ""


def format_name(name: Any) -> str:
    return excerpt(name, NAME_LENGTH)


def join_reason(sentence: str, reason: Any) -> str:
    """Append a reason to a sentence that has no full stop yet."""
    quoted = excerpt(reason)
    return f"{sentence}: {quoted}" if quoted else f"{sentence}."


# Sentences. Each gets the event's data and ` by NAME`.


def describe_start(data: Data, by: str) -> str:
    continued = f", to continue the open todos of turn {data['continues']}" if "continues" in data else ""
    return f"The turn was started{by} in conversation {data.get('conversation_id')}{continued}."


def describe_message(data: Data, _by: str) -> str:
    return f"A person wrote: “{excerpt(data.get('content'))}”" if data.get("role") == "user" else ""


def describe_refusal(data: Data, _by: str) -> str:
    return join_reason("The answer was refused and returned to the model", data.get("reason"))


def describe_assessment(data: Data, _by: str) -> str:
    verdict = "accepted" if data.get("ok") else "rejected"
    return join_reason(f"The assessor {verdict} the answer", data.get("reason"))


def describe_resubmission(data: Data, _by: str) -> str:
    return f"The turn continued with the next item of its list: “{excerpt(data.get('next'))}”"


def describe_tool_result(data: Data, _by: str) -> str:
    if not data.get("is_error"):
        return ""
    result = data.get("result")
    error = result.get("error", result) if isinstance(result, dict) else result
    reason = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    if data.get("state") == "unknown":
        return join_reason(f"Whether the call of {format_name(data.get('tool'))} took effect is unknown", reason)
    return join_reason(f"The call of {format_name(data.get('tool'))} failed", reason)


def describe_agent(data: Data, _by: str) -> str:
    run = data.get("run") or {}
    name = f"Sub-agent {format_name(run.get('role'))} ({run.get('id')})"
    if run.get("parent_run_id") is None:
        return ""
    match run.get("status"):
        case "queued":
            return join_reason(f"{name} was started", run.get("task"))
        case "completed" | "failed" | "canceled" as status:
            result = run.get("result")
            report = (result.get("error") or result.get("summary")) if isinstance(result, dict) else result
            return join_reason(f"{name} {'was canceled' if status == 'canceled' else status}", report)
    return ""


def describe_request(data: Data, _by: str) -> str:
    approval = data.get("approval") or {}
    call = f"{format_name(approval.get('tool'))} {excerpt(json.dumps(approval.get('arguments'), ensure_ascii=False))}"
    asker = f"Agent {format_name(approval.get('role'))}"
    return f"{asker} asked for approval #{approval.get('id')} of {call} ({format_name(approval.get('why'))})."


def describe_decision(data: Data, _by: str) -> str:
    approval = data.get("approval") or {}
    by = format_actor(str(approval.get("decided_by") or ""))
    state = approval.get("state")
    verb = "expired" if state == "expired" else f"was {state}"
    return join_reason(f"Approval #{approval.get('id')} of {format_name(approval.get('tool'))} {verb}{by}", approval.get("reason"))


def describe_question(data: Data, _by: str) -> str:
    question = data.get("question") or {}
    asker = f"Agent {format_name(question.get('role'))}"
    return f"{asker} asked a person question #{question.get('id')}: “{excerpt(question.get('question'))}”"


def describe_answer(data: Data, _by: str) -> str:
    question = data.get("question") or {}
    by = format_actor(str(question.get("answered_by") or ""))
    if question.get("state") == "canceled":
        return f"Question #{question.get('id')} was canceled, because its agent ended."
    return f"Question #{question.get('id')} was answered{by}: “{excerpt(question.get('answer'))}”"


def describe_delay(data: Data, _by: str) -> str:
    attempt = f"Attempt {data['attempt'] - 1} of {data['attempts']}" if "attempt" in data else "A model or tool call"
    return join_reason(f"{attempt} failed and is retried later", data.get("reason"))


def describe_finish(data: Data, _by: str) -> str:
    items = data.get("incomplete") or ()
    left = f"; {len(items)} {'item stays' if len(items) == 1 else 'items stay'} open" if items else ""
    return f"The turn finished with the outcome {format_name(data.get('outcome'))}{left}."


def describe_checks(data: Data, by: str) -> str:
    name = f"todo #{data['todo_id']}" if "todo_id" in data else "the goal" if "goal_id" in data else "a sub-goal"
    if data.get("override"):
        return f"The checks of {name} were overridden{by}: {excerpt(data['override'])}"
    if data.get("ok"):
        return f"The checks of {name} passed."
    first: Data = next(iter(data.get("failures") or ()), {})
    return join_reason(f"A check of {name} failed", first.get("detail"))


def describe_comment(data: Data, by: str) -> str:
    if data.get("change") == "deleted":
        return f"A comment by {format_name(data.get('person'))} was deleted{by}."
    if data.get("change") == "updated":
        return f"{format_name(data.get('person'))} edited a comment."
    return f"{format_name(data.get('person'))} commented on it."


def describe_dead_job(data: Data, _by: str) -> str:
    job = data.get("job") or {}
    attempts = job.get("attempts")
    times = "1 failure" if attempts == 1 else f"{attempts} failures"
    return join_reason(f"The job {job.get('id')} became a dead letter after {times}", job.get("error"))


def describe_schedule(data: Data, _by: str) -> str:
    return f"The schedule {format_name((data.get('schedule') or {}).get('name'))} started it."


Sentence = Callable[[Data, str], str]

# How each kind of event is described, and whether it is a key step or a detail. An empty sentence explains nothing.
EVENT_SENTENCES: Final[dict[str, tuple[Sentence, bool]]] = {
    "turn_started": (describe_start, True),
    "message": (describe_message, False),
    "refused": (describe_refusal, True),
    "todos_assessed": (describe_assessment, True),
    "todos_resubmitting": (describe_resubmission, False),
    "todos_limit": (lambda data, _by: join_reason("The limit of resubmissions was reached", data.get("message")), True),
    "tool_result": (describe_tool_result, False),
    "agent_changed": (describe_agent, False),
    "messages_read": (lambda data, _by: f"The agent read {len(data.get('messages', ()))} new messages of people.", False),
    "compacted": (lambda _data, _by: "The older messages were summarised, because the model's window was full.", False),
    "approval_requested": (describe_request, True),
    "approval_decided": (describe_decision, True),
    "question_asked": (describe_question, True),
    "question_answered": (describe_answer, True),
    "turn_delayed": (describe_delay, True),
    "turn_paused": (lambda data, _by: join_reason("The turn was paused", data.get("reason")), True),
    "turn_resumed": (lambda _data, by: f"The turn was resumed{by}.", True),
    "turn_finished": (describe_finish, True),
    "turn_failed": (lambda data, _by: join_reason("The turn failed", data.get("error")), True),
    "turn_canceled": (lambda _data, by: f"The turn was canceled{by}.", True),
    "checks_ran": (describe_checks, True),
    "comment_changed": (describe_comment, False),
    "job_dead": (describe_dead_job, True),
    "job_recovered": (
        lambda _data, _by: "Its process died or was cut off. Another process took the job over and resumed it.",
        True,
    ),
    "schedule_changed": (describe_schedule, True),
    "halted": (lambda data, by: join_reason(f"All work was halted{by}", data.get("why")), True),
    "unhalted": (lambda _data, by: f"The halt was lifted{by}.", True),
}
