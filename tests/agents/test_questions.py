"""ask_person: the run waits until somebody answers, without a process."""

import json
from pathlib import Path

import pytest

from headway.ledger.errors import Conflict, Invalid
from tests.agents.person_harness import BOB, answer_question, cancel_turn, list_questions
from tests.agents.sub_agent_harness import wait_for_end
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import calls, text

DONE = text("Done.")
COLOUR = calls(("ask_person", {"question": "Which colour?", "choices": ["red", "blue"]}))


def test_the_answer_reaches_the_model(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, in_order(COLOUR, DONE)) as talk:
        turn = talk.say()
        (question,) = list_questions(talk)
        assert (turn["status"], turn["waiting_for"]) == ("waiting", {"kind": "question", "id": question["id"]})
        assert (question["question"], question["choices"], question["state"]) == ("Which colour?", ["red", "blue"], "open")
        assert (talk.job().state, talk.job().owner) == ("delayed", "")
        assert talk.notices() == [("question", "The agent index asks: Which colour?")]
        with pytest.raises(Invalid, match="Answer with one of: red, blue"):
            answer_question(talk, question["id"], "green")
        assert talk.open_notices() == ["question"]
        answer_question(talk, question["id"], "blue")
        assert talk.open_notices() == []
        assert wait_for_end(talk)["outcome"] == "answered"
        assert json.loads(talk.requests[-1].tool_results[-1].content) == {"answer": "blue", "answered_by": BOB}
        assert [data["question"]["state"] for _, data in talk.events("question_asked", "question_answered")] == ["open", "answered"]
        with pytest.raises(Conflict, match="is already answered"):
            answer_question(talk, question["id"], "red")


def test_an_answer_that_arrives_while_no_process_runs_is_used_by_the_next(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, in_order(COLOUR, DONE)) as talk:
        talk.say()
        talk.wait(talk.headway.stop_agents())
        answer_question(talk, list_questions(talk)[0]["id"], "red")
        assert talk.turn()["status"] == "running"
        assert talk.resume_turn()["outcome"] == "answered"


def test_canceling_the_turn_cancels_the_question(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, COLOUR) as talk:
        talk.say()
        cancel_turn(talk)
        assert (list_questions(talk)[0]["state"], talk.open_notices()) == ("canceled", [])
        with pytest.raises(Conflict):
            answer_question(talk, list_questions(talk)[0]["id"], "red")


@pytest.mark.parametrize(
    "arguments",
    [{}, {"question": " "}, {"question": "a", "choices": ["x", "x"]}, {"question": "a", "choices": [str(n) for n in range(21)]}],
)
def test_a_bad_question_is_refused_and_nobody_is_asked(sqlite_url: str, tmp_path: Path, arguments: dict[str, object]) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(calls(("ask_person", arguments)), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert list_questions(talk) == []
        assert "error" in json.loads(talk.requests[-1].tool_results[-1].content)
