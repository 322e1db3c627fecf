"""The tool that asks a person, and the tools that a turn's client has. The run waits for the answer as it waits for a sub-agent."""

import json
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from headway.actions.runs import inbox
from headway.agents.tools.agents import get_run, has_run
from headway.agents.tools.arguments import AnyArguments, Arguments, NonEmptyText
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import Pending, Tool, Waits
from headway.ledger.errors import Conflict
from headway.ledger.framing import escape_document, escape_frames
from headway.ledger.inbox import CHOICES_LIMIT
from headway.storage.transaction import Transaction


class AskPerson(Arguments):
    question: Annotated[NonEmptyText, Field(description="One question, with what is needed to answer it")]
    choices: Annotated[tuple[NonEmptyText, ...], Field(max_length=CHOICES_LIMIT, description="Answers to choose from")] = ()


def start_question(tx: Transaction, execution: Execution, arguments: AskPerson) -> Pending:
    return Pending(str(inbox.ask(tx, get_run(tx, execution), arguments.question, arguments.choices).id))


def poll_question(tx: Transaction, execution: Execution, _arguments: AskPerson, pending: Pending) -> dict[str, Any] | None:
    question = inbox.get(tx, execution.scope.tenant_id, int(pending.id), "question")
    if question.state == "canceled":
        raise Conflict("No person answered before the run was stopped. Ask again if it still matters.")
    return None if question.is_open else {"answer": question.answer, "answered_by": question.decided_by}


def start_client_call(name: str, tx: Transaction, execution: Execution, arguments: AnyArguments) -> Pending:
    encoded = json.dumps(arguments.model_dump(), ensure_ascii=False)
    return Pending(str(inbox.call_client(tx, get_run(tx, execution), name, encoded).id))


def poll_client_call(tx: Transaction, execution: Execution, _arguments: AnyArguments, pending: Pending) -> Any | None:
    question = inbox.get(tx, execution.scope.tenant_id, int(pending.id), "question")
    if question.state == "canceled":
        raise Conflict("The client gave no result before the run was stopped.")
    return None if question.is_open else {"result": decode_result(question.answer)}


def decode_result(answer: str) -> Any:
    """Decode the result that a client gave: JSON, or any text."""
    try:
        return json.loads(answer)
    except ValueError:
        return answer


def build_client_tools(encoded: str) -> dict[str, Tool]:
    """Build the tools that a client has declared for its turn. They are part of every role, as the runtime's own are."""
    return {
        tool["name"]: Tool(
            tool["name"],
            escape_frames(tool["description"]),
            "runtime",
            AnyArguments,
            Waits(partial(start_client_call, tool["name"]), poll_client_call),
            schema=escape_document(tool["parameters"]),
            needs=has_run,
        )
        for tool in json.loads(encoded or "[]")
    }


PEOPLE_TOOLS = (
    Tool(
        "ask_person",
        "Ask a person one question and wait for the answer. Only for what you cannot find out or decide yourself.",
        "people",
        AskPerson,
        Waits(start_question, poll_question),
        needs=has_run,
    ),
)
