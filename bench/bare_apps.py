"""References for HTTP, run by uvicorn in their own processes.

`create`: the obvious ten-line version: FastAPI, one handler, one durable SQLite insert per request.
`page`: the obvious version of a list: FastAPI, the token looked up by its hash, one query, one Pydantic model per row. It reads the
todos of a Headway's own database, and answers with the fields that are plain columns.
`stream`: a raw ASGI app that writes frames, encoded beforehand, to every listener.
"""

import asyncio
import hashlib
import os
from typing import Annotated, Any

import apsw
from fastapi import FastAPI, Header, HTTPException
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


page = FastAPI()


class ListedTodo(BaseModel):
    id: int
    conversation_id: int
    turn_id: str | None
    agent_id: str
    subject: str
    description: str
    completion_criteria: str
    agent_type: str | None
    status: str
    position: int
    outcome: str | None
    proof: str
    completed_by: str | None
    priority: int
    due: int
    created_at: int
    updated_at: int
    started_at: int
    completed_at: int


FIELDS = ", ".join(ListedTodo.model_fields)
FIND_TENANT = "SELECT tenant_id FROM tokens WHERE hash = ? AND revoked_at = 0"
LIST = f"SELECT {FIELDS} FROM todos WHERE tenant_id = ? AND conversation_id = ? ORDER BY position, id LIMIT ?"


@page.get("/todos")
async def list_todos(conversation_id: int, limit: int, authorization: Annotated[str, Header()]) -> dict[str, list[ListedTodo]]:
    digest = hashlib.sha256(authorization.removeprefix("Bearer ").encode()).hexdigest()
    tenant = connection.execute(FIND_TENANT, (digest,)).fetchone()
    if tenant is None:
        raise HTTPException(401)
    rows = connection.execute(LIST, (*tenant, conversation_id, limit)).fetchall()
    names = ListedTodo.model_fields
    return {"todos": [ListedTodo.model_validate(dict(zip(names, row, strict=True))) for row in rows]}


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
