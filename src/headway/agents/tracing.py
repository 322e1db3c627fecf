"""Traces of runs, for OpenTelemetry, with limits on their content."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from hashlib import blake2b
from importlib.metadata import entry_points
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from headway.extras import describe_remedy
from headway.ledger.errors import SettingsError
from headway.ledger.run import Run
from headway.ledger.text import Redactor
from headway.storage.stores.spending import ModelCall

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import TracerProvider
    from pydantic_ai.settings import ModelSettings

EXPORTER_GROUP: Final = "opentelemetry_traces_exporter"  # entry point group in which exporters register
# OpenTelemetry's provider names, where they differ from pydantic-ai's.
PROVIDERS: Final = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "google-cloud": "gcp.vertex_ai",
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "grok": "x_ai",
    "xai": "x_ai",
}
# The parameters of a request that have an attribute.
REQUEST_PARAMETERS: Final = ("max_tokens", "temperature", "top_p", "seed", "frequency_penalty", "presence_penalty")

Attributes = Mapping[str, str | int | float | bool | Sequence[str]]
SetAttributes = Callable[[Attributes], None]  # sets attributes on an open span

traced_run: ContextVar[Run | None] = ContextVar("traced_run", default=None)


class Tracer(Protocol):
    captures_content: bool  # whether spans contain messages, arguments and results
    redact: Redactor  # removes secrets from them

    def span(self, operation: str, subject: str, attributes: Attributes) -> AbstractContextManager[SetAttributes]: ...

    def close(self) -> None: ...


class NullTracer:
    """A tracer that does nothing, for installations without an exporter."""

    captures_content = False
    redact = Redactor()

    def span(self, _operation: str, _subject: str, _attributes: Attributes) -> AbstractContextManager[SetAttributes]:
        return nullcontext(ignore_attributes)

    def close(self) -> None:
        """Do nothing."""


def ignore_attributes(_attributes: Attributes) -> None:
    """Discard the attributes."""


class ProviderTracer:
    """A tracer whose spans go to the program's own provider, below the span that is open where the program asks."""

    def __init__(self, provider: "TracerProvider", *, captures_content: bool = False, redact: Redactor | None = None) -> None:
        self.captures_content = captures_content
        self.redact = redact or Redactor()
        self.tracer = provider.get_tracer("headway")

    def close(self) -> None:
        """Do nothing: the program closes its own provider."""

    @contextmanager
    def span(self, operation: str, subject: str, attributes: Attributes) -> Iterator[SetAttributes]:
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415

        kind = SpanKind.CLIENT if operation == "chat" else SpanKind.INTERNAL
        run = traced_run.get()
        initial_attributes = {"gen_ai.operation.name": operation, **(to_run_attributes(run) if run else {}), **attributes}
        with self.tracer.start_as_current_span(
            f"{operation} {subject}",
            kind=kind,
            attributes=initial_attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            def note(extra_attributes: Attributes) -> None:
                span.set_attributes(extra_attributes)
                if "error.type" in extra_attributes:
                    span.set_status(Status(StatusCode.ERROR))

            try:
                yield note
            except Exception as error:
                note({"error.type": type(error).__name__})
                raise


class ExportingTracer(ProviderTracer):
    """A tracer that exports spans in the background."""

    def __init__(self, exporter: "SpanExporter", *, captures_content: bool = False, redact: Redactor | None = None) -> None:
        # Imported here, because OpenTelemetry is an optional dependency.
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415

        class TurnIds(RandomIdGenerator):
            def generate_trace_id(self) -> int:
                run = traced_run.get()
                return to_trace_id(run.turn_id or run.id) if run else super().generate_trace_id()

        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "headway"}))
        self.provider = TracerProvider(resource=resource, id_generator=TurnIds())
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        super().__init__(self.provider, captures_content=captures_content, redact=redact)

    def close(self) -> None:
        """Export the remaining spans."""
        self.provider.shutdown()


def to_trace_id(name: str) -> int:
    """Derive a trace id from a name. It is deterministic, and uniformly distributed as samplers expect."""
    return int.from_bytes(blake2b(name.encode(), digest_size=16).digest())


def find_provider() -> "TracerProvider | None":
    """Return the provider that the program has set for all its libraries, or None."""
    trace = sys.modules.get("opentelemetry.trace")  # a program that has not loaded it has set none
    if trace is None:
        return None
    provider: TracerProvider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else provider


def build_tracer(
    name: str, redact: Redactor | None = None, *, captures_content: bool = False, provider: "TracerProvider | None" = None
) -> Tracer:
    """Build a tracer for a provider: the given one, or the one that the program has set for all its libraries. Without one, build a
    tracer for the named exporter, or one that does nothing if the name is empty."""
    if provider := provider or find_provider():
        return ProviderTracer(provider, captures_content=captures_content, redact=redact)
    if not name:
        return NullTracer()
    for entry_point in entry_points(group=EXPORTER_GROUP, name=name):
        try:
            return ExportingTracer(entry_point.load()(), captures_content=captures_content, redact=redact)
        except ImportError:
            break
    raise SettingsError(f"The trace exporter {name[:60]!r} is not installed: {describe_remedy('otel')}.")


# Spans


@contextmanager
def trace_run(tracer: Tracer, run: Run, model: str) -> Iterator[SetAttributes]:
    """Trace a run as an agent's invocation. `model` is the name of the model that it asks."""
    token = traced_run.set(run)
    try:
        with tracer.span("invoke_agent", run.role, to_model_attributes(model)) as note:
            yield note
    finally:
        traced_run.reset(token)


def trace_plan(tracer: Tracer, run: Run) -> AbstractContextManager[SetAttributes]:
    return tracer.span("plan", run.role, {"openinference.span.kind": "CHAIN"})  # Phoenix does not know the operation


def to_plan_attributes(total: int, remaining: int) -> Attributes:
    return {"headway.plan.total": total, "headway.plan.remaining": remaining}


def trace_model_call(tracer: Tracer, name: str, settings: "ModelSettings") -> AbstractContextManager[SetAttributes]:
    parameters = {f"gen_ai.request.{key}": settings[key] for key in REQUEST_PARAMETERS if settings.get(key) is not None}
    attributes = {**to_model_attributes(name), "gen_ai.request.stream": True, **parameters}
    return tracer.span("chat", str(attributes["gen_ai.request.model"]), attributes)


def to_model_attributes(name: str) -> Attributes:
    provider, _, model = name.partition(":")
    return {"gen_ai.provider.name": PROVIDERS.get(provider, provider), "gen_ai.request.model": model or name}


def to_answer_attributes(response: "ModelResponse", call: ModelCall) -> Attributes:
    attributes: dict[str, str | int | Sequence[str]] = {
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": call.cache_write_tokens,
    }
    if reasoning := response.usage.details.get("reasoning_tokens"):
        attributes["gen_ai.usage.reasoning.output_tokens"] = reasoning
    if response.model_name:
        attributes["gen_ai.response.model"] = response.model_name
    if response.provider_response_id:
        attributes["gen_ai.response.id"] = response.provider_response_id
    if response.finish_reason:
        attributes["gen_ai.response.finish_reasons"] = [response.finish_reason]
    return attributes


def trace_tool_call(tracer: Tracer, name: str, call_id: str) -> AbstractContextManager[SetAttributes]:
    attributes = {"gen_ai.tool.name": name, "gen_ai.tool.type": "function", "gen_ai.tool.call.id": call_id}
    return tracer.span("execute_tool", name, attributes)


def to_result_attributes(*, is_error: bool) -> Attributes:
    return {"error.type": "tool_error"} if is_error else {}


def to_run_attributes(run: Run) -> Attributes:
    """Return the attributes that every span of a run has. Langfuse and Phoenix group traces by `session.id`."""
    attributes: dict[str, Any] = {"gen_ai.agent.name": run.role, "gen_ai.agent.id": run.id, "headway.tenant.id": run.tenant_id}
    if run.conversation_id:
        attributes["gen_ai.conversation.id"] = attributes["session.id"] = str(run.conversation_id)
    if run.turn_id:
        attributes["headway.turn.id"] = run.turn_id
    if run.goal_id is not None:
        attributes["headway.goal.id"] = run.goal_id
    return attributes


# The content of messages and tool calls as attributes of spans, for installations that opt in.


TEXT_LIMIT: Final = 8_000  # characters of one text
MESSAGES_LIMIT: Final = 64_000  # characters of all messages of a request
MAX_DEPTH: Final = 20

Part = dict[str, Any]
ChatMessage = dict[str, Any]


def describe_request(messages: Sequence[ModelMessage], parameters: ModelRequestParameters, redact: Redactor) -> Attributes:
    """Describe a request: the newest messages that fit, the instructions and the tools."""
    chat: list[ChatMessage] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            chat.append({"role": "assistant", "parts": describe_answer_parts(message)})
        else:
            chat += describe_request_parts(message)
    kept: list[str] = []
    size = 0
    for one in reversed(chat):
        encoded = encode(one, redact)
        size += len(encoded)
        if size > MESSAGES_LIMIT and kept:
            break
        kept.append(encoded)
    attributes: dict[str, str | int] = {"gen_ai.input.messages": f"[{','.join(reversed(kept))}]"}
    if len(kept) < len(chat):
        attributes["headway.input.messages.left_out"] = len(chat) - len(kept)
    if parameters.instruction_parts:
        instructions = [to_text_part(part.content) for part in parameters.instruction_parts]
        attributes["gen_ai.system_instructions"] = encode(instructions, redact)
    if parameters.function_tools:
        tools = [{"type": "function", "name": tool.name, "description": tool.description} for tool in parameters.function_tools]
        attributes["gen_ai.tool.definitions"] = encode(tools, redact)
    return attributes


def describe_answer(response: ModelResponse, redact: Redactor) -> Attributes:
    message = {"role": "assistant", "parts": describe_answer_parts(response), "finish_reason": response.finish_reason or "stop"}
    return {"gen_ai.output.messages": encode([message], redact)}


def describe_task(task: str, redact: Redactor) -> Attributes:
    """Describe what an agent was asked to do."""
    return {"gen_ai.input.messages": encode([{"role": "user", "parts": [to_text_part(task)]}], redact)}


def describe_call(arguments: Any, result: Any, redact: Redactor) -> Attributes:
    return {"gen_ai.tool.call.arguments": encode(arguments, redact), "gen_ai.tool.call.result": encode(result, redact)}


def describe_request_parts(request: ModelRequest) -> list[ChatMessage]:
    """Return one message for each run of parts with the same role."""
    pairs = [(role, part) for one in request.parts for role, part in describe_request_part(one)]
    return [{"role": role, "parts": [part for _, part in group]} for role, group in groupby(pairs, key=lambda pair: pair[0])]


def describe_request_part(part: Any) -> list[tuple[str, Part]]:
    match part:
        case SystemPromptPart(content=text):
            return [("system", to_text_part(text))]
        case UserPromptPart(content=str(text)):
            return [("user", to_text_part(text))]
        case UserPromptPart(content=items):
            return [("user", to_text_part(describe_item(item))) for item in items]
        case ToolReturnPart():
            response = {"type": "tool_call_response", "id": part.tool_call_id, "response": part.content}
            return [("tool", response)]
        case RetryPromptPart(tool_name=str(), tool_call_id=call_id):
            return [("tool", {"type": "tool_call_response", "id": call_id, "response": part.model_response()})]
        case RetryPromptPart():
            return [("user", to_text_part(part.model_response()))]
    return []


def describe_item(item: Any) -> str:
    """Describe an item of a message. Files are named by their type and size."""
    if isinstance(item, BinaryContent):
        return f"[{item.media_type}, {len(item.data):,} bytes]"
    return item if isinstance(item, str) else f"[{type(item).__name__}]"


def describe_answer_parts(response: ModelResponse) -> list[Part]:
    parts: list[Part] = []
    for part in response.parts:
        match part:
            case TextPart(content=text):
                parts.append(to_text_part(text))
            case ThinkingPart(content=text):
                parts.append({"type": "reasoning", "content": text})
            case ToolCallPart():
                parts.append({"type": "tool_call", "id": part.tool_call_id, "name": part.tool_name, "arguments": part.args})
    return parts


def to_text_part(text: str) -> Part:
    return {"type": "text", "content": text}


def encode(value: Any, redact: Redactor) -> str:
    return json.dumps(clean(value, redact), ensure_ascii=False, default=lambda other: redact(str(other))[:TEXT_LIMIT])


def clean(value: Any, redact: Redactor, depth: int = 0) -> Any:
    """Return the value with every text redacted and cut."""
    if isinstance(value, str):
        text = redact(value)
        return text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}… [{len(text) - TEXT_LIMIT:,} more characters]"
    if depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {redact(str(name))[:TEXT_LIMIT]: clean(item, redact, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item, redact, depth + 1) for item in value]
    return value
