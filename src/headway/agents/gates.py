"""The gates a plain answer goes through: writs, the drain gate, and in queue mode the assessor's verdict."""

from hashlib import blake2b

from pydantic_ai.messages import ModelRequest

from headway.actions import turn_queue
from headway.actions.turn_state import queue_state
from headway.agents import orders, prompts
from headway.agents.needs import Assess, Sleep, Stop, Verdict
from headway.agents.step import Step, still_open
from headway.agents.transcript import Entry, spoken, user
from headway.ledger.text import TEXT_LIMIT
from headway.ledger.todo import Todo
from headway.ledger.writ_parser import parse


def hear(step: Step, entry: Entry, text: str) -> Assess | Sleep | Stop | None:
    told = orders.obey(step, entry, text)
    if isinstance(told, Sleep):
        return told
    if told:  # an answer with writs in it never ends a turn: first the agent hears what came of them
        step.say(text)
        step.append(ModelRequest(told))
        return None
    if not text.strip():
        return refuse(step, prompts.EMPTY_ANSWER, prompts.NUDGE, text)
    if step.work.mode == "queue":
        current = queue_state(step.tx, step.run.tenant_id, step.turn_id).current
        if current:
            return Assess(current, text, step.last_attempt)
    plan = step.plan()
    if left := still_open(plan):
        return refuse(step, prompts.unfinished(left), prompts.refusal(left), text)
    return step.finish("drained" if plan else "answered", text)


def refuse(step: Step, reason: str, message: str, answer: str, last_words: str = prompts.STAGNATION) -> Stop | None:
    """Send an answer back. Some times in a row with no change to the list, and the turn ends rather than turning in circles."""
    plan = step.plan()
    mark = fingerprint(plan)
    refusals = step.run.refusals + 1 if step.run.plan_mark == mark else 1
    step.run = step.run._replace(refusals=refusals, plan_mark=mark)
    step.tell("refused", {"remaining": len(still_open(plan)), "reason": reason})
    if refusals >= step.limits.refusals:
        return step.give_up(last_words, "incomplete", answer)
    step.append(user(message))
    return None


def fingerprint(plan: list[Todo]) -> str:
    """Changes when anything about the list does."""
    return blake2b(repr([(todo.id, todo.status, todo.subject) for todo in plan]).encode(), digest_size=12).hexdigest()


def follow(step: Step, verdict: Verdict) -> None:
    """A turn in queue mode goes on with the next item once the current one is done."""
    answer = parse(spoken(step.entries[-1].message)).visible
    step.tell("todos_assessed", {"ok": verdict.ok, "reason": verdict.reason})
    if not verdict.ok:
        message = prompts.not_good_enough(verdict.item.subject, verdict.reason)
        refuse(step, verdict.reason, message, answer, prompts.NOT_ACCEPTED)
        return
    state = turn_queue.complete(step.tx, step.work.scope, step.turn_id, verdict.item.id, answer[:TEXT_LIMIT])
    if state.current is None:
        step.finish("drained", answer)
        return
    step.say(answer)
    cap = step.limits.resubmissions
    if step.run.resubmissions >= cap:
        why = prompts.out_of_resubmissions(cap)
        step.tell("todos_limit", {"max": cap, "remaining": state.remaining, "message": why})
        step.give_up(why, "limit")
        return
    step.run = step.run._replace(resubmissions=step.run.resubmissions + 1)
    step.tell_after_list("todos_resubmitting", {"next": state.current.subject, "state": state.as_json()})
    step.append(user(prompts.next_item(state.current.subject)))
