"""Questions to the cheap model tier: does an answer complete its queue item, what did a cut-off text say, what is worth keeping?"""

import asyncio
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from pydantic import BaseModel, ConfigDict, StrictBool, ValidationError
from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import ModelRequestParameters

from headway.agents.checks.runner import Opinion
from headway.agents.instructions import prompts
from headway.agents.loop.requests import Assess, Compact, NoteWritten, Summarise, Summary, Verdict
from headway.agents.models.client import ModelFailed, ModelReply, Models
from headway.agents.transcripts.transcript import Facts, build_runtime_message
from headway.ledger.errors import HeadwayError, SettingsError
from headway.ledger.framing import escape_frames
from headway.ledger.text import cut_json_object, to_one_line

LONG_TEXT: Final = 20_000  # characters

log = logging.getLogger("headway.assessor")

CUT_OFF_LIMIT: Final = 40_000
TAIL_LIMIT: Final = 2_000
REASON_LIMIT: Final = 1_000
NOTE_LIMIT: Final = 20_000
ASSESSMENT_FAILED: Final = "the answer could not be assessed"


class Judgement(BaseModel):
    """The assessor's answer, parsed strictly: `"ok": "true"` is not a yes."""

    model_config = ConfigDict(extra="ignore")

    ok: StrictBool
    reason: str = ""


async def assess(models: Models, request: Assess) -> Verdict:
    """Assess an answer and log the verdict, so that wrong verdicts can be traced."""
    item = request.item
    opinion = await judge(models, (item.subject, item.completion_criteria), request.answer, is_last_attempt=request.is_last_attempt)
    reason = opinion.reason or ("" if opinion.ok else "it does not do what the item asks.")
    verdict = Verdict(item, opinion.ok, to_one_line(reason[:REASON_LIMIT]), opinion.call)
    log.info("item %d: ok=%s: %s", item.id, verdict.ok, verdict.reason)
    return verdict


async def judge(models: Models, task: tuple[str, str], answer: str, *, is_last_attempt: bool) -> Opinion:
    """Ask whether an answer does what a task asks: its title, and what it takes to complete it.

    An assessor that fails, or whose own answer is cut off or malformed, counts as a no. Transient failures are raised, so that the
    job is retried, until the last attempt.
    """
    question = await process_text(answer, partial(prompts.render_assessment, *task, answer))
    try:
        reply = await ask_cheap_model(models, prompts.ASSESSOR, question, {"answer": answer})
    except (ModelFailed, SettingsError) as error:
        if is_transient(error) and not is_last_attempt:
            raise
        return Opinion(ok=False, reason=f"{ASSESSMENT_FAILED} (the assessor failed).", call=None)
    is_complete = reply.response.finish_reason in (None, "stop")
    judgement = parse_judgement(reply.response.text or "") if is_complete else None
    if judgement is None:
        return Opinion(ok=False, reason=f"{ASSESSMENT_FAILED} (the assessor's answer was invalid).", call=reply.call)
    return Opinion(judgement.ok, judgement.reason, reply.call)


def parse_judgement(text: str) -> Judgement | None:
    try:
        return Judgement.model_validate(json.loads(cut_json_object(text)))
    except (ValueError, RecursionError, ValidationError):
        return None


async def summarise(models: Models, request: Summarise) -> Summary:
    """Summarise a cut-off text. If no summary can be had, fall back to the end of the text rather than fail the turn."""
    text = escape_frames(request.text[-CUT_OFF_LIMIT:])
    try:
        reply = await ask_cheap_model(models, prompts.SUMMARISER, text, {"cut_off": text})
    except (ModelFailed, SettingsError) as error:
        if is_transient(error) and not request.is_last_attempt:
            raise
        return Summary(f"… {request.text[-TAIL_LIMIT:]}", None)
    return Summary(reply.response.text or f"… {request.text[-TAIL_LIMIT:]}", reply.call)


async def write_note(models: Models, request: Compact) -> NoteWritten:
    """Write the note that replaces older messages. If no summary can be had, the end of the messages serves as one."""
    fallback = f"{prompts.NOTE_FALLBACK}\n{request.text[-TAIL_LIMIT:]}"
    escaped = await process_text(request.text, partial(escape_frames, request.text))
    try:
        reply = await ask_cheap_model(models, prompts.COMPACTOR, escaped, {"stretch": request.text})
    except (ModelFailed, SettingsError) as error:
        if is_transient(error) and not request.is_last_attempt:
            raise
        return NoteWritten(request.boundary, fallback, None)
    text = (reply.response.text or "").strip()
    return NoteWritten(request.boundary, text[:NOTE_LIMIT] or fallback, reply.call)


def is_transient(error: HeadwayError) -> bool:
    return isinstance(error, ModelFailed) and error.is_transient


async def ask_cheap_model(models: Models, instructions: str, question: str, facts: Facts) -> ModelReply:
    parameters = ModelRequestParameters(instruction_parts=[InstructionPart(content=instructions)])
    return await models.ask("cheap", [build_runtime_message(question, facts)], parameters)


async def process_text(text: str, work: Callable[[], str]) -> str:
    """Do work whose time grows with a text. If the text is long, a thread does it, so that it does not hold up the event loop."""
    return await asyncio.to_thread(work) if len(text) > LONG_TEXT else work()
