"""A tier's fallbacks: asked at once when its model is out of service, and never when the request is at fault."""

import asyncio
import json
from pathlib import Path

import pytest
from pydantic_ai.models import ModelRequestParameters

from headway.agents.models.client import ModelFailed, Models
from headway.agents.models.prices import Price, Prices
from headway.agents.transcripts.transcript import build_user_message
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.tiers import TIERS, TierParameters
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import PATIENCE_S, Reply, Request, Script, calls, drop, error, filtered_text, text

FIRST, SPARE, LAST = "fake-1", "spare-1", "last-1"
ANSWER = text("From the spare one.")


def by_model(**replies: Reply) -> Script:
    """Return a script with one reply for each model."""
    return lambda request: replies[request.model.partition("-")[0]]


def write_fallbacks(home: Path, *names: str, more: str = "") -> None:
    listed = json.dumps([f"openai-chat:{name}" for name in names])
    (home / "models.toml").write_text(f"[strong]\nfallback = {listed}\n{more}")


def list_asked(talk: Talk) -> list[str]:
    return [request.model for request in talk.server.requests]


@pytest.mark.parametrize(
    "failure",
    [error(503, "overloaded"), error(429), error(401), error(404), error(402), error(500), drop()],
    ids=lambda reply: str(reply.failure),
)
def test_a_model_out_of_service_is_replaced_at_once(sqlite_url: str, tmp_path: Path, failure: Reply) -> None:
    write_fallbacks(tmp_path, SPARE)
    with open_talk(sqlite_url, tmp_path, by_model(fake=failure, spare=ANSWER), retry_delay_s="600") as talk:
        assert talk.say()["outcome"] == "answered"
        assert list_asked(talk) == [FIRST, SPARE]
        assert talk.answers() == ["From the spare one."]
        assert [(call.tier, call.model) for call in talk.model_calls()] == [("strong", "openai-chat:spare-1")]


@pytest.mark.parametrize("failure", [error(400, "bad"), error(422, "bad"), error(400, "maximum context length is 9 tokens")])
def test_a_request_at_fault_is_sent_to_no_other_model(sqlite_url: str, tmp_path: Path, failure: Reply) -> None:
    write_fallbacks(tmp_path, SPARE)
    with open_talk(sqlite_url, tmp_path, by_model(fake=failure, spare=ANSWER)) as talk:
        talk.say()
        assert SPARE not in list_asked(talk)


def test_a_filtered_answer_is_sent_to_no_other_model(sqlite_url: str, tmp_path: Path) -> None:
    write_fallbacks(tmp_path, SPARE)
    with open_talk(sqlite_url, tmp_path, by_model(fake=filtered_text(), spare=ANSWER)) as talk:
        talk.say()
        assert set(list_asked(talk)) == {FIRST}


def test_text_of_a_broken_answer_is_withdrawn_before_the_fallback_answers(sqlite_url: str, tmp_path: Path) -> None:
    write_fallbacks(tmp_path, SPARE)
    with open_talk(sqlite_url, tmp_path, by_model(fake=drop("Half a sentence that nobody ends"), spare=ANSWER)) as talk:
        talk.say()
        assert talk.read_streamed_text() == "From the spare one."


def test_a_list_without_an_answer_names_each_model(sqlite_url: str, tmp_path: Path) -> None:
    write_fallbacks(tmp_path, SPARE, LAST)
    script = by_model(fake=error(401, "bad key"), spare=error(404, "no such model"), last=error(402, "no credit"))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        (event,) = talk.list_event_data("turn_failed")
        assert list_asked(talk) == [FIRST, SPARE, LAST]
        for part in ("fake-1 failed (HTTP 401): bad key.", "spare-1 failed (HTTP 404): no such model.", "last-1 failed (HTTP 402)"):
            assert part in event["error"]


def test_a_list_is_asked_again_if_one_failure_was_transient(sqlite_url: str, tmp_path: Path) -> None:
    write_fallbacks(tmp_path, SPARE)

    def script(request: Request) -> Reply:
        return ANSWER if len(talk.server.requests) == 3 else error(503) if request.model == FIRST else error(401)

    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say()["outcome"] == "answered"
        assert list_asked(talk) == [FIRST, SPARE, FIRST]


def test_a_model_that_cannot_be_built_is_replaced(sqlite_url: str, tmp_path: Path) -> None:
    write_fallbacks(tmp_path, SPARE)
    with open_talk(sqlite_url, tmp_path, ANSWER, model="nobody:nothing") as talk:
        assert talk.say()["outcome"] == "answered"
        assert list_asked(talk) == [SPARE]


def test_a_fallback_without_tools_is_left_out_once_that_is_known(sqlite_url: str, tmp_path: Path) -> None:
    write_fallbacks(tmp_path, SPARE, LAST)
    no_tools = error(400, "spare-1 does not support tools")
    script = by_model(fake=error(503), spare=no_tools, last=text("From the last one."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say()["outcome"] == "answered"
        assert list_asked(talk) == [FIRST, SPARE, FIRST, LAST]
        assert talk.headway.runtime.models.describe("strong").supports_tools  # the tier's own model has them


# Facts about a tier cover its fallbacks


def build_models(*names: str, parameters: TierParameters | None = None) -> Models:
    chosen = (parameters or TierParameters())._replace(fallback=names[1:])
    prices = Prices({"a:small": Price(1, 2), "a:dear": Price(10, 50)})
    return Models(dict.fromkeys(TIERS, names[0]), PATIENCE_S, prices, parameters=dict.fromkeys(TIERS, chosen))


def test_the_smallest_window_and_the_highest_price_of_the_list_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    info = build_models("openai:gpt-4o", "ollama:llama3.2").describe("strong")
    assert (info.name, info.context_tokens, info.max_output_tokens) == ("openai:gpt-4o", 4_096, 1_024)
    models = build_models("a:small", "a:dear", "a:free", parameters=TierParameters(max_output_tokens=100))
    assert models.estimate("strong", lambda: 1_000) == (1_000 * 10 + 100 * 50) * NANOS_PER_DOLLAR // 1_000_000


def test_a_list_that_cannot_be_built_fails_for_good() -> None:
    with pytest.raises(ModelFailed, match=r"a:small.*a:dear") as failed:
        asyncio.run(build_models("a:small", "a:dear").ask("cheap", [build_user_message("hello")], ModelRequestParameters()))
    assert not failed.value.is_transient


def test_a_sub_agent_and_a_tool_call_survive_a_change_of_model(sqlite_url: str, tmp_path: Path) -> None:
    write_fallbacks(tmp_path, SPARE)

    def script(request: Request) -> Reply:
        if request.model == FIRST:
            return calls(("now", {})) if not request.tool_results else error(503)
        return text("It is late.")

    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [call.model for call in talk.model_calls()] == ["openai-chat:fake-1", "openai-chat:spare-1"]
        assert talk.server.violations == []
