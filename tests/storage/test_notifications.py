"""Notifications that are sent outside of transactions."""

import asyncio
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from headway.ledger.errors import DatabaseUnreachable
from headway.storage.postgres.announcements import NotificationSender
from tests.pooler import run_pooler
from tests.surfaces.server_harness import PATIENCE_S

SENDERS = """SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE '%count(pg_notify(%' AND pid <> pg_backend_pid()"""


@pytest.fixture
def observer(quiet_postgres_url: str) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    with psycopg.connect(quiet_postgres_url, autocommit=True) as connection:
        connection.execute("LISTEN heard")
        yield connection


def hear(observer: "psycopg.Connection[tuple[object, ...]]", number: int) -> list[str]:
    return [notice.payload for notice in observer.notifies(timeout=PATIENCE_S, stop_after=number)]


def list_senders(observer: "psycopg.Connection[tuple[object, ...]]") -> list[tuple[object, ...]]:
    return observer.execute(SENDERS.encode()).fetchall()


def test_a_connection_is_opened_for_the_first_notification_and_again_after_it_was_lost(
    postgres_url: str, observer: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    async def scenario() -> None:
        with closing(NotificationSender(postgres_url)) as sender:
            assert list_senders(observer) == []
            await sender.send([("heard", "one"), ("unheard", "two"), ("heard", "thr'ee")])
            assert hear(observer, 2) == ["one", "thr'ee"]
            ((pid,),) = list_senders(observer)
            observer.execute("SELECT pg_terminate_backend(%s)", (pid,))
            await sender.send([("heard", "four")])
            assert hear(observer, 1) == ["four"]

    asyncio.run(scenario())


def test_notifications_pass_through_a_pooler(postgres_url: str, observer: "psycopg.Connection[tuple[object, ...]]") -> None:
    async def scenario() -> None:
        with run_pooler(postgres_url) as pooler_url, closing(NotificationSender(pooler_url)) as sender:
            await sender.send([("heard", "one")])
            await sender.send([("heard", "two")])

    asyncio.run(scenario())
    assert hear(observer, 2) == ["one", "two"]


def test_a_server_that_cannot_be_reached_is_reported_to_the_caller() -> None:
    async def scenario() -> None:
        with closing(NotificationSender("postgresql://nobody@127.0.0.1:1/none")) as sender, pytest.raises(DatabaseUnreachable):
            await sender.send([("heard", "one")])

    asyncio.run(scenario())
