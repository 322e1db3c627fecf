"""Forms that are filled in by a model without function calling: the schema is in the instructions, and the answer is JSON."""

import asyncio

import pytest

from headway.agents.loop.structured import Form, FormResult, Question, fill_form
from headway.agents.models.client import Models
from headway.ledger.tiers import TIERS, TierParameters
from tests.model_server import PATIENCE_S, ModelServer, Reply, Request, calls, environment, error, text


class Verdict(Form):
    is_met: bool
    reason: str


QUESTION = Question("cheap", "You judge.", "Is it done?", {}, "submit_verdict", Verdict)
FILLED = Verdict(is_met=True, reason="It is.")


def fill(server: ModelServer, parameters: TierParameters, *questions: Question[Verdict]) -> list[FormResult[Verdict]]:
    async def ask() -> list[FormResult[Verdict]]:
        models = Models(dict.fromkeys(TIERS, "openai-chat:fake-1"), PATIENCE_S, parameters=dict.fromkeys(TIERS, parameters))
        results = [await fill_form(models, question) for question in questions]
        while results[-1].follow_up:
            results.append(await fill_form(models, results[-1].follow_up))
        await models.close()
        return results

    with pytest.MonkeyPatch.context() as patch:
        for variable, value in environment(server).items():
            patch.setenv(variable, value)
        return asyncio.run(ask())


def answer(request: Request) -> Reply:
    if request.tools:
        return error(400, "fake-1 does not support tools")
    return text('Here: {"is_met": true, "reason": "It is."}') if "is_met" in request.system else text("I do not know the form.")


def test_a_refused_tool_is_replaced_by_the_schema_and_not_offered_again() -> None:
    with ModelServer(answer) as server:
        results = fill(server, TierParameters(), QUESTION, QUESTION)
        assert [result.form for result in results] == [FILLED, FILLED]
        assert [request.tools for request in server.requests] == [["submit_verdict"], [], []]
        assert "Answer with one JSON object and nothing else." in server.requests[1].system


def test_a_model_that_is_known_to_have_no_tools_is_not_offered_one() -> None:
    with ModelServer(answer) as server:
        assert fill(server, TierParameters(tools=False), QUESTION)[0].form == FILLED
        assert [request.tools for request in server.requests] == [[]]


def test_a_wrong_answer_is_sent_back_without_words_about_a_tool() -> None:
    def script(request: Request) -> Reply:
        return text("Yes.") if request.assistant_turns == 0 else answer(request)

    with ModelServer(script) as server:
        assert fill(server, TierParameters(tools=False), QUESTION)[-1].form == FILLED
        assert "Your answer is not a JSON object. Fix it and answer with the JSON object again." in server.requests[1].last
        assert "submit_verdict" not in str(server.requests[1].body)


def test_a_model_with_tools_is_offered_the_form_as_one() -> None:
    with ModelServer(calls(("submit_verdict", {"is_met": True, "reason": "It is."}))) as server:
        assert fill(server, TierParameters(), QUESTION)[0].form == FILLED
        assert "schema" not in server.requests[0].system
