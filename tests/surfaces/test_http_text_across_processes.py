"""Two servers on one Postgres. A reader is connected to one of them, and the turn runs on the other."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from headway.ledger.job import LEASE_MS
from headway.text_relay import MAX_PAYLOAD_BYTES, READERS
from tests.journeys.forked_process import age_beats
from tests.model_server import ModelServer, pause_midway, text
from tests.surfaces.conversation_client import get_turn, join_text, read_until_turn_ends, say, wait_for_turn
from tests.surfaces.event_stream import Stream, StreamEvent, open_stream
from tests.surfaces.model_fixtures import model_settings
from tests.surfaces.server_harness import PATIENCE_S, Client, Service, run_server

ANSWER = "One two three four five six, and so on: ünï, “quotes” \\ and 日本."


class Observer:
    """A role of the database that listens, as any role can."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self.connection = connection
        self.listen(READERS)

    def listen(self, channel: str) -> None:
        self.connection.execute(f"LISTEN {channel}".encode())

    def wait_for_reader(self, tenant_id: int, conversation_id: int, *, leaves: bool = False) -> str:
        """Wait until a process announces that a reader follows this conversation, or leaves it. Return the process's channel."""
        for notice in self.connection.notifies(timeout=PATIENCE_S):
            if notice.channel == READERS:
                channel, follows, left = json.loads(notice.payload)
                if [tenant_id, conversation_id] in (left if leaves else follows):
                    return str(channel)
        raise AssertionError("not announced")

    def list_texts(self) -> list[str]:
        """Return the payloads with text that were sent until now. Notifications arrive in the order of their commits."""
        self.connection.execute("SELECT pg_notify(%s, 'end')", (READERS,))
        texts: list[str] = []
        for notice in self.connection.notifies(timeout=PATIENCE_S):
            if notice.payload == "end":
                return texts
            if notice.channel != READERS:
                texts.append(notice.payload)
        raise AssertionError("the last notification does not come")


@contextmanager
def observe(url: str) -> Iterator[Observer]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield Observer(connection)


def open_conversation(client: Client, conversation: int) -> Any:
    return open_stream(client, f"/v1/conversations/{conversation}/events")


def wait_for_text(stream: Stream) -> StreamEvent:
    return next(event for event in stream.events() if event.event == "text_delta")


def test_a_reader_of_another_process_gets_the_text_while_it_is_written(
    postgres_chat_service: Service, chat_postgres_url: str, model: ModelServer, tmp_path: Path
) -> None:
    model.script = lambda _request: pause_midway(text(ANSWER))
    model.hold()
    with (
        run_server(chat_postgres_url, tmp_path, environment=model_settings(model)) as other,
        observe(chat_postgres_url) as observer,
        postgres_chat_service.tenant() as writer,
        Client(other.url, writer.desk) as reader,
        other.tenant() as stranger,
        open_stream(stranger) as strange_stream,
    ):
        conversation = writer.conversation()
        with open_conversation(reader, conversation) as stream:
            channel = observer.wait_for_reader(writer.desk.tenant.id, conversation)
            observer.listen(channel)
            say(writer, conversation)
            first = wait_for_text(stream)
            saying = reader.ok("GET", f"/v1/conversations/{conversation}/timeline")["timeline"]["saying"]
            model.release()
            events = [first, *read_until_turn_ends(stream)]
        deltas = [event.data for event in events if event.event == "text_delta"]
        kinds = [event.event for event in events]

        assert ANSWER.startswith(join_text(events))
        assert ANSWER.startswith(saying["text"])
        assert saying["text"]
        assert [delta["n"] for delta in deltas] == list(range(1, len(deltas) + 1))
        assert "text_delta" not in kinds[kinds.index("message") :]

        sent = observer.list_texts()
        assert 1 <= len(sent) <= len(deltas)
        assert sum(len(json.loads(payload)[-1]) for payload in sent) >= len(deltas)
        assert all(len(payload.encode()) <= MAX_PAYLOAD_BYTES for payload in sent)

        observer.wait_for_reader(writer.desk.tenant.id, conversation, leaves=True)
        wait_for_turn(writer, say(writer, conversation))
        assert observer.list_texts() == []

        stranger.add("not a word")
        assert strange_stream.take(1)[0].event == "todo_changed"


def test_a_killed_writer_or_reader_in_the_middle_of_an_answer(
    postgres_chat_service: Service, chat_postgres_url: str, model: ModelServer, tmp_path: Path
) -> None:
    model.script = lambda _request: pause_midway(text(ANSWER))
    model.hold()
    with (
        run_server(chat_postgres_url, tmp_path, environment=model_settings(model)) as other,
        postgres_chat_service.tenant() as ours,
        Client(other.url, ours.desk) as theirs,
    ):
        read, written = ours.conversation(), ours.conversation()
        with open_conversation(ours, read) as stream, open_conversation(theirs, written) as lost_stream:
            other_turn, our_turn = say(theirs, read), say(ours, written)
            begun = wait_for_text(stream)
            wait_for_text(lost_stream)
            other.process.kill()
            lease_holders = f"%:{other.process.pid}:%"
            ours.desk.database.write(lambda tx: age_beats(tx, LEASE_MS + 1, lease_holders))
            model.release()
            events = read_until_turn_ends(stream)
        deltas = [event for event in events if event.event == "text_delta"]
        restart = next(place for place, event in enumerate(deltas) if event.data.get("restart"))
        message = next(event.data for event in events if event.event == "message" and event.data["role"] == "assistant")

        assert ANSWER.startswith(begun.data["text"])
        assert join_text(deltas[restart + 1 :]) == message["content"] == ANSWER
        assert events[-1].data["turn_id"] == other_turn
        assert wait_for_turn(ours, our_turn)["status"] == "finished"
        assert get_turn(ours, other_turn)["status"] == "finished"
