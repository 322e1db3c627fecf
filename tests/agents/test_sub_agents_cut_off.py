"""An answer of a sub-agent that was cut off by the length limit is completed: its parts are joined."""

import json
from pathlib import Path

import pytest

from headway.agents.loop.broken_answers import CONTINUE_PROMPT, MAX_PARTS
from headway.agents.transcripts import transcript
from headway.agents.transcripts.transcript import TranscriptEntry
from tests.agents.sub_agent_harness import (
    begin_and_wait,
    by_role,
    by_transcript,
    crash_process,
    delegate_call,
    get_result,
    hold_replies,
    list_requests,
    list_sub_agents,
    wait_for_end,
)
from tests.agents.turn_harness import CHEAP, CHEAP_TIER, Talk, in_order, open_talk
from tests.model_server import Reply, Request, call, calls, text

pytestmark = pytest.mark.usefixtures("dispatch")

INDEX = by_transcript(delegate_call("dig"), text("Dug."))
STORY = "The first hole is one metre deep. The second hole is two metres deep."
HALF = STORY[:37]
OUTCOME = {"summary": "Two holes.", "data": {"depths": [1, 2], "note": "The second one is wet."}}
WRITTEN = json.dumps(OUTCOME)
PLACES = (1, 20, 35, 60, len(WRITTEN) - 1)


def report_call(arguments: str, finish: str = "length") -> Reply:
    return calls(call("report_outcome", raw_arguments=arguments), finish=finish)


def load_entries(talk: Talk) -> list[TranscriptEntry]:
    run = list_sub_agents(talk)["dig"]
    return talk.database.read(lambda tx: transcript.load(tx, run))


ANSWERS: dict[str, list[Reply]] = {
    "two parts": [text(HALF, finish="length"), text(STORY[37:])],
    "three parts": [text(STORY[:10], finish="length"), text(STORY[10:50], finish="length"), text(STORY[50:])],
    "started over": [text(STORY[:60], finish="length"), text(STORY)],
}


@pytest.mark.parametrize("replies", ANSWERS.values(), ids=ANSWERS.keys())
def test_a_plain_answer_that_was_cut_off_arrives_whole(sqlite_url: str, tmp_path: Path, replies: list[Reply]) -> None:
    """004: "Sub-agents report structured results back to the main agent on completion or failure"."""
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=in_order(*replies))) as talk:
        talk.say()
        assert get_result(talk, "dig")["summary"] == STORY
        requests = list_requests(talk, "researcher")
        assert [request.last for request in requests[1:]] == [CONTINUE_PROMPT] * (len(replies) - 1)
        assert requests[1].texts[-2] == replies[0].text
        *parts, whole = [entry for entry in load_entries(talk) if entry.message.kind == "response"]
        assert [entry.sent for entry in parts] == [False] * len(parts)
        assert (whole.sent, transcript.get_text(whole.message)) == (True, STORY)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rest", ["text", "call"])
def test_a_reported_outcome_that_was_cut_off_arrives_whole(sqlite_url: str, tmp_path: Path, place: int, rest: str) -> None:
    """004: "BullMQ job return value (JSON-serialized)"."""
    end = text(WRITTEN[place:]) if rest == "text" else report_call(WRITTEN[place:], "tool_calls")
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=in_order(report_call(WRITTEN[:place]), end))) as talk:
        talk.say()
        result = get_result(talk, "dig")
        assert (result["status"], result["summary"], result["data"]) == ("completed", "Two holes.", OUTCOME["data"])
        assert list_requests(talk, "researcher")[1].calls == []
        assert {effect.tool: effect.state for effect in talk.effects()} == {"delegate": "succeeded", "report_outcome": "succeeded"}


def test_a_repeated_report_replaces_the_partial_one(sqlite_url: str, tmp_path: Path) -> None:
    """004: "returned via job return value"."""
    researcher = in_order(report_call('{"summary": "Three'), report_call(WRITTEN, "tool_calls"))
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=researcher)) as talk:
        talk.say()
        assert get_result(talk, "dig")["data"] == OUTCOME["data"]


def test_a_model_that_calls_another_tool_instead_continues(sqlite_url: str, tmp_path: Path) -> None:
    """004: "`'tool_calls'` (execute tools)"."""
    researcher = in_order(report_call('{"summary": "Three'), calls(("now", {})), text("One hole."))
    with open_talk(sqlite_url, tmp_path, by_role(index=INDEX, researcher=researcher)) as talk:
        talk.say()
        assert get_result(talk, "dig")["summary"] == "One hole."


def test_other_calls_that_were_cut_off_are_never_made(sqlite_url: str, tmp_path: Path) -> None:
    """004: "`'length'` (context limit — summarize and continue)"."""
    cut_off_call = calls(call("remember", raw_arguments='{"text": "This one looks complete."}'), finish="length")
    script = by_role(
        index=INDEX, researcher=in_order(cut_off_call, text("One hole.")), own=text("It wanted to remember something.")
    )
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        talk.say()
        assert get_result(talk, "dig")["summary"] == "One hole."
        assert [effect.tool for effect in talk.effects()] == ["delegate"]
        assert [request.model for request in talk.server.requests if request.model == CHEAP] == [CHEAP]


def test_an_answer_in_too_many_parts_is_summarised(sqlite_url: str, tmp_path: Path) -> None:
    """004: "`'length'` (context limit — summarize and continue)"."""

    def researcher(request: Request) -> Reply:
        return text("One hole.") if "A long story" in request.last else text("and then ", finish="length")

    script = by_role(index=INDEX, researcher=researcher, own=text("A long story."))
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        talk.say()
        assert get_result(talk, "dig")["summary"] == "One hole."
        (summary_request,) = (request for request in talk.server.requests if request.model == CHEAP)
        assert summary_request.last == "and then " * MAX_PARTS


def test_a_crash_between_the_parts_loses_nothing(database_url: str, tmp_path: Path) -> None:
    """004: "Agent survives … machine restarts without losing in-flight work"."""

    async def scenario() -> None:
        await begin_and_wait(talk, "researcher", 2)  # the request for the second part is pending
        await crash_process(talk)

    with open_talk(database_url, tmp_path, text(""), sweeping=True) as talk:
        rest = hold_replies(talk, text(STORY[37:]))
        talk.server.script = by_role(index=INDEX, researcher=by_transcript(text(HALF, finish="length"), rest))
        talk.wait(scenario())
        talk.server.release()
        talk.revive()
        wait_for_end(talk)
        assert get_result(talk, "dig")["summary"] == STORY
        assert [len(request.texts[-2]) for request in list_requests(talk, "researcher")[1:]] == [37, 37]
