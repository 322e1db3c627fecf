"""Sends messages to a conversation and reads the turns that answer them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Row
from tests.model_server import ModelServer, Reply, Request, Script, calls, text
from tests.surfaces.event_stream import Stream, StreamEvent, open_stream
from tests.surfaces.server_harness import Client, wait_until
from tests.surfaces.shell import Shell
from tests.warm_start import Program

TURN_ENDS = {"turn_finished", "turn_failed", "turn_canceled"}


def messages_path(conversation: int) -> str:
    return f"/v1/conversations/{conversation}/messages"


def say(client: Client, conversation: int, content: str = "hello", **options: Any) -> str:
    """Send a message, and return the id of the turn that answers it."""
    document = client.ok("POST", messages_path(conversation), 202, json={"content": content}, **options)
    assert list(document) == ["turn_id"]
    return str(document["turn_id"])


@contextmanager
def open_turn_stream(
    client: Client, conversation: int, content: str = "hello", mode: str = "plan", key: str | None = None
) -> Iterator[Stream]:
    """Send a message, and open the event stream of its turn."""
    headers = {"Accept": "text/event-stream"} | ({"Idempotency-Key": key} if key else {})
    body = {"content": content, "mode": mode}
    with open_stream(client, messages_path(conversation), "POST", json=body, headers=headers) as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        yield stream


def read_turn(client: Client, conversation: int, content: str = "hello", **options: Any) -> list[StreamEvent]:
    """Send a message, and return all events of its turn until the stream ends."""
    with open_turn_stream(client, conversation, content, **options) as stream:
        return list(stream.events())


def read_until_turn_ends(stream: Stream) -> list[StreamEvent]:
    """Read an endless stream until a turn ends, and return the events, without those about conversations of the tenant."""
    events = []
    for event in stream.events():
        if event.event != "conversation_changed":
            events.append(event)
        if event.event in TURN_ENDS:
            return events
    raise AssertionError(f"the stream ended before a turn did: {list_kinds(events)}")


def list_kinds(events: list[StreamEvent]) -> list[str]:
    """Return the event names, with consecutive text deltas counted once."""
    names = [event.event for event in events]
    return [name for place, name in enumerate(names) if name != "text_delta" or names[place - 1 : place] != [name]]


def list_logged(events: list[StreamEvent]) -> list[StreamEvent]:
    return [event for event in events if event.id]


def join_text(events: list[StreamEvent]) -> str:
    return "".join(event.data["text"] for event in events if event.event == "text_delta")


def begin_retrying_turn(client: Client, conversation: int, model: ModelServer) -> str:
    """Start a turn with retries of the model turned on (these servers turn them off), and return its id."""
    model.hold()
    turn_id = say(client, conversation)
    model.wait_for_requests(1)
    allow_retries(client)
    model.release()
    return turn_id


def allow_retries(client: Client) -> None:
    client.desk.write(lambda tx, tenant_id: tx.run("UPDATE jobs SET max_attempts = 5 WHERE tenant_id = ?", tenant_id))


def get_turn(client: Client, turn_id: str) -> dict[str, Any]:
    turn: dict[str, Any] = client.ok("GET", f"/v1/turns/{turn_id}")["turn"]
    return turn


def wait_for_turn(client: Client, turn_id: str) -> dict[str, Any]:
    """Wait until the turn has ended, and return it."""
    wait_until(lambda: get_turn(client, turn_id)["status"] not in ("running", "paused"), "the turn ends")
    return get_turn(client, turn_id)


def list_messages(client: Client, conversation: int, **query: Any) -> list[tuple[str, str]]:
    messages = client.ok("GET", messages_path(conversation), params=query)["messages"]
    return [(message["role"], message["content"]) for message in messages]


def plan_and_drain(*titles: str, answer: str = "All done.") -> Script:
    """Return a script of a model that plans these items, completes them in order and answers."""

    def script(request: Request) -> Reply:
        results = request.tool_results
        if not results:
            return calls(("create_todo", {"items": [{"title": title} for title in titles]}))
        created = json.loads(results[0].content)["created"]
        if len(results) <= len(created):
            return calls(("complete_todo", {"todoId": created[len(results) - 1]["id"], "outcome": "as it should be"}))
        return text(answer)

    return script


def reply_in_order(*replies: Reply) -> Script:
    """Return a script that replies with these in order, and repeats the last one."""
    remaining = list(replies)
    return lambda _request: remaining.pop(0) if len(remaining) > 1 else remaining[0]


# The same on the command line: the rows that `headway chat` stored, and a command in a second terminal


def read_rows(headway: Shell, sql: str) -> list[Row]:
    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        return database.read(lambda tx: tx.all(sql))


def list_statuses(headway: Shell) -> list[str]:
    return [str(status) for (status,) in read_rows(headway, "SELECT status FROM turns ORDER BY started_at, id")]


def count_conversations(headway: Shell) -> int:
    return len(read_rows(headway, "SELECT id FROM conversations"))


@contextmanager
def run_at_another_terminal(*arguments: str) -> Iterator[Program]:
    """Run the command in a second terminal until the block ends."""
    with Program(arguments, Path.cwd()) as process:
        try:
            yield process
        finally:
            process.kill()
