"""Structured output: ask a model to fill in a form.

An invalid answer is sent back with the reason, at most twice. An answer that the length limit cut off is continued, and the parts
are joined.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pydantic import AliasChoices, AliasGenerator, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelRequest, ModelResponse, TextPart, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from headway.agents.loop import broken_answers
from headway.agents.models.client import ModelFailed, ModelReply, Models
from headway.agents.tools.arguments import compact_schema, describe_validation_error
from headway.agents.transcripts.transcript import Facts, build_runtime_message
from headway.ledger.errors import HeadwayError, Invalid, SettingsError
from headway.ledger.framing import format_inline
from headway.ledger.text import cut_json_object, to_storable_value
from headway.ledger.tiers import Tier
from headway.storage.stores.spending import ModelCall

ATTEMPTS: Final = 3
COMPLAINT_LIMIT: Final = 2_000
CUT_OFF_COMPLAINT: Final = "The answer was cut off by the length limit."


class Form(BaseModel):
    """Base class of forms that a model fills in. Unknown fields are ignored, names may be camelCase, and null means absent."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        alias_generator=AliasGenerator(validation_alias=lambda name: AliasChoices(name, to_camel(name))),
    )

    @model_validator(mode="before")
    @classmethod
    def leave_out_nulls(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


T = TypeVar("T", bound=Form)


class Question(NamedTuple, Generic[T]):
    tier: Tier
    instructions: str
    text: str
    facts: Facts
    tool: str  # the tool whose call submits the form
    form: type[T]
    check: Callable[[T], None] = lambda _filled: None  # raises Invalid with the reason if the form is wrong
    exchange: tuple[ModelMessage, ...] = ()  # earlier answers and why they were rejected
    partial: str = ""  # the answer up to the length limit
    parts: int = 1  # number of parts, including the next one


class FormResult(NamedTuple, Generic[T]):
    """The filled form, the validation error or the failed call, with the cost of the call."""

    form: T | None = None
    complaint: str = ""
    failure: HeadwayError | None = None
    call: ModelCall | None = None
    follow_up: Question[T] | None = None  # the follow-up question, while attempts remain


async def fill_form(models: Models, question: Question[T]) -> FormResult[T]:
    """Ask the model once. The caller decides whether to ask the follow-up question."""
    messages = [
        build_runtime_message(question.text, question.facts),
        *question.exchange,
        *broken_answers.request_rest(question.partial),
    ]
    try:
        reply = await ask_with_form(models, question, messages)
    except (ModelFailed, SettingsError) as error:
        return FormResult(failure=error)
    answer_text = broken_answers.join_json(question.partial, extract_answer(reply.response, question.tool))
    if reply.response.finish_reason == "length" and answer_text != question.partial and question.parts < broken_answers.MAX_PARTS:
        continuation = question._replace(partial=answer_text, parts=question.parts + 1)
        return FormResult(complaint=CUT_OFF_COMPLAINT, call=reply.call, follow_up=continuation)
    has_tool = models.describe(question.tier).supports_tools
    try:
        form = parse_answer(reply.response, answer_text, question, has_tool=has_tool)
        question.check(form)
    except Invalid as error:
        complaint = str(error)
        answer = ModelResponse([TextPart(answer_text)]) if question.partial else reply.response
        remedy = f"call {question.tool}" if has_tool else "answer with the JSON object"
        exchange = (*question.exchange, answer, build_rejection(answer, complaint, remedy))
        follow_up = question._replace(exchange=exchange, partial="", parts=1) if len(exchange) < 2 * ATTEMPTS else None
        return FormResult(complaint=complaint, call=reply.call, follow_up=follow_up)
    return FormResult(form, call=reply.call)


async def ask_with_form(models: Models, question: Question[T], messages: list[ModelMessage]) -> ModelReply:
    """Offer the form as a tool, or put its schema into the instructions if the model turns out to have no function calling."""
    if models.describe(question.tier).supports_tools:
        try:
            return await models.ask(question.tier, messages, build_parameters(question))
        except ModelFailed as error:
            if not error.lacks_tools:
                raise
    return await models.ask(question.tier, messages, build_parameters_without_tools(question))


def build_parameters_without_tools(question: Question[T]) -> ModelRequestParameters:
    schema = json.dumps(build_schema(question.form))
    instructions = f"{question.instructions}\n\nAnswer with one JSON object and nothing else. Its schema is {schema}"
    return ModelRequestParameters(instruction_parts=[InstructionPart(content=instructions)])


def build_parameters(question: Question[T]) -> ModelRequestParameters:
    schema = build_schema(question.form)
    tool = ToolDefinition(name=question.tool, description="Submit your answer.", parameters_json_schema=schema)
    instructions = f"{question.instructions}\n\nSubmit your complete answer with one call of {question.tool}."
    return ModelRequestParameters(function_tools=[tool], instruction_parts=[InstructionPart(content=instructions)])


@cache
def build_schema(form: type[Form]) -> dict[str, Any]:
    """Build a form's JSON schema. Cached, because this takes longer than all other work on a question."""
    return compact_schema(form.model_json_schema())


def extract_answer(response: ModelResponse, tool: str) -> str:
    """Return the tool call's arguments, or the text, because not every model calls the tool when it should."""
    call = next((call for call in response.tool_calls if call.tool_name == tool), None)
    return str(call.args) if call else response.text or ""


def parse_answer(response: ModelResponse, answer_text: str, question: Question[T], *, has_tool: bool) -> T:
    if response.finish_reason in ("length", "content_filter", "error"):
        raise Invalid(f"Your answer did not arrive in full ({response.finish_reason}). Make it shorter.")
    document = ("" if broken_answers.is_json(answer_text) else cut_json_object(answer_text)) or answer_text.strip()
    if has_tool and not document.startswith(("{", "[")):
        raise Invalid(f"Your answer does not call {question.tool}.")
    try:
        return question.form.model_validate(to_storable_value(json.loads(document)))
    except ValidationError as error:
        raise Invalid(describe_validation_error(error)) from None
    except (ValueError, RecursionError):
        raise Invalid("Your answer is not a JSON object.") from None


def build_rejection(response: ModelResponse, complaint: str, remedy: str) -> ModelRequest:
    message = f"Rejected: {format_inline(complaint, COMPLAINT_LIMIT)} Fix it and {remedy} again."
    if not response.tool_calls:
        return build_runtime_message(message)
    return ModelRequest([ToolReturnPart(call.tool_name, message, call.tool_call_id) for call in response.tool_calls])
