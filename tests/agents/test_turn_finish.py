"""Finish reasons: why a model stopped, and what the runtime does then."""

from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from headway.testing import scripted_model
from tests.agents.turn_harness import CHEAP, CHEAP_TIER, Talk, complete_next, in_order, open_talk, plan_call, tiers
from tests.model_server import Reply, Request, calls, error, filtered_text, text

NOW = calls(("now", {}))
CUT = text("The first half of a long", finish="length")
CUT_CALL = calls(("remember", {"text": "This one looks complete."}), text="I will remember that.", finish="length")
SUMMARY = text("It was about to tell a long story.", usage=(30, 5))


def cheap_requests(talk: Talk) -> list[Request]:
    return [request for request in talk.server.requests if request.model == CHEAP]


def test_a_cut_off_answer_is_continued_and_arrives_whole(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, tiers(in_order(CUT, text(" story. The end.")), SUMMARY), model_cheap=CHEAP_TIER) as talk:
        turn = talk.say("Tell me a story.")
        assert (turn["status"], turn["outcome"], turn["iterations"]) == ("finished", "answered", 2)
        assert talk.answers() == ["The first half of a long story. The end."]
        assert cheap_requests(talk) == []
        first, last = talk.server.requests
        assert last.messages[:-2] == first.messages
        assert [message["role"] for message in last.messages[-2:]] == ["assistant", "user"]
        assert last.texts[-2] == "The first half of a long"
        assert last.last.startswith("The length limit cut your answer off.")
        assert [entry.sent for entry in talk.entries()] == [True, False, False, False, True]


def test_the_next_turn_sees_a_continued_answer_as_one(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(CUT, text(" story."), text("You are welcome."))) as talk:
        talk.say("Tell me a story.")
        talk.say("Thanks.")
        assert talk.server.requests[-1].texts[1:] == ["Tell me a story.", "The first half of a long story.", "Thanks."]


def test_an_answer_in_more_than_five_parts_is_summarised(sqlite_url: str, tmp_path: Path) -> None:
    script = tiers(in_order(*[CUT] * 5, text("story.")), SUMMARY)
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        assert talk.say("Tell me a story.")["outcome"] == "answered"
        (summary_request,) = cheap_requests(talk)
        assert "The first half of a long" * 5 in summary_request.last
        assert "It was about to tell a long story." in talk.server.requests[-1].last
        assert talk.answers() == ["The first half of a long" * 5, "story."]


def test_a_cut_off_call_is_summarised_by_the_cheap_tier_and_the_turn_continues(database_url: str, tmp_path: Path) -> None:
    script = tiers(in_order(CUT_CALL, text("story. The end.")), SUMMARY)
    with open_talk(database_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        turn = talk.say("Tell me a story.")
        assert (turn["status"], turn["outcome"], turn["iterations"]) == ("finished", "answered", 2)
        assert talk.answers() == ["I will remember that.", "story. The end."]
        (summary_request,) = cheap_requests(talk)
        assert "I will remember that." in summary_request.last
        assert summary_request.tools == []
        last = talk.server.requests[-1]
        assert "It was about to tell a long story." in last.last
        assert not any("I will remember that." in message for message in last.texts)
        assert [entry.sent for entry in talk.entries()] == [True, False, True, True]
        assert [(call.tier, call.input_tokens) for call in talk.model_calls()][1] == ("cheap", 30)


def test_tool_calls_that_were_cut_off_are_never_made(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, tiers(in_order(CUT_CALL, text("Done.")), SUMMARY), model_cheap=CHEAP_TIER) as talk:
        assert talk.say()["outcome"] == "answered"
        assert talk.effects() == []
        assert talk.list_event_data("tool_call") == []
        assert talk.database.read(lambda tx: tx.all("SELECT * FROM memory_entries")) == []
        assert "remember" in cheap_requests(talk)[0].last
        assert talk.answers() == ["I will remember that.", "Done."]


@pytest.mark.parametrize("summary", [error(400), error(503), text(""), filtered_text()])
def test_a_summariser_that_fails_does_not_end_the_turn(sqlite_url: str, tmp_path: Path, summary: Reply) -> None:
    script = tiers(in_order(CUT_CALL, text("story.")), summary)
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER, model_retries="1") as talk:
        assert talk.say()["outcome"] == "answered"
        assert "… I will remember that." in talk.server.requests[-1].last


def test_a_summariser_that_cannot_be_made_does_not_end_the_turn(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(CUT_CALL, text("story.")), model_cheap="nobody:nothing") as talk:
        assert talk.say()["outcome"] == "answered"


def test_a_model_that_is_cut_off_for_ever_meets_the_limit(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, tiers(CUT, SUMMARY), model_cheap=CHEAP_TIER, max_iterations="3") as talk:
        turn = talk.say()
        assert (turn["outcome"], turn["iterations"]) == ("limit", 3)


def test_a_cut_off_answer_while_items_are_open_is_no_refusal(sqlite_url: str, tmp_path: Path) -> None:
    script = tiers(in_order(plan_call("Tell"), CUT, complete_next, text("The end.")), SUMMARY)
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        assert talk.say()["outcome"] == "drained"
        assert talk.list_event_data("refused") == []


def test_a_content_filter_ends_the_turn_and_notifies_the_operator(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(plan_call("Tell"), filtered_text("Once upon"))) as talk:
        turn = talk.say("Tell me something forbidden.")
        assert (turn["status"], turn["outcome"]) == ("finished", "filtered")
        assert "content filter" in talk.answers()[-1]
        assert len(talk.answers()) == 1
        ((kind, message),) = talk.notices()
        assert kind == "content_filter"
        assert turn["id"] in message
        (notice,) = talk.list_event_data("operator_notice")
        assert (notice["kind"], notice["turn_id"]) == ("content_filter", turn["id"])
        assert [todo.status for todo in talk.plan()] == ["pending"]
        assert talk.list_event_data("turn_finished")[0]["incomplete"][0]["title"] == "Tell"


def test_filtered_tool_calls_are_never_made(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, calls(("remember", {"text": "x"}), finish="content_filter")) as talk:
        assert talk.say()["outcome"] == "filtered"
        assert talk.effects() == []


def test_an_answer_that_ends_with_an_error_fails_the_turn(sqlite_url: str, tmp_path: Path) -> None:
    responses = [ModelResponse([TextPart("Hm"), ToolCallPart("remember", {"text": "x"})], finish_reason="error")]
    with open_talk(sqlite_url, tmp_path, scripted_model(responses)) as talk:
        turn = talk.say()
        assert (turn["status"], turn["outcome"]) == ("failed", None)
        (failed,) = talk.list_event_data("turn_failed")
        assert (failed["turn_id"], failed["code"]) == (turn["id"], "model_error")
        assert talk.effects() == []
        assert talk.answers() == []


def test_a_provider_that_gives_no_reason_is_taken_at_its_word(sqlite_url: str, tmp_path: Path) -> None:
    responses = [
        ModelResponse([ToolCallPart("now", {}, "a")], finish_reason=None),
        ModelResponse([ToolCallPart("now", {}, "b")], finish_reason="stop"),
        ModelResponse([TextPart("Late.")], finish_reason=None),
    ]
    with open_talk(sqlite_url, tmp_path, scripted_model(responses)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [effect.state for effect in talk.effects()] == ["succeeded", "succeeded"]


def test_a_new_turn_follows_one_that_failed(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(error(400), text("Hello."))) as talk:
        assert talk.say()["status"] == "failed"
        assert talk.say()["status"] == "finished"
