"""OpenTelemetry spans of agents. Without an exporter, no tracing library is loaded."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from headway import settings
from headway.agents.models.client import list_api_keys
from headway.agents.tracing import ExportingTracer, NullTracer, build_tracer, describe_request
from headway.ledger.errors import SettingsError
from headway.ledger.text import Redactor
from headway.settings.loading import OTEL_VARIABLES
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import MODEL, Failure, Reply, Request, calls, text


def plan_and_calculate(request: Request) -> Reply:
    """Plan one item, calculate, complete the item, answer."""
    results = request.tool_results
    if not results:
        return calls(("create_todo", {"items": [{"title": "look at the clock"}]}))
    if len(results) == 1:
        return calls(("calculate", {"expression": "6*7"}))
    if len(results) == 2:
        created = json.loads(results[0].content)["created"]
        return calls(("complete_todo", {"todoId": created[0]["id"], "outcome": "42"}))
    return text("It is 42.")


def list_spans(seen: InMemorySpanExporter, tracer: ExportingTracer) -> list[ReadableSpan]:
    tracer.provider.force_flush()
    return sorted(seen.get_finished_spans(), key=lambda span: span.start_time or 0)


def get_attributes(span: ReadableSpan) -> Mapping[str, Any]:
    assert span.attributes is not None
    return span.attributes


def test_a_planned_turn_is_one_trace_with_its_plan_and_calls(sqlite_url: str, tmp_path: Path) -> None:
    seen = InMemorySpanExporter()
    tracer = ExportingTracer(seen)
    with open_talk(sqlite_url, tmp_path, plan_and_calculate, tracer=tracer) as talk:
        turn = talk.say("What is six times seven?")
        spans = list_spans(seen, tracer)

    assert [span.name for span in spans] == [
        "invoke_agent index",
        f"chat {MODEL}",
        "execute_tool create_todo",
        "plan index",
        f"chat {MODEL}",
        "execute_tool calculate",
        f"chat {MODEL}",
        "execute_tool complete_todo",
        f"chat {MODEL}",
    ]
    run, asked, created, plan, *under_it = spans
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    assert run.parent is None
    assert {span.parent.span_id for span in (asked, created, plan) if span.parent} == {run.context.span_id}
    assert {span.parent.span_id for span in under_it if span.parent} == {plan.context.span_id}
    assert get_attributes(run)["headway.turn.id"] == turn["id"]
    assert get_attributes(run)["gen_ai.conversation.id"] == str(talk.conversation_id)
    assert get_attributes(plan)["gen_ai.operation.name"] == "plan"
    assert (get_attributes(plan)["headway.plan.total"], get_attributes(plan)["headway.plan.remaining"]) == (1, 0)
    assert get_attributes(under_it[1])["gen_ai.tool.name"] == "calculate"
    assert get_attributes(under_it[1])["gen_ai.tool.call.id"]
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    assert spans[0].resource.attributes["service.name"] == "headway"


def test_a_model_span_has_the_model_and_its_usage(sqlite_url: str, tmp_path: Path) -> None:
    seen = InMemorySpanExporter()
    tracer = ExportingTracer(seen)
    reply = replace(text("hello", usage=(30, 4)), cached=20)
    with open_talk(sqlite_url, tmp_path, reply, tracer=tracer) as talk:
        talk.say("hello")
        run, asked = list_spans(seen, tracer)
        run_id, turn_id = talk.run_row().id, talk.turn()["id"]

    shared = {
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": MODEL,
        "gen_ai.agent.name": "index",
        "gen_ai.agent.id": run_id,
        "gen_ai.conversation.id": str(talk.conversation_id),
        "session.id": str(talk.conversation_id),
        "headway.tenant.id": talk.tenant_id,
        "headway.turn.id": turn_id,
    }
    assert (run.kind, asked.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
    assert get_attributes(run) == {**shared, "gen_ai.operation.name": "invoke_agent"}
    assert str(get_attributes(asked)["gen_ai.response.id"]).startswith("chatcmpl-")
    assert {**get_attributes(asked), "gen_ai.response.id": ""} == {
        **shared,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": 8192,
        "gen_ai.response.id": "",
        "gen_ai.response.model": MODEL,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 20,
        "gen_ai.usage.cache_creation.input_tokens": 0,
    }


def test_nothing_that_was_said_is_on_a_span(sqlite_url: str, tmp_path: Path) -> None:
    seen = InMemorySpanExporter()
    tracer = ExportingTracer(seen)
    script = in_order(calls(("calculate", {"expression": "secret"})), Reply(failure=Failure(400, "a secret was refused")))
    with open_talk(sqlite_url, tmp_path, script, tracer=tracer) as talk:
        talk.say("This is a secret.")
        spans = list_spans(seen, tracer)

    assert "secret" not in "".join(span.to_json() for span in spans)


def test_content_is_captured_on_request_without_secrets_and_within_limits(sqlite_url: str, tmp_path: Path) -> None:
    seen = InMemorySpanExporter()
    tracer = ExportingTracer(seen, captures_content=True, redact=Redactor(("hunter2hunter2",)))
    script = in_order(calls(("remember", {"text": "hunter2hunter2 " + "x" * 9_000})), text("It is a hunter2hunter2."))
    with open_talk(sqlite_url, tmp_path, script, tracer=tracer) as talk:
        talk.headway.runtime.models.redact = tracer.redact
        talk.say("My password is hunter2hunter2.")
        run, first, tool, second = [get_attributes(span) for span in list_spans(seen, tracer)]

    assert "hunter2" not in json.dumps([dict(run), dict(first), dict(tool), dict(second)])
    question = {"role": "user", "parts": [{"type": "text", "content": "My password is …."}]}
    answer = {"role": "assistant", "parts": [{"type": "text", "content": "It is a …."}], "finish_reason": "stop"}
    assert json.loads(run["gen_ai.input.messages"]) == [question]
    assert json.loads(run["gen_ai.output.messages"]) == json.loads(second["gen_ai.output.messages"]) == [answer]
    roles = [message["role"] for message in json.loads(second["gen_ai.input.messages"])]
    assert (roles[0], roles[-2:]) == ("user", ["assistant", "tool"])
    (call,) = json.loads(first["gen_ai.output.messages"])[0]["parts"]
    (returned,) = json.loads(second["gen_ai.input.messages"])[-1]["parts"]
    assert (call["type"], call["name"], returned["type"], returned["id"]) == (
        "tool_call",
        "remember",
        "tool_call_response",
        call["id"],
    )
    assert json.loads(tool["gen_ai.tool.call.arguments"])["text"].startswith("… xxx")
    assert len(tool["gen_ai.tool.call.arguments"]) < 8_100
    assert "gen_ai.tool.call.result" in tool
    assert json.loads(first["gen_ai.system_instructions"])[0]["type"] == "text"
    tools = json.loads(first["gen_ai.tool.definitions"])
    assert {"function"} == {definition["type"] for definition in tools}
    assert "use_tool" in [definition["name"] for definition in tools]


def test_no_span_has_the_key_that_a_provider_quotes(sqlite_url: str, tmp_path: Path) -> None:
    seen = InMemorySpanExporter()
    tracer = ExportingTracer(seen, captures_content=True)
    with open_talk(sqlite_url, tmp_path, text("Hello."), tracer=tracer) as talk:
        models = talk.headway.runtime.models
        (key,) = list_api_keys(models.find("strong"))
        talk.server.script = lambda _request: Reply(failure=Failure(401, f"Incorrect API key: Bearer {key}"))
        assert talk.say()["status"] == "failed"
        spans = list_spans(seen, tracer)
    assert len(spans) >= 2
    assert key not in "".join(span.to_json() for span in spans)


def test_only_the_newest_messages_of_a_long_conversation_are_captured() -> None:
    messages = [ModelRequest([UserPromptPart(f"{number} " + "x" * 7_000)]) for number in range(20)]
    attributes = describe_request(messages, ModelRequestParameters(), Redactor())
    kept = json.loads(str(attributes["gen_ai.input.messages"]))

    assert (len(kept), attributes["headway.input.messages.left_out"]) == (9, 11)
    assert kept[-1]["parts"][0]["content"].startswith("19 ")


@pytest.mark.parametrize(("value", "captures"), [("true", True), ("SPAN_ONLY", True), ("false", False), ("", False)])
def test_the_standard_variable_opts_in_to_content(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str, captures: bool
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)

    assert settings.load({"home": str(tmp_path)}).traces.captures_content is captures


def test_failures_are_marked(sqlite_url: str, tmp_path: Path) -> None:
    seen = InMemorySpanExporter()
    tracer = ExportingTracer(seen)
    script = in_order(calls(("calculate", {"expression": "1/0"})), Reply(failure=Failure(400, "no such thing")))
    with open_talk(sqlite_url, tmp_path, script, tracer=tracer) as talk:
        talk.say()
        spans = list_spans(seen, tracer)

    failed = {span.name: get_attributes(span)["error.type"] for span in spans if span.status.status_code == StatusCode.ERROR}
    assert failed == {
        "invoke_agent index": "model_failed",
        "execute_tool calculate": "tool_error",
        f"chat {MODEL}": "ModelFailed",
    }


def test_a_retried_turn_stays_in_the_same_trace(sqlite_url: str, tmp_path: Path) -> None:
    seen = InMemorySpanExporter()
    tracer = ExportingTracer(seen)
    replies = [Reply(failure=Failure(500, "later")), text("hello"), text("else")]
    with open_talk(sqlite_url, tmp_path, in_order(*replies), tracer=tracer) as talk:
        talk.say()
        talk.say("Something else.")
        spans = list_spans(seen, tracer)

    by_turn: dict[str, set[int]] = {}
    for span in spans:
        if span.name == "invoke_agent index":
            by_turn.setdefault(get_attributes(span)["headway.turn.id"], set()).add(span.context.trace_id)
    assert [len(traces) for traces in by_turn.values()] == [1, 1]
    assert len(set.union(*by_turn.values())) == 2
    assert sum(span.name == "invoke_agent index" for span in spans) == 3


@pytest.mark.parametrize(
    ("given", "exporter"),
    [
        ({}, ""),
        ({"TRACES_EXPORTER": "none", "EXPORTER_OTLP_ENDPOINT": "http://collector"}, ""),
        ({"EXPORTER_OTLP_ENDPOINT": "http://collector", "SDK_DISABLED": "true"}, ""),
        ({"EXPORTER_OTLP_ENDPOINT": "http://collector"}, "otlp_proto_http"),
        ({"EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector", "EXPORTER_OTLP_PROTOCOL": "grpc"}, "otlp_proto_grpc"),
        ({"TRACES_EXPORTER": "console"}, "console"),
    ],
)
def test_the_standard_otel_variables_select_the_exporter(
    given: dict[str, str], exporter: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in OTEL_VARIABLES:
        monkeypatch.delenv(f"OTEL_{name}", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(f"OTEL_{name}", value)

    assert settings.load().traces.exporter == exporter


def test_an_exporter_that_is_not_installed_is_named_with_what_to_do() -> None:
    with pytest.raises(SettingsError, match=r"'carrier-pigeon' is not installed: pip install 'headway\[otel\]'"):
        build_tracer("carrier-pigeon")


def run_process(command: list[str], folder: Path, **variables: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "OTEL_"))} | variables
    process = subprocess.run([sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_without_an_exporter_nothing_is_traced() -> None:
    assert isinstance(build_tracer(""), NullTracer)


def test_a_process_hands_over_its_spans_before_it_ends(tmp_path: Path) -> None:
    output = run_process(["-m", "headway", "chat", "hello"], tmp_path, OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="ours")

    assert '"name": "invoke_agent index"' in output
    assert '"name": "chat rehearsal"' in output
    assert '"service.name": "ours"' in output
