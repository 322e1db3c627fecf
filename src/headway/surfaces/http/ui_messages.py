"""Reads the messages of the AI SDK: what a client has of a turn, and a person's answers in it."""

from typing import Any

from headway.surfaces.http.person_answers import QUESTION_MARK, PersonAnswer, parse_number
from headway.surfaces.http.turn_events import ASK_PERSON, KnownParts
from headway.surfaces.http.ui_stream import APPROVAL_PART, WITHDRAWN_METADATA

Document = dict[str, Any]


def find_continued(messages: list[Document], message_id: Any) -> Document | None:
    """Return the answer that a request continues: the one it names, or the last message. None if it sends a new message."""
    named = next((message for message in messages if message_id is not None and message.get("id") == message_id), messages[-1])
    continued = named if named.get("role") == "assistant" else messages[-1]
    return continued if continued.get("role") == "assistant" else None


def list_answers(message: Document) -> list[PersonAnswer]:
    """List the answers in a message. It has the earlier ones too, which change nothing."""
    parts = list_parts(message)
    answers: list[PersonAnswer] = []
    for part in parts:
        approval = part.get("approval")
        if part.get("state") == "approval-responded" and isinstance(approval, dict):
            answers.append(PersonAnswer("approval", parse_number(approval.get("id")), approval))
        elif answer := find_question_answer(part):
            answers.append(answer)
    outputs = {part.get("toolCallId"): part.get("output") for part in parts if part.get("state") == "output-available"}
    for approval in list_approvals(parts):
        output = outputs.get(approval["tool_call_id"])
        if isinstance(output, dict) and isinstance(output.get("approved"), bool):
            answers.append(PersonAnswer("approval", parse_number(str(approval.get("id"))), output))
    return answers


def find_question_answer(part: Document) -> PersonAnswer | None:
    """Return the answer to a question in a part, or the result of a tool that the client has."""
    is_error = part.get("state") == "output-error" and part.get("toolName") != ASK_PERSON
    if not is_question(part) or not (is_error or part.get("state") == "output-available"):
        return None
    number = parse_number(part["toolCallId"].rpartition(QUESTION_MARK)[2])
    return PersonAnswer("question", number, {"error": part.get("errorText")} if is_error else part.get("output"))


def list_client_results(messages: list[Document], turn_id: str) -> list[PersonAnswer]:
    """List the results that the client's own tools gave in a turn."""
    own = (message for message in messages if message.get("id") == turn_id)
    return [answer for message in own for part in list_parts(message) if (answer := find_question_answer(part))]


def has_answers(message: Document) -> bool:
    parts = list_parts(message)
    return any(part.get("state") == "approval-responded" or is_question(part) for part in parts)


def find_known_parts(message: Document) -> KnownParts:
    """Return what a message contains of its turn. Outputs that the client itself gave are answers, not results."""
    parts = list_parts(message)
    calls = [part for part in parts if isinstance(part.get("toolCallId"), str)]
    asked = {approval["tool_call_id"] for approval in list_approvals(parts)}
    return KnownParts(
        calls=[part["toolCallId"] for part in calls],
        results=[
            part["toolCallId"]
            for part in calls
            if str(part.get("state")).startswith("output-") and part["toolCallId"] not in asked and not is_question(part)
        ],
        texts=[text for part in parts if isinstance(text := part.get("text"), str) and is_kept_text(part)],
        decisions=[part["toolCallId"] for part in calls if isinstance(part.get("approval"), dict)],
    )


def list_parts(message: Document) -> list[Document]:
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def list_approvals(parts: list[Document]) -> list[Document]:
    """List the approvals that a client of version 5 was asked for."""
    documents = [part.get("data") for part in parts if part.get("type") == APPROVAL_PART]
    return [document for document in documents if isinstance(document, dict) and isinstance(document.get("tool_call_id"), str)]


def is_question(part: Document) -> bool:
    return isinstance(part.get("toolCallId"), str) and QUESTION_MARK in part["toolCallId"]


def is_kept_text(part: Document) -> bool:
    return part.get("type") == "text" and part.get("providerMetadata") != WITHDRAWN_METADATA
