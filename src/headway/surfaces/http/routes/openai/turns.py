"""Runs a turn for a client of OpenAI's API: finds its conversation, and answers with a stream or with one document."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from headway.actions.access.spending import Usage
from headway.actions.history import client_histories
from headway.actions.history.client_histories import ContinuedConversation, ConversationName
from headway.actions.runs import inbox, waiting
from headway.actions.todos import finding
from headway.actions.turns import steering, turns
from headway.agents.instructions.roles import UnknownRole
from headway.feed import TENANT_MOVED
from headway.ledger.errors import Invalid, NotFound, StorageError, TurnWaiting, WrongCell
from headway.ledger.job import Job
from headway.ledger.text import MAX_INTEGER, NAME_LIMIT
from headway.operations import front_ends
from headway.operations import turns as turn_operation
from headway.storage.transaction import Transaction
from headway.surfaces.http.person_answers import KINDS, PersonAnswer, apply_answers
from headway.surfaces.http.problems import Problem, to_problem
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routes.openai.answers import AnswerEncoder, AnswerEnd, AnswerHead
from headway.surfaces.http.routes.openai.messages import (
    ClientRequest,
    Document,
    UnsupportedParameter,
    check_parameters,
    parse_call_ids,
    quote_history,
    read_messages,
    read_tools,
)
from headway.surfaces.http.server_sent_events import EventStream
from headway.surfaces.http.turn_streams import BeginTurn, OpenedTurn, begin_when_free, build_encoder, open_turn, start_jobs
from headway.surfaces.turn_events import ItemKey

CONVERSATION_HEADER: Final = "Headway-Conversation"
TURN_HEADER: Final = "Headway-Turn"
CONVERSATION_PARAMETER: Final = {
    "name": CONVERSATION_HEADER,
    "in": "header",
    "required": False,
    "description": "The conversation: its id, or a key, for which a conversation is created on first use.",
    "schema": {"type": "string", "maxLength": 200, "pattern": r"^[\x20-\x7e]*$"},
}
NO_RETRY: Final = {"X-Should-Retry": "false"}  # clients repeat what failed on the server, unless told not to
# The whole message must be one of these words, with or without the number of the approval.
APPROVING_WORDS: Final = frozenset(("approve", "approved", "yes"))
REJECTING_WORDS: Final = frozenset(("reject", "rejected", "deny", "denied", "no"))


class OpenAiRequest(NamedTuple):
    """A request of either API, parsed."""

    name: ConversationName
    client: ClientRequest
    role: str
    metadata: dict[str, str]
    client_tools: str


async def parse_request(
    call: RequestContext,
    model: str,
    messages: list[Document],
    parameters: dict[str, Any],
    find_name: Callable[[], ConversationName],
) -> OpenAiRequest:
    """Parse what both APIs have in common. Mistakes are shown only to callers with a valid token."""
    try:
        check_parameters(parameters)
        role = call.headway.roles.find(model)
        client = await call.parse(read_messages, messages)
        tools = read_tools(parameters)
        front_ends.check_names(tools, call.headway.toolbox.tools)
        metadata = {name: value for name, value in (parameters.get("metadata") or {}).items() if isinstance(value, str)}
        return OpenAiRequest(find_name(), client, role.name, metadata, front_ends.encode_tools(tools))
    except UnknownRole as error:
        problem = Problem(404, "model_not_found", str(error).replace("role", "model", 1))
        problem.param = "model"
    except Invalid as error:
        problem = to_problem(error)
        problem.param = error.param if isinstance(error, UnsupportedParameter) else None
    await call.refuse(problem)
    raise problem


def find_name(call: RequestContext, parameters: dict[str, Any]) -> ConversationName:
    """Return how a request names its conversation: by the header, by metadata, or by the user."""
    if reference := call.request.headers.get(CONVERSATION_HEADER, "").strip():
        if not (reference.isascii() and reference.isprintable() and len(reference) <= NAME_LIMIT):
            raise Invalid(f"{CONVERSATION_HEADER} must be at most {NAME_LIMIT} printable ASCII characters.")
        return ConversationName(reference=reference)
    key = (parameters.get("metadata") or {}).get("conversation")
    if key is not None and not (isinstance(key, str) and key.strip()):
        raise Invalid("metadata.conversation must be a text that is not blank.")
    return ConversationName(key=key or parameters.get("user") or "")


def build_begin(call: RequestContext, request: OpenAiRequest, started_jobs: list[Job]) -> BeginTurn:
    """Return the action that starts the turn, or that answers what the conversation's turn waits for."""
    client = request.client

    def begin(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        if client.results:
            return continue_with_results(call, tx, tenant_id, client.results)
        continued = client_histories.find_continued(tx, tenant_id, request.name, client.history)
        fingerprint = client_histories.compute_fingerprint([*client.history, *client.new])
        answered = answer_wait(call, tx, tenant_id, continued, client)
        if answered and continued.last_turn:
            turn_id = continued.last_turn.id
            client_histories.save_fingerprint(tx, tenant_id, turn_id, fingerprint)
        else:
            is_unknown = continued.last_turn is None and client.history
            turn_request = turns.TurnRequest(
                client.content,
                role=request.role,
                attachments=(*([quote_history(client.history)] if is_unknown else ()), *client.attachments),
                context=client.instructions,
                client_tools=request.client_tools,
                fingerprint=fingerprint,
            )
            job = call.headway.begin_requested_turn(tx, tenant_id, continued.conversation.id, turn_request)
            started_jobs[:] = [job]
            turn_id = turns.get_turn_id(job)
        return build_begun(tx, turn_id, continued.conversation.id, answered)

    return begin


def build_begun(tx: Transaction, turn_id: str, conversation_id: int, answered: list[ItemKey]) -> dict[str, Any]:
    return {"turn_id": turn_id, "conversation_id": conversation_id, "created": tx.now // 1000, "answered": answered}


def continue_with_results(call: RequestContext, tx: Transaction, tenant_id: int, results: dict[str, str]) -> dict[str, Any]:
    """Give a turn the results of the client's own tools that it waits for."""
    turn_id, question_ids = parse_call_ids(results)
    conversation = finding.get_conversation(tx, tenant_id, finding.get_turn(tx, tenant_id, turn_id).conversation_id)
    answers = [PersonAnswer("question", question_ids[call_id], result) for call_id, result in results.items()]
    turn_id = apply_answers(call, tx, tenant_id, conversation.key, answers)
    return build_begun(tx, turn_id, conversation.id, [(answer.kind, answer.id) for answer in answers])


def answer_wait(
    call: RequestContext, tx: Transaction, tenant_id: int, continued: ContinuedConversation, client: ClientRequest
) -> list[ItemKey]:
    """If the conversation's turn waits, take the message as the answer, and return what it is about. If the turn waits for tools of
    the client, it continues without their results, and its agent reads the message. If it waits for a decision and the message is
    none, the agent reads the message after the decision."""
    turn = continued.last_turn
    if turn is None or turn.ended or turn.conversation_id != continued.conversation.id:
        return []
    wait = waiting.find_by_turn(tx, tenant_id, turn.id)
    if wait is None:
        return []
    key: ItemKey = (wait["kind"], wait["id"])
    run, caller = turns.get_run(tx, tenant_id, turn.id), call.describe_caller(tx)
    decision = parse_decision(client.content) if key[0] == "approval" else None
    if steering.send_instead_of_results(tx, run, client.content, {}, caller):
        pass
    elif key[0] == "question":
        apply_answers(call, tx, tenant_id, continued.conversation.key, [PersonAnswer(*key, {"answer": client.content})])
    elif decision is None:
        if client.attachments:
            raise TurnWaiting(f"The conversation's turn waits for approval #{key[1]}. Decide first, and send the files after that.")
        steering.send(tx, run, client.content, caller)
    else:
        key = ("approval", find_decided(tx, tenant_id, turn.id, key[1], decision.approval_id))
        apply_answers(call, tx, tenant_id, continued.conversation.key, [PersonAnswer(*key, {"approved": decision.approved})])
    return [key]


class TypedDecision(NamedTuple):
    approved: bool
    approval_id: int | None  # None if the message names none


def parse_decision(content: str) -> TypedDecision | None:
    """Parse a message that is nothing but a decision, as `approve` or `reject 12`. Any other message is None: a person who writes
    "Approve nothing yet" has decided nothing."""
    word, *rest = content.strip().rstrip(".!").lower().split() or [""]
    number = rest[0].removeprefix("#") if rest else ""
    is_number = number.isascii() and number.isdigit() and len(number) <= len(str(MAX_INTEGER))
    if word not in APPROVING_WORDS | REJECTING_WORDS or len(rest) > 1 or (rest and not is_number):
        return None
    return TypedDecision(word in APPROVING_WORDS, min(int(number), MAX_INTEGER) if rest else None)


def find_decided(tx: Transaction, tenant_id: int, turn_id: str, oldest_id: int, named_id: int | None) -> int:
    """Return the approval that a decision is about: the one that it names, or the oldest that the turn waits for."""
    if named_id is None or named_id == oldest_id:
        return oldest_id
    with suppress(NotFound):
        named = inbox.get(tx, tenant_id, named_id, "approval")
        if named.is_open and named.turn_id == turn_id:
            return named_id
    raise TurnWaiting(f"The conversation's turn waits for approval #{oldest_id}, not for #{named_id}. Nothing was decided.")


CreateAnswerEncoder = Callable[[AnswerHead], AnswerEncoder]


async def answer_request(
    call: RequestContext, request: OpenAiRequest, create_encoder: CreateAnswerEncoder, *, stream: bool
) -> Response:
    """Run the turn, and answer with its stream or with its result. Disconnecting does not stop the turn."""
    query = await call.query(turn_operation.WaitQuery)
    started_jobs: list[Job] = []
    try:
        opened = await open_turn(call, build_begin(call, request, started_jobs), started_jobs, query.wait or 0)
    except TurnWaiting as error:
        raise add_headers(to_problem(error), NO_RETRY) from None
    if isinstance(opened, Response):
        return opened
    call.headway.nudge()
    head = build_head(request, opened.begun)
    encoder = create_encoder(head)
    encoder.answer.unanswered = {(KINDS[kind], item_id) for kind, item_id in opened.begun["answered"]}
    if not stream:
        response = await collect_answer(call, opened, encoder)
    else:

        async def find_last_frames() -> bytes:
            found = await find_end(call, opened, encoder)
            return encoder.encode_end(*found).encode() if found else b""

        response = EventStream(call.headway.feed, opened.channel, opened.reader, call, build_encoder(encoder), find_last_frames)
    response.headers.update(build_headers(head))
    return response


async def begin_in_background(call: RequestContext, request: OpenAiRequest) -> AnswerHead | Response:
    """Start the turn, and return what is known of its answer, or the refusal."""
    query = await call.query(turn_operation.WaitQuery)
    started_jobs: list[Job] = []
    response = await begin_when_free(call, build_begin(call, request, started_jobs), query.wait or 0)
    start_jobs(call, started_jobs)
    if response.status_code != 202:
        return response
    call.headway.nudge()
    return build_head(request, json.loads(bytes(response.body)))


def build_head(request: OpenAiRequest, begun: dict[str, Any]) -> AnswerHead:
    return AnswerHead(begun["turn_id"], begun["conversation_id"], begun["created"], request.role, request.metadata)


def build_headers(head: AnswerHead) -> dict[str, str]:
    return {CONVERSATION_HEADER: str(head.conversation_id), TURN_HEADER: head.turn_id}


def add_headers(problem: Problem, headers: dict[str, str]) -> Problem:
    problem.headers |= headers
    return problem


async def collect_answer(call: RequestContext, opened: OpenedTurn, encoder: AnswerEncoder) -> Response:
    """Wait for the end of the answer, and return it as one document."""
    feed, reader = call.headway.feed, opened.reader
    encode = build_encoder(encoder)

    async def watch_disconnect() -> None:
        while (await call.request.receive())["type"] != "http.disconnect":
            pass
        reader.leave()

    watch = asyncio.create_task(watch_disconnect())
    try:
        async for events in feed.follow(opened.channel, reader):
            if any(event.kind == TENANT_MOVED for event in events):
                break
            encode(events)
            if found := await find_end(call, opened, encoder):
                return build_result(encoder, *found)
    finally:
        watch.cancel()
        feed.leave(opened.channel, reader)
    if opened.channel.departure:
        departure = opened.channel.departure
        raise WrongCell(None, departure.cell, departure.location)
    raise Problem(503, "closed", "The server stops. The turn continues in another process.", {"Retry-After": "5", **NO_RETRY})


def build_result(encoder: AnswerEncoder, end: AnswerEnd, usage: Usage) -> Response:
    if end.reason == "failed":
        raise Problem(500, end.code, end.text, NO_RETRY)
    return to_json_response(encoder.build_document(end, usage))


async def find_end(call: RequestContext, opened: OpenedTurn, encoder: AnswerEncoder) -> tuple[AnswerEnd, Usage] | None:
    """Return how the answer ends, if it ends here: with the turn, or because the turn waits for a person or for money."""
    answer, tenant_id, turn_id = encoder.answer, opened.tenant_id, str(opened.begun["turn_id"])
    announced = answer.translator.waiting
    if not (answer.end or announced or answer.pause_reason):
        return None

    def look(tx: Transaction) -> tuple[AnswerEnd | None, Usage]:
        end = answer.end
        if end is None and announced and waiting.is_waiting_for(tx, tenant_id, turn_id, announced):
            end = answer.end_waiting()
        if end is None and answer.pause_reason and finding.get_turn(tx, tenant_id, turn_id).status == "paused":
            end = answer.end_paused()
        return end, turns.get_usage(tx, tenant_id, turn_id)

    try:
        end, usage = await call.headway.database.of(tenant_id).read(look)
    except StorageError:
        return (answer.end, Usage()) if answer.end else None  # otherwise the next event or heartbeat looks again
    return (end, usage) if end else None
