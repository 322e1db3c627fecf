"""A provider that sends Retry-After gets no request until then. The wait holds no slot, and users can see when it ends."""

import time
from email.utils import formatdate
from pathlib import Path

import pytest

from headway.actions.runs import runs
from tests.agents.job_harness import (
    LONG_S,
    begin_delayed_turn,
    get_delay_ms,
    list_errors,
    make_due,
    retry,
    run_another_turn,
    wait_for_end,
)
from tests.agents.turn_harness import CHEAP_TIER, in_order, open_talk, queue_call, tiers
from tests.model_server import Reply, calls, error, raw, text

pytestmark = pytest.mark.usefixtures("dispatch")

HELLO = text("Hello.")


def refusal(**headers: str) -> Reply:
    return raw('{"error": {"message": "slow down"}}', 429, "application/json", **headers)


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"Retry_After": "120"}, 120),
        ({"Retry_After": "1800"}, 1_800),
        ({"Retry_After": "100000"}, 3_600),
        ({"Retry_After": "9" * 300}, 3_600),
        ({"retry_after_ms": "90000", "Retry_After": "1"}, 90),
        ({"retry_after_ms": "7200000"}, 3_600),
    ],
    ids=str,
)
def test_retry_after_is_obeyed_up_to_an_hour(sqlite_url: str, tmp_path: Path, headers: dict[str, str], waited: int) -> None:
    """004, QUEUE-01: "External calls retry with exponential backoff on transient failures"."""
    with open_talk(sqlite_url, tmp_path, in_order(refusal(**headers), HELLO)) as talk:
        assert get_delay_ms(talk.wait(begin_delayed_turn(talk))) == waited * 1_000
        make_due(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"


def test_retry_after_may_be_a_date(sqlite_url: str, tmp_path: Path) -> None:
    date = int(time.time()) + 600
    with open_talk(sqlite_url, tmp_path, in_order(refusal(Retry_After=formatdate(date, usegmt=True)), HELLO)) as talk:
        job = talk.wait(begin_delayed_turn(talk))
        assert job.due_at > (date - 1) * 1_000
        assert get_delay_ms(job) <= 600_000
        make_due(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"


def test_a_setting_caps_it(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(refusal(Retry_After="1800"), HELLO), retry_after_max_s="90") as talk:
        assert get_delay_ms(talk.wait(begin_delayed_turn(talk))) == 90_000


@pytest.mark.parametrize("nonsense", ["soon", "-5", "NaN", "Infinity", "Thu, 99 Foo 2026 99:99:99 GMT", ""])
def test_a_wait_that_cannot_be_read_is_as_long_as_any_other(sqlite_url: str, tmp_path: Path, nonsense: str) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(refusal(Retry_After=nonsense), HELLO), retry_delay_s=LONG_S) as talk:
        assert 45_000 <= get_delay_ms(talk.wait(begin_delayed_turn(talk))) <= 75_000


def test_a_waiting_turn_holds_no_slot_and_shows_until_when(database_url: str, tmp_path: Path) -> None:
    script = in_order(calls(("now", {})), refusal(Retry_After="1800"), HELLO, HELLO)
    with open_talk(database_url, tmp_path, script, sweeping=True) as talk:
        job = talk.wait(begin_delayed_turn(talk))
        turn = talk.turn()
        assert turn["status"] == "running"
        assert turn["retry_at"] == job.as_json()["due_at"]
        assert get_delay_ms(job) == 1_800_000
        run = talk.run_row()
        assert talk.database.read(lambda tx: runs.show_run(tx, run))["retry_at"] == turn["retry_at"]
        (event,) = talk.list_event_data("turn_delayed")
        assert (event["turn_id"], event["retry_at"]) == (turn["id"], turn["retry_at"])
        assert (event["attempt"], event["attempts"]) == (2, 5)
        assert event["delay_s"] == 1_800
        assert event["reason"] == "The model openai-chat:fake-1 is rate limited (HTTP 429): slow down."
        assert (event["attempt"], event["attempts"]) == (2, 5)
        assert (talk.headway.engine.tasks, talk.pool().reserved) == ({}, 0)
        run_another_turn(talk)
        make_due(talk)
        turn = talk.wait(wait_for_end(talk))
        assert (turn["outcome"], turn["retry_at"]) == ("answered", 0)


def test_the_wait_survives_a_restart(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, in_order(refusal(Retry_After="1800"), HELLO, HELLO)) as talk:
        retry_at = talk.wait(begin_delayed_turn(talk)).retry_at
        talk.revive()
        run_another_turn(talk)  # in the new process, which does not touch the delayed turn
        assert talk.turn()["retry_at"] == retry_at
        assert len(talk.server.requests) == 2
        make_due(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"


def test_a_person_may_have_it_tried_sooner(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(refusal(Retry_After="1800"), HELLO)) as talk:
        talk.wait(begin_delayed_turn(talk))
        retry(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"
        assert len(talk.server.requests) == 2


def test_a_wait_that_was_asked_for_counts_as_an_attempt(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, refusal(Retry_After="0"), model_retries="3") as talk:
        assert talk.say()["status"] == "failed"
        assert len(talk.server.requests) == len(list_errors(talk)) == 3
        (event,) = talk.list_event_data("turn_failed")
        assert (event["code"], "rate limited" in event["error"]) == ("model_failed", True)


def test_nothing_waits_inside_a_providers_library(sqlite_url: str, tmp_path: Path) -> None:
    """A retry inside the library would hold a slot and exceed the configured number of attempts."""
    script = in_order(refusal(Retry_After="1", x_should_retry="true"), HELLO)
    with open_talk(sqlite_url, tmp_path, script, retry_delay_s=LONG_S) as talk:
        talk.wait(begin_delayed_turn(talk))
        assert len(talk.server.requests) == len(list_errors(talk)) == 1


def test_retry_after_is_honoured_for_the_assessor_too(sqlite_url: str, tmp_path: Path) -> None:
    strong = in_order(queue_call("dig"), text("I dug."))
    judge = in_order(refusal(Retry_After="1800"), text('{"ok": true}'))
    with open_talk(sqlite_url, tmp_path, tiers(strong, judge), model_cheap=CHEAP_TIER) as talk:

        async def scenario() -> None:
            await talk.begin(mode="queue")
            await talk.until(lambda: bool(talk.turn()["retry_at"]))

        talk.wait(scenario())
        assert get_delay_ms(talk.job()) == 1_800_000
        make_due(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "drained"


def test_a_failure_that_names_no_time_says_when_it_is_tried_again_too(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(error(503, "busy"), HELLO), retry_delay_s=LONG_S) as talk:
        job = talk.wait(begin_delayed_turn(talk))
        assert talk.turn()["retry_at"] == job.as_json()["due_at"]
        assert 45_000 <= get_delay_ms(job) <= 75_000
        make_due(talk)
        talk.wait(wait_for_end(talk))
