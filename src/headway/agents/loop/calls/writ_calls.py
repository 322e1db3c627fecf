"""Writs in an agent's text.

`/agent` and `/parallel` start all sub-agents of the text at once. When these have ended, the writs are answered in order.
"""

import json
from typing import Any

from pydantic_ai.messages import UserPromptPart

from headway.actions.runs import runs
from headway.agents import writs
from headway.agents.delegation import Assignment, delegate
from headway.agents.loop.calls import proofs, proposals
from headway.agents.loop.requests import RunChecks, Sleep, Stop
from headway.agents.loop.step import Step
from headway.agents.permission import find_writ_refusal
from headway.agents.tools.execution import build_agent_rights
from headway.agents.transcripts.quotations import render_notice
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.agents.writs import AgentAccess, AgentCall
from headway.ledger.errors import ChecksRequired, HeadwayError, Invalid, StorageError
from headway.ledger.framing import format_inline
from headway.ledger.job import NEVER
from headway.ledger.run import Effect
from headway.storage.stores import runs as run_store
from headway.storage.transaction import act_as

FIRST_AGENT_INDEX = 1_000  # indexes of effects that start sub-agents, above all indexes of tool calls
ANSWER_LIMIT = 20_000
AGENT_WRIT = "/agent"


def run_writs(step: Step, entry: TranscriptEntry, text: str) -> list[UserPromptPart] | RunChecks | Sleep | Stop:
    """Run the writs of a text and return their output, or what they wait for: sub-agents that are running, or checks.

    A writ that the text quotes does not run. The model gets one notice of it; after that it may quote the line in its final answer.
    """
    parsed_writs = step.parse(text).writs
    if not parsed_writs:
        return []
    quotations, has_tools = step.context.quotations, step.context.offer.has_tools
    notices = [render_notice(writ, has_tools=has_tools) for writ in quotations.list_unnoticed(parsed_writs)]
    own_writs = [writ for writ in parsed_writs if not writ.is_quoted]
    if not own_writs:
        return [UserPromptPart("\n".join(notices))] if notices else []
    if outside := proposals.find_outside_writ(step, own_writs[: writs.WRITS_LIMIT]):
        return proposals.stop(step, outside)
    results: list[list[str]] = []
    if "agents" in step.context.role.writs:
        agent_calls = [agent_call for writ in own_writs[: writs.WRITS_LIMIT] for agent_call in writs.parse_agent_calls(writ)]
        stored_effects = run_store.load_effects(step.tx, step.run.tenant_id, step.run.id, entry.n) if agent_calls else {}
        effects: list[Effect] = []
        for n, agent_call in enumerate(agent_calls):
            effect = stored_effects.get(FIRST_AGENT_INDEX + n) or start_agent(step, entry.n, n, agent_call)
            if not isinstance(effect, Effect):
                return effect
            effects.append(effect)
        answers = [poll_agent(step, effect) for effect in effects]
        if any(lines is None for lines in answers):
            return Sleep(NEVER)
        results = [lines for lines in answers if lines is not None]
    access = AgentAccess(
        lambda index: results[index],
        not has_tools,
        quotations.judge(step.entries),
        lambda writ: find_writ_refusal(step.tx, writ.word, writ.rest, step.context.execution),
        rights=build_agent_rights(step.tx, step.context.execution),
    )
    output = run_text(step, entry, text, access)
    return [UserPromptPart("\n".join([output, *notices]))] if isinstance(output, str) else output


def run_text(step: Step, entry: TranscriptEntry, text: str, access: AgentAccess) -> str | RunChecks | Sleep | Stop:
    """Run the writs of a text. If one would complete a todo that has checks, these run first; then all writs run again."""
    scope, role = step.context.scope, step.context.role
    refusals: dict[int, str] = {}
    access = access._replace(refusals=refusals)
    while True:
        try:
            with act_as(step.tx, f"agent {step.run.role} with a writ (run {step.run.id})"):
                return step.tx.attempt(lambda tx: writs.run_text(tx, scope, role, text, access)).output
        except ChecksRequired as required:
            request = proofs.require(step, entry.n, required)
            if isinstance(request, str):
                refusals[required.todo_id] = request
            elif request is not None:
                return request


def start_agent(step: Step, n: int, index: int, agent_call: AgentCall) -> Effect | Sleep | Stop:
    effect = Effect(n, FIRST_AGENT_INDEX + index, "", AGENT_WRIT, json.dumps(agent_call._asdict()), "started")
    if step.run.replays:
        recorded = proposals.find_recorded(step, effect)
        return (
            proposals.serve(step, effect, recorded)
            if recorded
            else proposals.stop(step, f"/agent {agent_call.agent} {agent_call.task}")
        )
    try:
        if not agent_call.task:
            raise Invalid("write it as /agent NAME TASK")
        if refusal := find_writ_refusal(step.tx, "agent", f"{agent_call.agent} {agent_call.task}", step.context.execution):
            raise Invalid(refusal)
        assignment = Assignment(step.context.runtime.roles.find(agent_call.agent), agent_call.task)
        child = step.tx.attempt(lambda tx: delegate(tx, step.run, assignment, step.limits))
        effect = effect._replace(result=child.id)
    except StorageError:
        raise  # the transaction is lost, and the step with it
    except HeadwayError as error:
        effect = effect._replace(state="failed", result=f"ERR: {format_inline(str(error))}")
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, effect)
    return effect


def poll_agent(step: Step, effect: Effect) -> list[str] | None:
    """Return the lines that answer the call, or None while its sub-agent is running."""
    if effect.state != "started":
        return effect.result.split("\n")
    child = runs.get_run(step.tx, step.run.tenant_id, effect.result)
    if not child.ended:
        return None
    lines = render_result(runs.build_result(step.tx, child))
    state = "succeeded" if child.status == "completed" else "failed"
    ended = effect._replace(state=state, result="\n".join(lines))  # type: ignore[arg-type]
    run_store.save_effect(step.tx, step.run.tenant_id, step.run.id, ended)
    return lines


def render_result(result: dict[str, Any]) -> list[str]:
    if result["status"] != "completed":
        return [f"ERR: {format_inline(str(result.get('error') or result['status']))}"]
    return [format_inline(line, 2_000) for line in str(result["summary"])[:ANSWER_LIMIT].split("\n")]
