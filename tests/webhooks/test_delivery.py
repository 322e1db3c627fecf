"""Events reach a webhook at least once, in order and signed. A receiver that refuses is asked again, until the job is dead."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from headway.actions.engine import dead_letters, webhooks
from headway.actions.goals import goals
from headway.actions.runs import jobs, notices
from headway.ledger.webhook import WebhookChange
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.surfaces.front_end_clients import run_script
from tests.webhooks.receiver import HOSTS, Receiver, open_headway, run_receiver, subscribe, until


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as server:
        yield server


@pytest.fixture
def desk(database_url: str) -> Iterator[TenantHarness]:
    with DirectDatabase(database_url) as database:
        yield TenantHarness(database)


def test_events_arrive_in_order_and_other_peoples_libraries_verify_them(
    database_url: str, desk: TenantHarness, receiver: Receiver, tmp_path: Path
) -> None:
    async def run() -> None:
        async with open_headway(database_url, tmp_path):
            hook = subscribe(desk, receiver)
            for number in range(60):  # more than a batch
                desk.add(f"todo «{number}»")
            await until(lambda: len(receiver.received) == 61)
            assert receiver.seqs == hook.list_seqs()
            assert len({received.headers["webhook-id"] for received in receiver.received}) == 61
            await until(lambda: hook.show()["after"] == receiver.seqs[-1])

            rotated = desk.write(webhooks.rotate, hook.id).secret
            desk.add("signed with both")
            await until(lambda: len(receiver.received) == 63)
            last = desk.write(webhooks.rotate, hook.id, 0).secret
            desk.add("signed with the last one")
            await until(lambda: len(receiver.received) == 65)

        for count, secret in ((0, hook.secret), (61, rotated), (63, last)):
            for received in receiver.received[count : count + 2]:
                assert Webhook(secret).verify(received.body, received.headers) == received.document
        for received in receiver.received[61:63]:
            assert Webhook(hook.secret).verify(received.body, received.headers)["seq"] == received.seq
        with pytest.raises(WebhookVerificationError):
            Webhook(hook.secret).verify(receiver.received[-1].body, receiver.received[-1].headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(last).verify(receiver.received[-1].body.replace("last", "first"), receiver.received[-1].headers)

        messages = [{"body": received.body, "headers": received.headers} for received in receiver.received[:63]]
        assert run_script("webhooks.mjs", hook.secret, messages) == [received.document for received in receiver.received[:63]]
        assert run_script("webhooks.mjs", last, messages[:1]) == [{"refused": "No matching signature found"}]

    asyncio.run(run())


def test_a_filter_chooses_by_kind_conversation_and_goal(sqlite_url: str, receiver: Receiver, tmp_path: Path) -> None:
    async def run() -> None:
        with DirectDatabase(sqlite_url) as database:
            desk = TenantHarness(database)
            mine, other = desk.conversation(), desk.conversation()
            goal = desk.write(goals.add_goal, goals.NewGoal("A garden.", "It grows."))
            subscribe(desk, receiver, "/kind", kinds=("conversation_changed", "todo_changed"))
            subscribe(desk, receiver, "/conversation", conversation_id=mine.id)
            subscribe(desk, receiver, "/goal", goal_id=goal.id)
            desk.add("here", conversation_id=mine.id)
            desk.add("there", conversation_id=other.id)
            desk.write(goals.abandon, goal.id)
            last = desk.add("the last one")
            async with open_headway(sqlite_url, tmp_path):
                await until(lambda: all(hook["after"] == hook["last"] for hook in list_hooks(desk)))

            def subjects(path: str) -> list[str]:
                documents = [received.document for received in receiver.received if received.path == path]
                return [document["data"]["todo"]["subject"] for document in documents if document["type"] == "todo_changed"]

            assert subjects("/kind") == ["here", "there", last.subject]
            assert subjects("/conversation") == ["here"]
            about_goal = {received.document["type"] for received in receiver.received if received.path == "/goal"}
            assert about_goal
            assert about_goal <= {"goal_changed", "journal_appended", "sub_goal_changed"}

    def list_hooks(desk: TenantHarness) -> list[dict[str, int]]:
        last = desk.database.read(lambda tx: tx.all("SELECT MAX(seq) FROM events"))[0][0]
        return [{**hook, "last": last} for hook in desk.read(webhooks.list_webhooks, 10)["webhooks"]]

    asyncio.run(run())


def test_a_receiver_that_refuses_is_asked_again_until_the_job_is_dead_and_a_retry_loses_nothing(
    database_url: str, desk: TenantHarness, receiver: Receiver, tmp_path: Path
) -> None:
    async def run() -> None:
        async with open_headway(database_url, tmp_path) as headway:
            hook = subscribe(desk, receiver)
            await until(lambda: hook.show()["after"] == receiver.seqs[-1] if receiver.received else False)
            shorten_patience(desk, hook.id)
            receiver.answer = lambda received: 503 if "poison" in received.body else 204
            for subject in ("fine", "poison", "waits"):
                desk.add(subject)
            await until(lambda: hook.show()["state"] == "failed")
            failed = hook.show()
            assert "127.0.0.1 answered with status 503." in failed["error"]
            assert [received.seq for received in receiver.received[-3:]] == [receiver.seqs[-1]] * 3
            (notice,) = desk.read(notices.list_page, 10)["notices"]
            assert notice["kind"] == "webhook_failed"
            assert receiver.url not in json.dumps(desk.events())

            receiver.answer = lambda _received: 204
            desk.write(dead_letters.retry, hook.id)
            headway.nudge()
            await until(lambda: hook.show()["after"] == hook.list_seqs()[-1])
            accepted = list(dict.fromkeys(receiver.seqs))
            assert accepted == hook.list_seqs()
            assert hook.show()["state"] == "active"
            assert hook.show()["error"] is None

    asyncio.run(run())


def shorten_patience(desk: TenantHarness, webhook_id: str) -> None:
    """Let the job be dead after three attempts rather than after a day."""
    desk.database.write(lambda tx: tx.run("UPDATE jobs SET max_attempts = 3 WHERE id = ?", webhook_id))


def test_a_receiver_that_is_gone_is_not_asked_again(sqlite_url: str, receiver: Receiver, tmp_path: Path) -> None:
    async def run() -> None:
        with DirectDatabase(sqlite_url) as database:
            hook = subscribe(TenantHarness(database), receiver)
            receiver.answer = lambda _received: 410
            async with open_headway(sqlite_url, tmp_path) as headway:
                await until(lambda: hook.show()["state"] == "failed")
                assert len(receiver.received) == 1
                receiver.answer = lambda _received: 204
                hook.desk.write(jobs.drop, hook.id)  # the dead letter, not the webhook
                assert hook.show()["state"] == "failed"
                hook.desk.write(webhooks.change_webhook, hook.id, WebhookChange(paused=False), HOSTS)
                headway.nudge()
                await until(lambda: hook.show()["after"] == hook.list_seqs()[-1])
                assert list(dict.fromkeys(receiver.seqs)) == hook.list_seqs()

    asyncio.run(run())


def test_a_paused_webhook_continues_where_it_stopped_and_a_replay_during_a_delivery_counts(
    sqlite_url: str, receiver: Receiver, tmp_path: Path
) -> None:
    async def run() -> None:
        with DirectDatabase(sqlite_url) as database:
            hook = subscribe(TenantHarness(database), receiver)
            async with open_headway(sqlite_url, tmp_path) as headway:
                await until(lambda: len(receiver.received) == 1)
                hook.desk.write(webhooks.change_webhook, hook.id, WebhookChange(paused=True), HOSTS)
                first = hook.desk.add("while it is paused")
                hook.desk.write(webhooks.change_webhook, hook.id, WebhookChange(paused=False), HOSTS)
                headway.nudge()
                await until(lambda: hook.show()["after"] == hook.list_seqs()[-1])
                assert receiver.seqs == hook.list_seqs()

                arrived, released = Event(), Event()

                def hold(_received: object) -> int:
                    arrived.set()
                    released.wait()
                    return 204

                receiver.answer = hold
                hook.desk.change(first, subject="changed")
                await asyncio.to_thread(arrived.wait)
                hook.desk.write(webhooks.replay, hook.id, 0)
                receiver.answer = lambda _received: 204
                before = len(receiver.received)
                released.set()
                await until(lambda: receiver.seqs[before:] == hook.list_seqs())

    asyncio.run(run())


def test_a_deleted_webhook_and_its_job_are_gone(sqlite_url: str, receiver: Receiver) -> None:
    with DirectDatabase(sqlite_url) as database:
        hook = subscribe(TenantHarness(database), receiver)
        hook.desk.write(webhooks.remove_webhook, hook.id)
        assert database.read(lambda tx: tx.all("SELECT id FROM webhooks UNION SELECT id FROM jobs")) == []


def test_a_receiver_is_told_of_events_that_were_deleted_because_of_their_age(
    sqlite_url: str, receiver: Receiver, tmp_path: Path
) -> None:
    async def run() -> None:
        with DirectDatabase(sqlite_url) as database:
            desk = TenantHarness(database)
            hook = subscribe(desk, receiver)
            desk.add("forgotten")
            kept = desk.add("kept")

            def prune(tx) -> None:  # type: ignore[no-untyped-def]
                tx.run("DELETE FROM events WHERE seq < (SELECT MAX(seq) FROM events)")
                tx.run("UPDATE tenants SET log_pruned = (SELECT MAX(seq) - 1 FROM events)")

            database.write(prune)
            async with open_headway(sqlite_url, tmp_path):
                await until(lambda: hook.show()["after"] == hook.list_seqs()[-1])
            gap, event = (received.document for received in receiver.received)
            assert (gap["type"], gap["data"]["pruned"]) == ("log_pruned", event["seq"] - 1)
            assert event["data"]["todo"]["subject"] == kept.subject

    asyncio.run(run())
