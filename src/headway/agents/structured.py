"""Asking a model for something of a given shape. What does not fit is sent back with the reason, twice at most."""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelRequest, ModelResponse, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from headway.agents.models import ModelFailed, Models
from headway.agents.roles import Tier
from headway.agents.toolbox import compact, complaint
from headway.agents.transcript import storable_all, user
from headway.ledger.errors import HeadwayError, Invalid, SettingsError
from headway.ledger.framing import inline
from headway.storage.spending_store import ModelCall

ATTEMPTS: Final = 3
COMPLAINT_SHOWN: Final = 2_000
OBJECT: Final = re.compile(r"\{.*\}", re.DOTALL)


class Form(BaseModel):
    """What a model is to fill in. More than was asked for does no harm."""

    model_config = ConfigDict(extra="ignore", frozen=True)


T = TypeVar("T", bound=Form)


class Question(NamedTuple, Generic[T]):
    tier: Tier
    instructions: str
    text: str
    tool: str  # the name under which the form is handed in
    form: type[T]
    check: Callable[[T], None] = lambda _filled: None  # raises Invalid with what is wrong
    exchange: tuple[ModelMessage, ...] = ()  # what was answered before, and why it was sent back


class Filled(NamedTuple, Generic[T]):
    """The form, or what was wrong with it, or what kept the model from answering; and what that cost."""

    form: T | None = None
    complaint: str = ""
    failure: HeadwayError | None = None
    call: ModelCall | None = None
    again: Question[T] | None = None  # to be asked next, as long as it may still get better


async def fill_in(models: Models, question: Question[T]) -> Filled[T]:
    """One call: whether there is to be another, its caller decides."""
    try:
        reply = await models.ask(question.tier, [user(question.text), *question.exchange], offered(question))
    except (ModelFailed, SettingsError) as error:
        return Filled(failure=error)
    try:
        form = read(reply.response, question)
        question.check(form)
    except Invalid as error:
        wrong = str(error)
        exchange = (*question.exchange, reply.response, sent_back(reply.response, wrong, question.tool))
        better = question._replace(exchange=exchange) if len(exchange) < 2 * ATTEMPTS else None
        return Filled(complaint=wrong, call=reply.call, again=better)
    return Filled(form, call=reply.call)


def offered(question: Question[T]) -> ModelRequestParameters:
    schema = schema_of(question.form)
    tool = ToolDefinition(name=question.tool, description="Hand in your answer.", parameters_json_schema=schema)
    return ModelRequestParameters(
        function_tools=[tool], instruction_parts=[InstructionPart(content=f"{question.instructions}\n\n{how(question)}")]
    )


@cache
def schema_of(form: type[Form]) -> dict[str, Any]:
    """Made once: it takes longer than everything else that is done about a question."""
    return compact(form.model_json_schema())


def how(question: Question[T]) -> str:
    return f"Hand your answer in by calling {question.tool}, once and completely."


def read(response: ModelResponse, question: Question[T]) -> T:
    """From the call, or from text: not every model calls tools when it should."""
    if response.finish_reason in ("length", "content_filter", "error"):
        raise Invalid(f"Your answer did not come through ({response.finish_reason}). Make it shorter.")
    call = next((call for call in response.tool_calls if call.tool_name == question.tool), None)
    found = OBJECT.search(response.text or "")
    written = str(call.args) if call else found[0] if found else ""
    if not written:
        raise Invalid(how(question))
    try:
        return question.form.model_validate(storable_all(json.loads(written)))
    except ValidationError as error:
        raise Invalid(complaint(error)) from None
    except (ValueError, RecursionError):
        raise Invalid("Your answer is not one JSON object.") from None


def sent_back(response: ModelResponse, wrong: str, tool: str) -> ModelRequest:
    message = f"This cannot be taken: {inline(wrong, COMPLAINT_SHOWN)} Mend it and call {tool} again."
    if not response.tool_calls:
        return user(message)
    return ModelRequest([ToolReturnPart(call.tool_name, message, call.tool_call_id) for call in response.tool_calls])
