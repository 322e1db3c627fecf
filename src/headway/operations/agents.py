"""Operations on agent runs: /agents"""

from typing import Annotated

from pydantic import Field

from headway.actions.inspection import steps
from headway.actions.runs import runs
from headway.actions.runs.runs import RunFilter
from headway.actions.turns import steering
from headway.ledger.text import MAX_INTEGER
from headway.operations import turns as turn_schemas
from headway.operations.fields import CursorQuery, Id, Name, PageQuery, QueryModel
from headway.operations.operation import Document, OperationCall, OperationTable, many, one, page
from headway.values import work as values_work
from headway.values.value import Meaning


class AgentsQuery(CursorQuery):
    turn_id: Name | None = None
    goal_id: Id | None = None


class StepsQuery(QueryModel):
    limit: Annotated[int, Field(ge=1, le=100)] = 50
    after: Annotated[int | None, Field(ge=0, le=MAX_INTEGER, description="Only steps with a higher number")] = None


# Operations on agent runs: /agents


table = OperationTable("engine")

ONE_AGENT = one("agent", values_work.Agent)


@table.add("GET /agents", "List agent runs, newest first", page("agents", values_work.Agent))
def list_agents(call: OperationCall, query: AgentsQuery) -> Document:
    run_filter = RunFilter(query.turn_id, query.goal_id)
    return runs.list_agents(call.tx, call.tenant_id, run_filter, query.limit, query.cursor).as_json()


@table.add("GET /agents/{run_id}", "Get an agent run", ONE_AGENT, errors=(404,))
def get_agent(call: OperationCall, run_id: str) -> Document:
    return {"agent": runs.show_run(call.tx, runs.get_run(call.tx, call.tenant_id, run_id))}


@table.add("POST /agents/{run_id}/cancel", "Cancel a sub-agent and everything it started", ONE_AGENT, errors=(404, 409))
def cancel_agent(call: OperationCall, run_id: str) -> Document:
    agent = runs.as_json(runs.cancel_run(call.tx, call.tenant_id, run_id))
    call.interrupt([run_id])
    call.nudge()
    return {"agent": agent}


@table.add(
    "POST /agents/{run_id}/messages",
    "Send a message to a running agent, which reads it at its next step",
    {202: turn_schemas.SENT_MESSAGE},
    errors=(404,),
)
def steer_agent(call: OperationCall, run_id: str, body: turn_schemas.NewSteering) -> Document:
    return {"message": steering.send_to_agent(call.tx, call.tenant_id, run_id, body.content, call.caller_name).as_json()}


@table.add(
    "GET /agents/{run_id}/messages",
    "List the messages that were sent to an agent while it ran, oldest first",
    turn_schemas.SENT_MESSAGES,
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
        values_work.AgentStep,
        agents=Annotated[list[values_work.Agent], Meaning("The sub-agents that it started itself, oldest first; at most 100")],
        next_after=Annotated[int | None, Meaning("`after` of the next page; null: this is the last one")],
        pruned=Annotated[bool, Meaning("Whether the beginning of the transcript was deleted because of its age")],
    ),
    errors=(404,),
)
def list_agent_steps(call: OperationCall, run_id: str, query: StepsQuery) -> Document:
    after = -1 if query.after is None else query.after
    return steps.list_agent_steps(call.tx, call.tenant_id, run_id, after, query.limit)
