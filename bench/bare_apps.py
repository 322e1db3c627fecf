"""References for HTTP, run by uvicorn in their own processes.

`create`: the obvious ten-line version: FastAPI, one handler, one durable SQLite insert per request.
`stream`: a raw ASGI app that writes frames, encoded beforehand, to every listener.
"""

import asyncio
import os
from typing import Any

import apsw
from fastapi import FastAPI
from pydantic import BaseModel

FRAME = b"id: 1\nevent: todo_changed\ndata: " + b"x" * 380 + b"\n\n"

create = FastAPI()


class Todo(BaseModel):
    subject: str
    description: str = ""


def connect() -> apsw.Connection:
    connection = apsw.Connection(os.environ.get("BARE_DATABASE", ":memory:"))
    connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS todos (id INTEGER PRIMARY KEY, subject TEXT, description TEXT)")
    return connection


connection = connect()


@create.post("/todos", status_code=201)
async def add(todo: Todo) -> dict[str, Any]:
    sql = "INSERT INTO todos (subject, description) VALUES (?, ?) RETURNING id, subject, description"
    [(number, subject, description)] = connection.execute(sql, (todo.subject, todo.description)).fetchall()
    return {"todo": {"id": number, "subject": subject, "description": description}}


fired = 0
bells: set[asyncio.Event] = set()


async def stream(scope: Any, receive: Any, send: Any) -> None:
    """Listen on GET, fire one event on POST."""
    global fired  # noqa: PLW0603  the reference is meant to be as small as possible
    if scope["type"] != "http":
        return
    if scope["method"] == "POST":
        fired += 1
        for bell in bells:
            bell.set()
        await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b"event: ping\n\n", "more_body": True})
    bell = asyncio.Event()
    bells.add(bell)
    seen = fired
    while True:
        await bell.wait()
        bell.clear()
        while seen < fired:
            seen += 1
            await send({"type": "http.response.body", "body": FRAME, "more_body": True})
