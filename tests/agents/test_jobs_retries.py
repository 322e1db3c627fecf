"""A model call that failed with a transient error is retried later, a limited number of times, and holds no slot meanwhile."""

import asyncio
from pathlib import Path

import pytest

from tests.agents.job_harness import (
    LONG_S,
    begin_delayed_turn,
    get_delay_ms,
    list_errors,
    make_due,
    run_another_turn,
    spoil_transcript,
    wait_for_end,
)
from tests.agents.turn_harness import in_order, open_talk
from tests.free_ports import find_ports
from tests.model_server import ModelServer, Reply, calls, drop, error, flaky, slow, text

pytestmark = pytest.mark.usefixtures("dispatch")

HELLO = text("Hello.")


def test_a_turns_job_completes_with_it(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, HELLO) as talk:
        turn = talk.say("Say hello.")
        job = talk.job().as_json()
        assert (job["kind"], job["state"], job["attempts"], job["errors"]) == ("turn", "completed", 0, [])
        assert job["payload"] == {"turn_id": turn["id"], "conversation_id": talk.conversation_id, "request": "Say hello."}
        assert talk.job().owner == ""


@pytest.mark.parametrize("failure", [error(503), error(429), drop(), slow(60, HELLO)], ids=["503", "429", "cut off", "timeout"])
def test_transient_failures_are_retried_later_with_the_same_request(sqlite_url: str, tmp_path: Path, failure: Reply) -> None:
    check_that_it_is_retried(sqlite_url, tmp_path, failure)


def test_transient_failures_are_retried_later_on_postgres(postgres_url: str, tmp_path: Path) -> None:
    check_that_it_is_retried(postgres_url, tmp_path, error(503))


def check_that_it_is_retried(database_url: str, tmp_path: Path, failure: Reply) -> None:
    script = in_order(calls(("now", {})), failure, HELLO)
    timeout_s = "5" if failure.seconds else "60"
    with open_talk(database_url, tmp_path, script, retry_delay_s=LONG_S, model_timeout_s=timeout_s) as talk:
        job = talk.wait(begin_delayed_turn(talk))
        assert (job.owner, job.attempts, job.max_attempts) == ("", 1, 5)
        assert 45_000 <= get_delay_ms(job) <= 75_000  # 60 s with 25 % jitter
        assert len(list_errors(talk)) == 1
        assert talk.turn()["status"] == "running"
        assert (talk.headway.engine.tasks, talk.pool().reserved) == ({}, 0)
        make_due(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"
        _, first, second = talk.server.requests
        assert first.body == second.body
        assert talk.job().state == "completed"
        assert talk.answers() == ["Hello."]


def test_a_provider_that_is_not_there_is_asked_again(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, HELLO, retry_delay_s=LONG_S, model_port=find_ports()) as talk:
        talk.server.shutdown()
        talk.server.server_close()
        talk.wait(begin_delayed_turn(talk))
        with ModelServer(HELLO, talk.server.server_port) as back:
            make_due(talk)
            assert talk.wait(wait_for_end(talk))["outcome"] == "answered"
            assert len(back.requests) == 1


def test_a_provider_that_says_at_once_is_asked_at_once(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(error(503, retry_after=0), HELLO), retry_delay_s=LONG_S) as talk:
        assert talk.say()["outcome"] == "answered"


def test_every_wait_is_twice_as_long_as_the_one_before(sqlite_url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        await talk.begin()
        for attempt in range(1, 5):
            await talk.until(lambda attempt=attempt: talk.job().attempts >= attempt)  # type: ignore[misc]
            make_due(talk)
        await wait_for_end(talk)

    with open_talk(sqlite_url, tmp_path, flaky(4, error(500), HELLO), retry_delay_s="20") as talk:
        talk.wait(scenario())
        waits = [event["delay_s"] for event in talk.list_event_data("turn_delayed")]
        for wait, whole in zip(waits, (20, 40, 80, 160), strict=True):
            assert whole * 0.75 <= wait <= whole * 1.25


def test_getting_further_is_a_new_beginning(database_url: str, tmp_path: Path) -> None:
    """Each answer comes after four failures. Five in a row would be too many."""
    bad = [error(503)] * 4
    with open_talk(database_url, tmp_path, in_order(*bad, calls(("now", {})), *bad, calls(("now", {})), *bad, HELLO)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert len(talk.server.requests) == 15
        assert (talk.job().attempts, talk.turn()["iterations"]) == (0, 3)


def test_after_five_failures_a_job_is_dead_and_says_why(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, in_order(*(error(503, f"reason {n}") for n in range(1, 6)))) as talk:
        turn = talk.say()
        assert (turn["status"], turn["outcome"]) == ("failed", None)
        assert len({str(request.body) for request in talk.server.requests}) == 1
        job = talk.job().as_json()
        assert (job["state"], job["attempts"]) == ("dead", 5)
        assert [f"reason {n}" in message for n, message in enumerate(job["errors"], start=1)] == [True] * 5
        assert job["error"] == job["errors"][-1]
        assert talk.list_event_data("job_dead") == [{"job": job}]
        (failed,) = talk.list_event_data("turn_failed")
        assert (failed["code"], failed["error"]) == ("model_failed", job["error"])
        assert talk.pool().reserved == 0


@pytest.mark.parametrize("failure", [error(400), error(401), error(404)], ids=lambda reply: reply.failure.status)
def test_permanent_failures_are_dead_at_once(sqlite_url: str, tmp_path: Path, failure: Reply) -> None:
    with open_talk(sqlite_url, tmp_path, failure) as talk:
        assert talk.say()["status"] == "failed"
        assert len(talk.server.requests) == 1
        job = talk.job().as_json()
        assert (job["state"], job["attempts"], len(job["errors"])) == ("dead", 1, 1)
        assert len(talk.list_event_data("job_dead")) == len(talk.list_event_data("turn_failed")) == 1


def test_an_internal_error_is_dead_at_once_and_its_details_stay_private(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(error(503), HELLO), retry_delay_s=LONG_S) as talk:
        talk.wait(begin_delayed_turn(talk))
        spoil_transcript(talk, "secret detail")
        make_due(talk)
        assert talk.wait(wait_for_end(talk))["status"] == "failed"
        assert [event["code"] for event in talk.list_event_data("turn_failed")] == ["internal"]
        assert talk.job().state == "dead"
        assert (len(list_errors(talk)), len(talk.list_event_data("job_dead"))) == (2, 1)
        assert "secret" not in str(talk.events())


def test_a_retry_that_waits_survives_its_process_and_is_picked_up_when_it_is_due(database_url: str, tmp_path: Path) -> None:
    async def crash() -> None:
        for task in talk.headway.engine.background:
            task.cancel()
        await asyncio.gather(*talk.headway.engine.background, return_exceptions=True)

    with open_talk(database_url, tmp_path, in_order(error(503), HELLO), retry_delay_s=LONG_S) as talk:
        talk.wait(begin_delayed_turn(talk))
        talk.wait(crash())
        talk.revive()
        talk.wait(asyncio.sleep(0.3))
        assert (len(talk.server.requests), talk.job().state) == (1, "delayed")
        make_due(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"
        first, second = talk.server.requests
        assert first.body == second.body
        assert talk.list_event_data("recovered") == []


def test_a_turn_with_an_impatient_setting_is_dead_at_its_first_failure(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, error(503), model_retries="0") as talk:
        assert talk.say()["status"] == "failed"
        assert (len(talk.server.requests), talk.job().state) == (1, "dead")


def test_while_one_waits_others_are_answered(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(error(503), HELLO), sweeping=True, retry_delay_s=LONG_S) as talk:
        talk.wait(begin_delayed_turn(talk))
        run_another_turn(talk)
        assert talk.job().state == "delayed"
