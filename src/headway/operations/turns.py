"""Operations on turns: /turns"""

from headway.actions import conversations, run_ends, turns
from headway.actions.guard import stops
from headway.actions.people import steering
from headway.ledger.guard.values import StopRequest
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, one
from headway.operations.schemas import agents as schemas
from headway.operations.schemas.todos import PageQuery

table = OperationTable("turns")


def encode_turn(call: OperationCall, turn_id: str) -> Document:
    return {"turn": turns.show(call.tx, call.tenant_id, turn_id, call.host.settings.limits)}


@table.add(
    "POST /turns",
    "Open a turn without running an agent, for clients with their own agent loop",
    {201: schemas.OneTurn},
    errors=(404,),
)
def create_turn(call: OperationCall, body: schemas.NewTurn) -> Document:
    return encode_turn(call, conversations.open_turn(call.tx, call.tenant_id, body.conversation_id).id)


@table.add("GET /turns/{turn_id}", "Get a turn", schemas.OneTurn, errors=(404,))
def get_turn(call: OperationCall, turn_id: str) -> Document:
    return encode_turn(call, turn_id)


@table.add(
    "POST /turns/{turn_id}/cancel",
    "Cancel a running turn. What its agent was saying is kept as a message of the kind stopped",
    schemas.OneTurn,
    errors=(404, 409),
)
def cancel_turn(call: OperationCall, turn_id: str) -> Document:
    call.interrupt(run_ends.cancel_turn(call.tx, call.tenant_id, turn_id, call.host.live_text))
    return encode_turn(call, turn_id)


@table.add(
    "POST /turns/{turn_id}/stop",
    "Ask whether the agent of your own loop may stop: not while its plan is open or its checks fail, which run for this",
    {200: one("stop", schemas.StopShape)},
    errors=(404, 409),
)
def stop_turn(call: OperationCall, turn_id: str, body: schemas.NewStop) -> Document:
    limit = call.host.settings.limits.guard_refusals
    return {"stop": stops.decide(call.tx, call.tenant_id, turn_id, StopRequest(body.answer), limit).as_json()}


@table.add(
    "POST /turns/{turn_id}/messages",
    "Send a message to a running turn, whose agent reads it at its next step",
    {202: one("message", schemas.SteeringShape)},
    errors=(404,),
)
def steer_turn(call: OperationCall, turn_id: str, body: schemas.NewSteering) -> Document:
    return {"message": steering.send_to_turn(call.tx, call.tenant_id, turn_id, body.content, call.caller_name).as_json()}


@table.add(
    "GET /turns/{turn_id}/messages",
    "List the messages that were sent to a turn while it ran, oldest first",
    AnswerShape("ManySteering", {"messages": list[schemas.SteeringShape]}),
    errors=(404,),
)
def list_turn_messages(call: OperationCall, turn_id: str, query: PageQuery) -> Document:
    messages = steering.list_by_turn(call.tx, call.tenant_id, turn_id, query.limit)
    return {"messages": [message.as_json() for message in messages]}
