"""Questions of agents to people: the run waits for the answer."""

import json
from collections.abc import Sequence
from typing import Any, Final

from headway.actions import runs
from headway.actions.notices import NoticeSubject, notify
from headway.actions.people import waiting
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.events import encode_json
from headway.ledger.permission import CHOICE_LENGTH, CHOICES_LIMIT, PersonQuestion, QuestionState
from headway.ledger.run import Run
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import questions as question_store
from headway.storage.transaction import Transaction

QUESTION_LIMIT: Final = 4_000
ANSWER_LIMIT: Final = 20_000
SUMMARY_LIMIT: Final = 300
CURSORS: Final = CursorCodec("questions", (MAX_INTEGER,))  # the id


def ask(tx: Transaction, run: Run, question: str, choices: Sequence[str] = ()) -> PersonQuestion:
    """Store a question and notify the operator."""
    content = text.check_text(question.strip(), "question", QUESTION_LIMIT)
    options = [text.check_text(choice.strip(), "choices", CHOICE_LENGTH) for choice in choices]
    if len(options) > CHOICES_LIMIT or len(set(options)) < len(options) or not all(options):
        raise Invalid(f"choices must be at most {CHOICES_LIMIT} different texts.")
    stored = insert(tx, run, content, json.dumps(options, ensure_ascii=False))
    sentence = f"The agent {stored.role} asks: {text.to_one_line(content)[:SUMMARY_LIMIT]}"
    subject = NoticeSubject(stored.conversation_id, stored.turn_id, stored.goal_id, stored.page)
    notify(tx, stored.tenant_id, "question", sentence, subject)
    return stored


def call_client(tx: Transaction, run: Run, tool: str, arguments: str) -> PersonQuestion:
    """Store a call of a tool that the turn's client has. The client answers with the result, so no person is notified."""
    question = f"The client is to call {tool} with {text.to_one_line(arguments)}"[:QUESTION_LIMIT]
    return insert(tx, run, question, "[]", encode_json({"tool": tool}, arguments=arguments))


def insert(tx: Transaction, run: Run, question: str, choices: str, client_call: str = "") -> PersonQuestion:
    stored = question_store.insert(
        tx,
        PersonQuestion(
            id=0,
            tenant_id=run.tenant_id,
            conversation_id=run.conversation_id,
            turn_id=run.turn_id,
            run_id=run.id,
            goal_id=run.goal_id,
            role=run.role,
            question=question,
            choices=choices,
            answer="",
            state="open",
            created_at=tx.now,
            client_call=client_call,
        ),
    )
    waiting.begin(tx, stored)
    return stored


def list_client_calls(tx: Transaction, run: Run) -> list[PersonQuestion]:
    """List the calls that a run waits for its client to make."""
    return [question for question in question_store.list_open_of_run(tx, run.tenant_id, run.id) if question.client_call]


def answer(tx: Transaction, tenant_id: int, question_id: int, content: str, answered_by: str) -> PersonQuestion:
    """Store the answer and wake the run. The same answer again changes nothing; another one raises Conflict."""
    found = get(tx, tenant_id, question_id)
    content = text.check_text(content.strip(), "answer", text.TEXT_LIMIT if found.client_call else ANSWER_LIMIT)
    choices = json.loads(found.choices)
    if not content or (choices and content not in choices):
        expected = f"Answer with one of: {', '.join(choices)}." if choices else "The answer is empty."
        raise Invalid(expected)
    runs.get_locked(tx, runs.get(tx, tenant_id, found.run_id))
    question = get(tx, tenant_id, question_id)
    if question.state == "answered" and question.answer == content:
        return question
    if not question.is_open:
        raise Conflict(f"Question #{question_id} is already {question.state}.")
    question = waiting.end(tx, question._replace(state="answered", answer=content, answered_by=answered_by))
    waiting.wake(tx, question)
    return question


def get(tx: Transaction, tenant_id: int, question_id: int) -> PersonQuestion:
    question = question_store.find(tx, tenant_id, question_id)
    if question is None:
        raise NotFound(f"No question #{question_id}.")
    return question


def list_page(
    tx: Transaction, tenant_id: int, state: QuestionState | None, limit: int, cursor: str | None = None
) -> dict[str, Any]:
    """List questions, newest first."""
    (before,) = CURSORS.decode(cursor)
    rows = question_store.list_page(tx, tenant_id, state, limit + 1, before)
    return {
        "questions": [question.as_json() for question in rows[:limit]],
        "next_cursor": CURSORS.encode_next(rows, limit, lambda question: (question.id,)),
    }
