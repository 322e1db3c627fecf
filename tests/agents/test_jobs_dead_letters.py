"""A dead letter is kept until an operator retries it with the same context or drops it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse, TextPart

from headway.actions.engine import dead_letters
from headway.actions.runs import jobs
from headway.engine.takeover import INTERRUPTED_ERROR, MAX_LOST_WORKERS
from headway.ledger.errors import Conflict, NotFound, TurnRunning
from headway.testing import scripted_model
from tests.agents.job_harness import (
    LONG_S,
    begin_delayed_turn,
    enqueue,
    list_errors,
    make_due,
    retry,
    spoil_transcript,
    wait_for_end,
)
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import calls, error, text

HELLO = text("Hello.")
ENDS = ("turn_failed", "turn_resumed", "turn_finished")


@pytest.mark.parametrize("failures", [[error(400)], [error(503)] * 5], ids=["at once", "after five"])
def test_a_retry_continues_the_same_turn_where_it_stopped(database_url: str, tmp_path: Path, failures: list[object]) -> None:
    script = in_order(calls(("remember", {"text": "flour"})), *failures, HELLO)  # type: ignore[arg-type]
    with open_talk(database_url, tmp_path, script) as talk:
        failed = talk.say()
        retry(talk)
        turn = talk.wait(wait_for_end(talk))
        assert (turn["id"], turn["status"], turn["outcome"]) == (failed["id"], "finished", "answered")
        assert [kind for kind, _ in talk.events(*ENDS)] == ["turn_failed", "turn_resumed", "turn_finished"]
        assert talk.server.requests[-1].body == talk.server.requests[1].body
        assert talk.database.read(lambda tx: tx.all("SELECT text FROM memory_entries")) == [("flour",)]
        assert [message.role for message in talk.messages()] == ["user", "assistant"]
        assert (talk.job().state, len(talk.list_event_data("job_dead"))) == ("completed", 1)


def test_a_retry_that_fails_again_is_dead_again(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, error(400)) as talk:
        talk.say()
        for times in (2, 3):
            retry(talk)
            assert talk.wait(wait_for_end(talk))["status"] == "failed"
            assert talk.job().state == "dead"
            assert len(talk.list_event_data("job_dead")) == len(talk.list_event_data("turn_failed")) == times


def test_a_retry_has_all_its_attempts(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(*[error(503)] * 9, HELLO)) as talk:
        talk.say()
        retry(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"


def test_a_turn_whose_model_ended_in_an_error_asks_again(sqlite_url: str, tmp_path: Path) -> None:
    responses = [ModelResponse([TextPart("Half")], finish_reason="error"), ModelResponse([TextPart("Hello.")])]
    with open_talk(sqlite_url, tmp_path, scripted_model(responses)) as talk:
        assert talk.say()["status"] == "failed"
        assert talk.job().state == "dead"
        retry(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"
        assert talk.answers() == ["Hello."]


def test_a_turn_ended_by_an_internal_error_can_be_retried(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(error(503), HELLO), retry_delay_s=LONG_S) as talk:
        talk.wait(begin_delayed_turn(talk))
        (request,) = spoil_transcript(talk, "no message")
        make_due(talk)
        assert talk.wait(wait_for_end(talk))["status"] == "failed"
        spoil_transcript(talk, request)
        retry(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"


def test_only_dead_jobs_are_retried_or_dropped(sqlite_url: str, tmp_path: Path) -> None:
    def assert_refused(*decisions: Callable[..., object]) -> None:
        job_id = talk.job().id
        for decide in decisions:
            with pytest.raises(Conflict, match="only dead jobs"):
                talk.database.write(lambda tx, decide=decide: decide(tx, talk.tenant_id, job_id))  # type: ignore[misc]

    with open_talk(sqlite_url, tmp_path, in_order(HELLO, error(503)), retry_delay_s=LONG_S) as talk:
        talk.say()
        assert_refused(dead_letters.retry, jobs.drop)
        talk.wait(begin_delayed_turn(talk))
        assert_refused(jobs.drop)
        enqueue(talk)
        assert_refused(dead_letters.retry, jobs.drop)
        for decide in (dead_letters.retry, jobs.drop):
            with pytest.raises(NotFound):
                talk.database.write(lambda tx, decide=decide: decide(tx, talk.tenant_id, "nobody's"))  # type: ignore[misc]


def test_a_dropped_job_is_gone_and_its_turn_stays_failed(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, error(400)) as talk:
        talk.say()
        job_id = talk.job().id
        talk.database.write(lambda tx: jobs.drop(tx, talk.tenant_id, job_id))
        with pytest.raises(NotFound):
            talk.job()
        with pytest.raises(NotFound):
            talk.database.write(lambda tx: dead_letters.retry(tx, talk.tenant_id, job_id))
        assert talk.turn()["status"] == "failed"


def test_another_tenant_knows_of_no_such_job(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, error(400)) as talk:
        talk.say()
        job_id = talk.job().id
        for decide in (dead_letters.retry, jobs.drop):
            with pytest.raises(NotFound):
                talk.database.write(lambda tx, decide=decide: decide(tx, talk.tenant_id + 1, job_id))  # type: ignore[misc]
        assert talk.job().state == "dead"


def test_a_turn_is_not_revived_beside_another_one(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, in_order(error(400), error(503)), retry_delay_s=LONG_S) as talk:
        talk.say()
        dead = talk.job()
        talk.wait(begin_delayed_turn(talk))
        with pytest.raises(TurnRunning):
            talk.database.write(lambda tx: dead_letters.retry(tx, talk.tenant_id, dead.id))
        assert talk.database.read(lambda tx: jobs.get_job(tx, talk.tenant_id, dead.id)) == dead
        assert talk.list_event_data("turn_resumed") == []


def test_the_next_turn_is_answered_while_one_is_dead(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(error(400), HELLO)) as talk:
        talk.say()
        assert talk.say("And now?")["outcome"] == "answered"


# Jobs that crash their process


def test_a_job_that_keeps_killing_its_process_is_dead(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, HELLO) as talk:
        enqueue(talk)
        for lost_workers in range(1, MAX_LOST_WORKERS + 1):
            talk.database.write(lambda tx: tx.run("UPDATE jobs SET state = 'running', owner = 'a process that is no more'"))
            assert talk.database.write(talk.headway.engine.takeover.recover) == 1
            assert talk.job().state == ("queued" if lost_workers < MAX_LOST_WORKERS else "dead")
        assert list_errors(talk) == [INTERRUPTED_ERROR] * MAX_LOST_WORKERS
        assert [event["code"] for event in talk.list_event_data("turn_failed")] == ["internal"]
        assert [event["runs"] for event in talk.list_event_data("recovered")] == [1] * (MAX_LOST_WORKERS - 1)
        assert len(talk.list_event_data("job_dead")) == 1
        talk.headway.engine.adopt(talk.job().id)
        retry(talk)
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"


def test_a_recovery_is_reported_once_to_each_tenant(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, HELLO) as talk:
        for _ in range(3):
            enqueue(talk)
        talk.database.write(lambda tx: tx.run("UPDATE jobs SET state = 'running', owner = 'a process that is no more'"))
        assert talk.database.write(talk.headway.engine.takeover.recover) == 3
        assert talk.database.write(talk.headway.engine.takeover.recover) == 0
        assert [(event["runs"], event["goals"]) for event in talk.list_event_data("recovered")] == [(3, 0)]
