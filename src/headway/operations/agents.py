"""Operations on agent runs: /agents"""

from typing import Annotated

from headway.actions import runs, views
from headway.actions.inspection import agent_steps
from headway.actions.people import steering
from headway.actions.views import RunFilter
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, many, one, page
from headway.operations.schemas import agents as turn_schemas
from headway.operations.schemas import engine as schemas
from headway.operations.schemas.todos import PageQuery
from headway.values import work as values_work
from headway.values.value import Meaning

table = OperationTable("engine")

ONE_AGENT = one("agent", values_work.Agent)


@table.add("GET /agents", "List agent runs, newest first", page("agents", values_work.Agent))
def list_agents(call: OperationCall, query: schemas.AgentsQuery) -> Document:
    run_filter = RunFilter(query.turn_id, query.goal_id)
    return views.list_agents(call.tx, call.tenant_id, run_filter, query.limit, query.cursor).as_json()


@table.add("GET /agents/{run_id}", "Get an agent run", ONE_AGENT, errors=(404,))
def get_agent(call: OperationCall, run_id: str) -> Document:
    return {"agent": runs.show(call.tx, runs.get(call.tx, call.tenant_id, run_id))}


@table.add("POST /agents/{run_id}/cancel", "Cancel a sub-agent and everything it started", ONE_AGENT, errors=(404, 409))
def cancel_agent(call: OperationCall, run_id: str) -> Document:
    agent = runs.as_json(runs.cancel(call.tx, call.tenant_id, run_id))
    call.interrupt([run_id])
    call.nudge()
    return {"agent": agent}


@table.add(
    "POST /agents/{run_id}/messages",
    "Send a message to a running agent, which reads it at its next step",
    {202: one("message", turn_schemas.SteeringShape)},
    errors=(404,),
)
def steer_agent(call: OperationCall, run_id: str, body: turn_schemas.NewSteering) -> Document:
    return {"message": steering.send_to_agent(call.tx, call.tenant_id, run_id, body.content, call.caller_name).as_json()}


@table.add(
    "GET /agents/{run_id}/messages",
    "List the messages that were sent to an agent while it ran, oldest first",
    AnswerShape("ManySteering", {"messages": list[turn_schemas.SteeringShape]}),
    errors=(404,),
)
def list_agent_messages(call: OperationCall, run_id: str, query: PageQuery) -> Document:
    messages = steering.list_by_agent(call.tx, call.tenant_id, run_id, query.limit)
    return {"messages": [message.as_json() for message in messages]}


@table.add(
    "GET /agents/{run_id}/steps",
    "List an agent's steps with their tool calls, oldest first, and the sub-agents that it started",
    many(
        "steps",
        schemas.AgentStepShape,
        agents=Annotated[list[values_work.Agent], Meaning("The sub-agents that it started itself, oldest first; at most 100")],
        next_after=Annotated[int | None, Meaning("`after` of the next page; null: this is the last one")],
        pruned=Annotated[bool, Meaning("Whether the beginning of the transcript was deleted because of its age")],
    ),
    errors=(404,),
)
def list_agent_steps(call: OperationCall, run_id: str, query: schemas.StepsQuery) -> Document:
    after = -1 if query.after is None else query.after
    return agent_steps.list_page(call.tx, call.tenant_id, run_id, after, query.limit)
