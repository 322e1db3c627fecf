"""Notices reach the operator in the inbox, in the log and through channels. An unreachable channel never stops an agent."""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headway.actions.runs import notices
from headway.ledger.job import Job
from tests.autonomy.goal_harness import Pursuit, by_part, failure, open_pursuit, plan, replan, step

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # a warning from a dependency of apprise

SECRET = "s3cret-passw0rd"
GIVEN_UP = by_part({"dig": failure()}, plan=plan(step("dig")), replan=replan(give_up="No ground."))
STUCK = by_part(plan=plan())


class Receiver(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Door)
        self.received: list[dict[str, Any]] = []
        self.refuse = 0


class Door(BaseHTTPRequestHandler):
    server: Receiver

    def log_message(self, format: str, *args: Any) -> None:
        """Drop the access log."""

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.refuse:
            self.server.refuse -= 1
            self.send_response(503)
        else:
            self.server.received.append(sent)
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def channel(server: Receiver) -> str:
    return f"json://operator:{SECRET}@127.0.0.1:{server.server_port}/{SECRET}"


def notice_jobs(pursuit: Pursuit) -> list[Job]:
    return [job for job in pursuit.jobs() if job.kind == notices.JOB_KIND]


def wait_for_delivery(pursuit: Pursuit) -> list[Job]:
    pursuit.until(lambda: all(job.state in ("completed", "dead") for job in notice_jobs(pursuit)))
    return notice_jobs(pursuit)


def test_a_notice_is_a_row_an_event_and_a_job(database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_pursuit(database_url, tmp_path, STUCK) as pursuit:
        pursuit.set_goal("A garden.")
        pursuit.wait_until_paused()
        (job,) = wait_for_delivery(pursuit)
        ((kind, words),) = pursuit.notices()
        (event,) = pursuit.events("operator_notice")
        assert (event["kind"], event["text"], event["goal_id"]) == (kind, words, pursuit.goal_id)
        assert event["url"] == f"/goals/{pursuit.goal_id}"
        assert json.loads(job.payload) == event
        assert job.state == "completed"
        assert f"operator notice: {words} /goals/{pursuit.goal_id}" in caplog.text


def test_channels_get_the_goal_the_event_the_question_and_a_link(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    options: dict[str, Any] = {"url": "https://headway.example.org/"}
    with receiving() as server, open_pursuit(database_url, tmp_path, STUCK, notify=channel(server), **options) as pursuit:
        pursuit.set_goal("A garden.")
        pursuit.wait_until_paused()
        wait_for_delivery(pursuit)
        (message,) = server.received
        assert message["title"] == "Headway: decision"
        first, link = message["message"].rsplit("\n", 1)
        assert first.startswith(f"Goal #{pursuit.goal_id} is paused: “A garden.”. No valid plan could be made: The plan is empty")
        assert first.endswith("Continue, replan with a note, or abandon it?")
        assert link == f"https://headway.example.org/goals/{pursuit.goal_id}"
        assert SECRET not in caplog.text + everything_stored(pursuit)


def test_each_channel_gets_it_once_however_often_another_is_tried(sqlite_url: str, tmp_path: Path) -> None:
    with receiving() as good, receiving() as bad:
        bad.refuse = 2
        with open_pursuit(sqlite_url, tmp_path, GIVEN_UP, notify=f"{channel(good)}, {channel(bad)}") as pursuit:
            pursuit.set_goal()
            assert pursuit.wait_until_ended().status == "abandoned"
            (job,) = wait_for_delivery(pursuit)
            assert job.state == "completed"
            assert (len(good.received), len(bad.received), bad.refuse) == (1, 1, 0)


def test_an_unreachable_channel_stops_no_goal(database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    smaller = by_part({"dig": failure()}, plan=plan(step("dig")), replan=replan(step("pot"), new_goal="A flowerpot."))
    nowhere = f"json://operator:{SECRET}@127.0.0.1:1/{SECRET}, nonsense://{SECRET}"
    with open_pursuit(database_url, tmp_path, smaller, notify=nowhere) as pursuit:
        pursuit.achieve()
        (job,) = wait_for_delivery(pursuit)
        assert (job.state, job.attempts) == ("dead", job.max_attempts)
        assert json.loads(job.errors)[-1] == "2 of 2 channels could not be reached."
        assert len(pursuit.notices()) == 1, "it is in the inbox"
        assert len(pursuit.events("job_dead")) == 1
        assert SECRET not in caplog.text + everything_stored(pursuit)


def everything_stored(pursuit: Pursuit) -> str:
    def rows(tx: Any) -> str:
        return str([tx.all(f"SELECT * FROM {table}") for table in ("events", "jobs", "notices", "journal", "goals")])

    return pursuit.database.read(rows)
