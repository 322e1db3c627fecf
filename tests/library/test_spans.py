"""Spans of agents go to the tracer of the program that embeds Headway."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from headway import Headway, TurnFailed
from headway.testing import scripted_model, temporary_headway
from tests.warm_start import build_command

GLOBAL = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headway import sync

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
with sync.open(home="home", model="rehearsal") as headway:
    headway.ask("Calculate 12*7.")
print(*sorted({span.name for span in spans.get_finished_spans()}), sep="; ")
with trace.get_tracer("mine").start_as_current_span("mine"):
    pass  # the provider is still the program's own
print(spans.get_finished_spans()[-1].name)
"""


def test_spans_go_to_the_given_provider_below_the_callers_span(tmp_path: Path) -> None:
    exported, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))

    async def scenario() -> None:
        async with Headway.open(home=tmp_path, model="rehearsal", tracer_provider=provider) as headway:
            with provider.get_tracer("mine").start_as_current_span("my request"):
                await headway.ask("Calculate 12*7.")

    asyncio.run(asyncio.wait_for(scenario(), 60))
    spans = {span.name: span for span in exported.get_finished_spans()}
    assert {"my request", "invoke_agent index", "chat rehearsal", "execute_tool calculate"} <= set(spans)
    assert len({span.context.trace_id for span in spans.values() if span.context}) == 1
    run = spans["invoke_agent index"]
    assert run.parent
    assert spans["my request"].context
    assert run.parent.span_id == spans["my request"].context.span_id
    attributes = dict(spans["chat rehearsal"].attributes or {})
    assert attributes["gen_ai.operation.name"] == "chat"
    assert "gen_ai.input.messages" not in attributes


def test_spans_go_to_the_global_provider(tmp_path: Path) -> None:
    ran = subprocess.run(build_command("-c", GLOBAL), cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    names, last = ran.stdout.splitlines()
    assert {"chat rehearsal", "execute_tool calculate", "invoke_agent index"} <= set(names.split("; "))
    assert last == "mine"


def test_a_script_that_is_too_short_says_so(tmp_path: Path) -> None:
    model = scripted_model([ModelResponse([ToolCallPart("now", {})]), ModelResponse([ToolCallPart("now", {})])])

    async def scenario() -> None:
        async with temporary_headway(tmp_path, model) as headway:
            with pytest.raises(TurnFailed, match=r"Its script has 2 answers, and this is request 3\. Add an answer"):
                await headway.ask("What time is it?")
        async with temporary_headway(tmp_path / "other", scripted_model([ModelResponse([TextPart("Noon.")])])) as headway:
            assert (await headway.ask("What time is it?")).answer == "Noon."

    asyncio.run(asyncio.wait_for(scenario(), 60))
