"""Headway inside a FastAPI application: uvicorn --app-dir examples fastapi_app:app

Turns that are interrupted when the application stops resume when it starts again.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

from headway import Halted, Headway, Invalid, TurnFailed, TurnRunning

STATUSES = {Invalid: 422, TurnRunning: 409, Halted: 503, TurnFailed: 502}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Headway.open() as headway:
        app.state.headway = headway
        yield


app = FastAPI(lifespan=lifespan)


class Question(BaseModel):
    content: str


@app.post("/users/{user}/questions")
async def ask(user: str, question: Question, request: Request) -> dict[str, Any]:
    """Each user has one conversation."""
    headway: Headway = request.app.state.headway
    try:
        turn = await headway.ask(question.content, f"user-{user}")
    except tuple(STATUSES) as error:
        status = next(status for kind, status in STATUSES.items() if isinstance(error, kind))
        raise HTTPException(status, str(error)) from None
    return {"answer": turn.answer, "plan": [{"subject": todo.subject, "status": todo.status} for todo in turn.plan]}
