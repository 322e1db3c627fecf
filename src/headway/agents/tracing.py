"""OpenTelemetry spans for agent runs, following the semantic conventions for generative AI. Without an exporter there is no cost.

Spans nest by context: a run contains its plan, which contains model and tool calls. The trace id is derived from the turn's id, so
that a turn forms one trace even if several processes worked on it. Spans never contain message content.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from hashlib import blake2b
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

from headway.ledger.errors import SettingsError
from headway.ledger.run import Run
from headway.storage.stores.spending import ModelCall

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

EXPORTER_GROUP: Final = "opentelemetry_traces_exporter"  # entry point group in which exporters register
# OpenTelemetry's provider names, where they differ from pydantic-ai's.
PROVIDERS: Final = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "grok": "x_ai",
}

Attributes = Mapping[str, str | int]
SetAttributes = Callable[[Attributes], None]  # sets attributes on an open span

trace_name: ContextVar[str] = ContextVar("trace_of", default="")


class Tracer(Protocol):
    def span(self, operation: str, subject: str, attributes: Attributes) -> AbstractContextManager[SetAttributes]: ...

    def close(self) -> None: ...


class NullTracer:
    """A tracer that does nothing, for installations without an exporter."""

    def span(self, _operation: str, _subject: str, _attributes: Attributes) -> AbstractContextManager[SetAttributes]:
        return nullcontext(ignore_attributes)

    def close(self) -> None:
        """Do nothing."""


def ignore_attributes(_attributes: Attributes) -> None:
    """Discard the attributes."""


class ExportingTracer:
    """A tracer that exports spans in the background."""

    def __init__(self, exporter: "SpanExporter") -> None:
        # Imported here, because OpenTelemetry is an optional dependency.
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415

        class TurnIds(RandomIdGenerator):
            def generate_trace_id(self) -> int:
                return to_trace_id(trace_name.get()) or super().generate_trace_id()

        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "headway"}))
        self.provider = TracerProvider(resource=resource, id_generator=TurnIds())
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self.provider.get_tracer("headway")

    @contextmanager
    def span(self, operation: str, subject: str, attributes: Attributes) -> Iterator[SetAttributes]:
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415

        kind = SpanKind.CLIENT if operation == "chat" else SpanKind.INTERNAL
        initial_attributes = {"gen_ai.operation.name": operation, **attributes}
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

    def close(self) -> None:
        """Export the remaining spans."""
        self.provider.shutdown()


def to_trace_id(name: str) -> int:
    """Derive a trace id from a name. It is deterministic, and uniformly distributed as samplers expect."""
    return int.from_bytes(blake2b(name.encode(), digest_size=16).digest()) if name else 0


def build_tracer(name: str) -> Tracer:
    """Build a tracer for the named exporter, or one that does nothing if the name is empty."""
    if not name:
        return NullTracer()
    for entry_point in entry_points(group=EXPORTER_GROUP, name=name):
        try:
            return ExportingTracer(entry_point.load()())
        except ImportError:
            break
    raise SettingsError(f"The trace exporter {name[:60]!r} is not installed: pip install 'headway[otel]'.")


# Spans


@contextmanager
def trace_run(tracer: Tracer, run: Run) -> Iterator[None]:
    token = trace_name.set(run.turn_id or run.id)
    try:
        with tracer.span("invoke_agent", run.role, to_run_attributes(run)):
            yield
    finally:
        trace_name.reset(token)


def trace_plan(tracer: Tracer, run: Run) -> AbstractContextManager[SetAttributes]:
    return tracer.span("plan", run.role, to_run_attributes(run))


def to_plan_attributes(total: int, remaining: int) -> Attributes:
    return {"headway.plan.total": total, "headway.plan.remaining": remaining}


def trace_model_call(tracer: Tracer, name: str) -> AbstractContextManager[SetAttributes]:
    provider, _, model = name.partition(":")
    attributes = {"gen_ai.provider.name": PROVIDERS.get(provider, provider), "gen_ai.request.model": model or name}
    return tracer.span("chat", model or name, attributes)


def to_usage_attributes(call: ModelCall) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": call.cache_write_tokens,
    }


def trace_tool_call(tracer: Tracer, name: str, call_id: str) -> AbstractContextManager[SetAttributes]:
    attributes = {"gen_ai.tool.name": name, "gen_ai.tool.type": "function", "gen_ai.tool.call.id": call_id}
    return tracer.span("execute_tool", name, attributes)


def to_result_attributes(*, is_error: bool) -> Attributes:
    return {"error.type": "tool_error"} if is_error else {}


def to_run_attributes(run: Run) -> Attributes:
    attributes: dict[str, Any] = {"gen_ai.agent.name": run.role, "gen_ai.agent.id": run.id, "headway.tenant.id": run.tenant_id}
    if run.conversation_id:
        attributes["gen_ai.conversation.id"] = str(run.conversation_id)
    if run.turn_id:
        attributes["headway.turn.id"] = run.turn_id
    return attributes
