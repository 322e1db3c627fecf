"""A program decides about its agents' calls and answers their questions, while `ask` waits for the end of the turn."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from headway import Conflict, Headway, Invalid, NotFound, tool
from headway.actions.access import local_tenant
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.ledger.events import EventKind
from headway.storage.transaction import Transaction
from headway.testing import scripted_model, temporary_headway

deleted: list[str] = []


@tool(destructive=True)
def delete_page(title: str) -> str:
    """Delete a page."""
    deleted.append(title)
    return "It is gone."


async def wait_for_one(headway: Headway, kind: EventKind) -> dict[str, Any]:
    """Wait until the agent asks for an approval or an answer, and return what it asks for."""
    async for event in headway.events.follow(kinds=kind, after=0):
        return dict(event.data)
    raise AssertionError("the log ended")


def propose_goal(tx: Transaction) -> None:
    goals.propose(tx, local_tenant.ensure_local(tx).id, NewGoal("The shed is tidy."), "It is full.")


def script() -> Any:
    """A model that asks which page, deletes it, and says so."""
    question = {"question": "Which page?", "choices": ["home", "about"]}
    return scripted_model(
        [
            ModelResponse([ToolCallPart("ask_person", question)]),
            ModelResponse([ToolCallPart("delete_page", {"title": "home"})]),
            ModelResponse([TextPart("Deleted.")]),
        ]
    )


def test_a_program_follows_the_inbox_and_answers_what_waits_and_what_comes(tmp_path: Path) -> None:
    deleted.clear()

    async def scenario() -> None:
        async with temporary_headway(tmp_path, script(), [delete_page]) as headway:
            asking = asyncio.create_task(headway.ask("Delete a page."))
            await wait_for_one(headway, "question_asked")  # it waits before the program follows
            async for request in headway.inbox.follow():
                if request.kind == "question":
                    question = await headway.inbox.answer(request.id, request.choices[0])
                else:
                    assert (request.tool, request.arguments, deleted) == ("delete_page", {"title": "home"}, [])
                    approval = await headway.inbox.approve(request.id, reason="It is old.")
                    break
            assert (await asking).answer == "Deleted."
            assert (question.state, question.answer, question.decided_by) == ("answered", "home", "library")
            assert (approval.state, approval.reason, deleted) == ("approved", "It is old.", ["home"])
            assert await headway.inbox.get(question.id) == question
            assert len(await headway.inbox.list()) == 0
            assert list(await headway.inbox.list(state="all")) == [approval, question]
            assert list(await headway.inbox.list(kind="question", state="answered")) == [question]
            with pytest.raises(Invalid, match=f"Request #{question.id} is a question: send `answer`."):
                await headway.inbox.approve(question.id)
            with pytest.raises(NotFound, match=f"No approval #{question.id}."):
                await headway.approvals.get(question.id)
            await headway.database.write(propose_goal)
            (asked,) = await headway.inbox.list(kind="decision")
            decided = await headway.inbox.decide(asked.id, "abandon", "It is tidy.")
            assert (decided.state, decided.answer, decided.reason, decided.run_id) == ("answered", "abandon", "It is tidy.", None)
            assert (await headway.goals.get(decided.goal_id or 0)).status == "abandoned"

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_program_decides_and_answers_while_ask_waits(tmp_path: Path) -> None:
    deleted.clear()

    async def scenario() -> None:
        async with temporary_headway(tmp_path, script(), [delete_page]) as headway:
            assert len(await headway.approvals.list()) == 0
            asking = asyncio.create_task(headway.ask("Delete a page."))
            await wait_for_one(headway, "question_asked")
            (asked,) = await headway.questions.list()
            answered = await headway.questions.answer(asked.id, "home")
            assert (asked.choices, answered.answer, answered.answered_by) == (("home", "about"), "home", "library")
            await wait_for_one(headway, "approval_requested")
            (proposed,) = await headway.approvals.list()
            assert (proposed.tool, proposed.arguments, deleted) == ("delete_page", {"title": "home"}, [])
            ada = headway.as_caller(actor="ada")
            approved = await ada.approvals.approve(proposed.id, arguments={"title": "about"})
            assert (approved.state, approved.decided_by) == ("approved", "ada")
            assert (await asking).answer == "Deleted."
            assert deleted == ["about"]
            with pytest.raises(Conflict, match="already approved by ada"):
                await headway.approvals.reject(proposed.id)
            with pytest.raises(NotFound):
                await headway.questions.answer(404, "home")

    asyncio.run(asyncio.wait_for(scenario(), 60))
