"""A program decides about its agents' calls and answers their questions, while `ask` waits for the end of the turn."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from headway import Conflict, Headway, NotFound, tool
from headway.testing import scripted_model, temporary_headway

deleted: list[str] = []


@tool(destructive=True)
def delete_page(title: str) -> str:
    """Delete a page."""
    deleted.append(title)
    return "It is gone."


async def wait_for_one(headway: Headway, kind: str) -> dict[str, Any]:
    """Wait until the agent asks for an approval or an answer, and return what it asks for."""
    while True:
        found = await (headway.people.list_approvals() if kind == "approval" else headway.people.list_questions())
        if found:
            return found[0]
        await asyncio.sleep(0.01)


def test_a_program_decides_and_answers_while_ask_waits(tmp_path: Path) -> None:
    question = {"question": "Which page?", "choices": ["home", "about"]}
    model = scripted_model(
        [
            ModelResponse([ToolCallPart("ask_person", question)]),
            ModelResponse([ToolCallPart("delete_page", {"title": "home"})]),
            ModelResponse([TextPart("Deleted.")]),
        ]
    )

    async def scenario() -> None:
        async with temporary_headway(tmp_path, model, [delete_page]) as headway:
            assert await headway.people.list_approvals() == []
            asking = asyncio.create_task(headway.ask("Delete a page."))
            asked = await wait_for_one(headway, "question")
            answered = await headway.people.answer(asked["id"], "home")
            assert (answered["answer"], answered["answered_by"]) == ("home", "library")
            proposed = await wait_for_one(headway, "approval")
            assert (proposed["tool"], proposed["arguments"], deleted) == ("delete_page", {"title": "home"}, [])
            approved = await headway.people.decide(proposed["id"], "approve", arguments={"title": "about"}, by="ada")
            assert (approved["state"], approved["decided_by"]) == ("approved", "ada")
            assert (await asking).answer == "Deleted."
            assert deleted == ["about"]
            with pytest.raises(Conflict, match="already approved by ada"):
                await headway.people.decide(proposed["id"], "reject")
            with pytest.raises(NotFound):
                await headway.people.answer(404, "home")

    asyncio.run(asyncio.wait_for(scenario(), 60))
