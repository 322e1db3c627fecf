"""Saying something in a conversation, and hearing what comes of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Row
from tests.model_server import ModelServer, Reply, Request, Script, calls, text
from tests.surfaces.listening import Stream, Told, listening
from tests.surfaces.serving import Client, until
from tests.surfaces.shell import Shell
from tests.warm_start import Program

TURN_ENDS = {"turn_finished", "turn_failed", "turn_canceled"}


def messages_path(conversation: int) -> str:
    return f"/v1/conversations/{conversation}/messages"


def say(client: Client, conversation: int, content: str = "hello", **options: Any) -> str:
    """The id of the turn that is to answer it."""
    document = client.ok("POST", messages_path(conversation), 202, json={"content": content}, **options)
    assert list(document) == ["turn_id"]
    return str(document["turn_id"])


@contextmanager
def talking(
    client: Client, conversation: int, content: str = "hello", mode: str = "plan", key: str | None = None
) -> Iterator[Stream]:
    """The turn's own stream."""
    headers = {"Accept": "text/event-stream"} | ({"Idempotency-Key": key} if key else {})
    body = {"content": content, "mode": mode}
    with listening(client, messages_path(conversation), "POST", json=body, headers=headers) as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        yield stream


def whole_turn(client: Client, conversation: int, content: str = "hello", **options: Any) -> list[Told]:
    """All that the turn's own stream tells before it ends by itself."""
    with talking(client, conversation, content, **options) as stream:
        return list(stream.events())


def heard_to_the_end(stream: Stream) -> list[Told]:
    """What a stream that does not end by itself tells until a turn ends."""
    heard = []
    for told in stream.events():
        heard.append(told)
        if told.event in TURN_ENDS:
            return heard
    raise AssertionError(f"the stream ended before a turn did: {kinds(heard)}")


def kinds(told: list[Told]) -> list[str]:
    """The names of what was told; words that came one by one count once."""
    names = [one.event for one in told]
    return [name for place, name in enumerate(names) if name != "text_delta" or names[place - 1 : place] != [name]]


def logged(told: list[Told]) -> list[Told]:
    return [one for one in told if one.id]


def spoken(told: list[Told]) -> str:
    return "".join(one.data["text"] for one in told if one.event == "text_delta")


def begin_with_patience(client: Client, conversation: int, model: ModelServer) -> str:
    """The id of a turn whose model may fail more than once; these servers have no patience of their own."""
    model.hold()
    turn_id = say(client, conversation)
    model.wait_for_requests(1)
    give_patience(client)
    model.release()
    return turn_id


def give_patience(client: Client) -> None:
    client.desk.write(lambda tx, tenant_id: tx.run("UPDATE jobs SET max_attempts = 5 WHERE tenant_id = ?", tenant_id))


def turn(client: Client, turn_id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.ok("GET", f"/v1/turns/{turn_id}")["turn"]
    return found


def ended(client: Client, turn_id: str) -> dict[str, Any]:
    """The turn, once it has ended."""
    until(lambda: turn(client, turn_id)["status"] not in ("running", "paused"), "the turn ends")
    return turn(client, turn_id)


def said(client: Client, conversation: int, **query: Any) -> list[tuple[str, str]]:
    found = client.ok("GET", messages_path(conversation), params=query)["messages"]
    return [(one["role"], one["content"]) for one in found]


def drains(*titles: str, answer: str = "All done.") -> Script:
    """A model that plans these items, ends one after the other, and answers."""

    def script(request: Request) -> Reply:
        results = request.tool_results
        if not results:
            return calls(("create_todo", {"items": [{"title": title} for title in titles]}))
        created = json.loads(results[0].content)["created"]
        if len(results) <= len(created):
            return calls(("complete_todo", {"todoId": created[len(results) - 1]["id"], "outcome": "as it should be"}))
        return text(answer)

    return script


def replies(*given: Reply) -> Script:
    """These, one after the other; the last again and again."""
    waiting = list(given)
    return lambda _request: waiting.pop(0) if len(waiting) > 1 else waiting[0]


# The same at a shell: what `headway chat` left in its ledger, and what runs at another terminal


def rows(headway: Shell, sql: str) -> list[Row]:
    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        return database.read(lambda tx: tx.all(sql))


def statuses(headway: Shell) -> list[str]:
    return [str(status) for (status,) in rows(headway, "SELECT status FROM turns ORDER BY started_at, id")]


def conversations(headway: Shell) -> int:
    return len(rows(headway, "SELECT id FROM conversations"))


@contextmanager
def elsewhere(*arguments: str) -> Iterator[Program]:
    """The same command at another terminal, until the block ends."""
    with Program(arguments, Path.cwd()) as process:
        try:
            yield process
        finally:
            process.kill()
