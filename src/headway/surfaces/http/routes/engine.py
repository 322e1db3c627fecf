"""/v1/agents and /v1/schedules: inspect and control what the engine runs."""

from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from headway.actions import runs, schedules, views
from headway.actions.inspection import agent_steps
from headway.actions.people import steering
from headway.actions.schedules import ScheduleChange, Timing
from headway.actions.views import RunFilter
from headway.agents.tools import scheduled
from headway.ledger.errors import Invalid
from headway.ledger.schedule import Schedule
from headway.storage.transaction import Transaction
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import Action, RequestContext, to_json_response
from headway.surfaces.http.schemas import agents
from headway.surfaces.http.schemas import engine as shapes
from headway.surfaces.http.schemas.todos import CursorQuery, Deleted, PageQuery

routes = APIRouter(prefix="/v1", tags=["engine"])

SCHEDULE = TypeAdapter(shapes.NewSchedule)
SCHEDULE_CHANGES = TypeAdapter(shapes.ScheduleChanges)
STEERING = TypeAdapter(agents.NewSteering)
RUN_PATH: dict[str, Any] = {"path": {"run_id": str}}
NAME_PATH: dict[str, Any] = {"path": {"name": str}}


@routes.get(
    "/agents",
    summary="List agent runs, newest first",
    **document_route({200: shapes.ManyAgents}, query=shapes.AgentsQuery),
)
async def list_agents(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(shapes.AgentsQuery)
    run_filter = RunFilter(query.turn_id, query.goal_id)
    page = await call.read(lambda tx, tenant_id: views.list_agents(tx, tenant_id, run_filter, query.limit, query.cursor))
    return to_json_response(page.as_json())


@routes.get("/agents/{run_id}", summary="Get an agent run", **document_route({200: shapes.OneAgent}, also=(404,), **RUN_PATH))
async def get_agent(request: Request) -> Response:
    run_id = request.path_params["run_id"]
    return to_json_response(
        {"agent": await RequestContext(request).read(lambda tx, tenant_id: runs.show(tx, runs.get(tx, tenant_id, run_id)))}
    )


@routes.post(
    "/agents/{run_id}/cancel",
    summary="Cancel a sub-agent and everything it started",
    **document_route({200: shapes.OneAgent}, also=(404, 409), idempotent=True, **RUN_PATH),
)
async def cancel_agent(request: Request) -> Response:
    call, run_id = RequestContext(request), request.path_params["run_id"]
    answer = await call.post(lambda tx, tenant_id: {"agent": runs.as_json(runs.cancel(tx, tenant_id, run_id))}, 200)
    if answer.status_code == 200:  # with an Idempotency-Key, a refusal is a stored response, too
        call.headway.interrupt([run_id])
        call.headway.nudge()
    return answer


@routes.post(
    "/agents/{run_id}/messages",
    summary="Send a message to a running agent, which reads it at its next step",
    **document_route({202: agents.OneSteering}, also=(404,), body=agents.NewSteering, idempotent=True, **RUN_PATH),
)
async def send_message(request: Request) -> Response:
    call, run_id = RequestContext(request), request.path_params["run_id"]
    body = await call.body(STEERING)

    def send(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        return {"message": steering.send_to_agent(tx, tenant_id, run_id, body.content, call.describe_caller(tx)).as_json()}

    return await call.post(send, 202)


@routes.get(
    "/agents/{run_id}/messages",
    summary="List the messages that were sent to an agent while it ran, oldest first",
    **document_route({200: agents.ManySteering}, also=(404,), query=PageQuery, **RUN_PATH),
)
async def list_sent(request: Request) -> Response:
    call, run_id = RequestContext(request), request.path_params["run_id"]
    query = await call.query(PageQuery)
    messages = await call.read(lambda tx, tenant_id: steering.list_by_agent(tx, tenant_id, run_id, query.limit))
    return to_json_response({"messages": [message.as_json() for message in messages]})


@routes.get(
    "/agents/{run_id}/steps",
    summary="List an agent's steps with their tool calls, oldest first, and the sub-agents that it started",
    **document_route({200: shapes.ManySteps}, also=(404,), query=shapes.StepsQuery, **RUN_PATH),
)
async def list_steps(request: Request) -> Response:
    call, run_id = RequestContext(request), request.path_params["run_id"]
    query = await call.query(shapes.StepsQuery)
    after = -1 if query.after is None else query.after
    page = await call.read(lambda tx, tenant_id: agent_steps.list_page(tx, tenant_id, run_id, after, query.limit))
    return to_json_response(page)


@routes.get("/schedules", summary="List schedules, by name", **document_route({200: shapes.ManySchedules}, query=CursorQuery))
async def list_schedules(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(CursorQuery)
    page = await call.read(lambda tx, tenant_id: schedules.list_page(tx, tenant_id, query.limit, query.cursor))
    return to_json_response(page.as_json())


@routes.put(
    "/schedules/{name}",
    summary="Create a schedule, or change the existing one",
    **document_route({200: shapes.OneSchedule}, also=(404,), body=shapes.NewSchedule, **NAME_PATH),
)
async def put_schedule(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(SCHEDULE)
    timing = Timing(body.cron or "", body.timezone, int((body.every_s or 0) * 1000))
    work = collect_work(body)
    if "tool" in work:
        await check_tool_work(call, work)
    return await answer_with_schedule(
        call, lambda tx, tenant_id: schedules.put(tx, tenant_id, request.path_params["name"], timing, work)
    )


@routes.patch(
    "/schedules/{name}",
    summary="Change a schedule: its times, its work, its name, or whether it is paused",
    **document_route({200: shapes.OneSchedule}, also=(404, 409), body=shapes.ScheduleChanges, **NAME_PATH),
)
async def change_schedule(request: Request) -> Response:
    call, name = RequestContext(request), request.path_params["name"]
    body = await call.body(SCHEDULE_CHANGES)
    work = collect_work(body)
    if "tool" in work:
        await check_tool_work(call, work)

    def change(tx: Transaction, tenant_id: int) -> Schedule:
        timing = merge_timing(schedules.get(tx, tenant_id, name), body)
        return schedules.change(tx, tenant_id, name, ScheduleChange(timing, work or None, body.paused, body.name))

    return await answer_with_schedule(call, change)


def merge_timing(schedule: Schedule, body: shapes.ScheduleChanges) -> Timing | None:
    """Return the timing of the schedule with the changes. None: it stays as it is."""
    if body.cron is None and body.every_s is None and body.timezone is None:
        return None
    if body.cron is None and body.every_s is None and not schedule.cron:
        raise Invalid("timezone applies to cron only.")
    if body.every_s is not None:
        return Timing(body.cron or "", "UTC", int(body.every_s * 1000))
    return Timing(body.cron or schedule.cron, body.timezone or schedule.timezone)


def collect_work(body: shapes.NewSchedule | shapes.ScheduleChanges) -> dict[str, Any]:
    kinds = {"goal": body.goal, "message": body.message, "tool": body.tool}
    return {kind: target.model_dump() for kind, target in kinds.items() if target}


async def check_tool_work(call: RequestContext, work: dict[str, Any]) -> None:
    """Check a call of a tool before the write, because a custom tool's own code checks its arguments."""
    tools, roles = call.headway.toolbox, call.headway.roles
    await call.read(lambda tx, tenant_id: scheduled.check_remote_call(tx, tenant_id, work["tool"], tools, roles))


@routes.get(
    "/schedule-preview",
    summary="Get the next five times of a schedule that would be created now",
    **document_route({200: shapes.SchedulePreview}, query=shapes.PreviewQuery),
)
async def preview_schedule(request: Request) -> Response:
    call = RequestContext(request)
    query = await call.query(shapes.PreviewQuery)
    timing = Timing(query.cron or "", query.timezone, int((query.every_s or 0) * 1000))
    times = await call.read(lambda tx, _tenant_id: schedules.preview(timing, tx.now))
    return to_json_response({"times": [moment // 1000 for moment in times], "timezone": query.timezone})


@routes.get("/schedules/{name}", summary="Get a schedule", **document_route({200: shapes.OneSchedule}, also=(404,), **NAME_PATH))
async def get_schedule(request: Request) -> Response:
    name = request.path_params["name"]
    schedule = await RequestContext(request).read(lambda tx, tenant_id: schedules.get(tx, tenant_id, name))
    return to_json_response({"schedule": schedule.as_json()})


@routes.delete("/schedules/{name}", summary="Delete a schedule", **document_route({200: Deleted}, also=(404, 507), **NAME_PATH))
async def delete_schedule(request: Request) -> Response:
    name = request.path_params["name"]
    await RequestContext(request).write(lambda tx, tenant_id: schedules.remove(tx, tenant_id, name))
    return to_json_response({"deleted": True})


def add_verb_route(name: str, summary: str, action: Any) -> None:
    """Add the route POST /schedules/{name}/VERB."""

    async def handle(request: Request) -> Response:
        call = RequestContext(request)

        def act(tx: Transaction, tenant_id: int) -> dict[str, Any]:
            limits = call.headway.settings.limits
            return {"schedule": action(tx, tenant_id, request.path_params["name"], limits).as_json()}

        answer = await call.post(act, 200)
        call.headway.nudge()
        return answer

    described_as = document_route({200: shapes.OneSchedule}, also=(404, 409), idempotent=True, **NAME_PATH)
    routes.post(f"/schedules/{{name}}/{name}", summary=summary, **described_as)(handle)


add_verb_route("pause", "Pause a schedule", lambda tx, tenant_id, name, _limits: schedules.pause(tx, tenant_id, name))
add_verb_route(
    "resume", "Resume a schedule from now on", lambda tx, tenant_id, name, _limits: schedules.resume(tx, tenant_id, name)
)
add_verb_route("run", "Run a schedule once, now", schedules.run_now)


async def answer_with_schedule(request: RequestContext, action: Action[Schedule]) -> Response:
    schedule = await request.write(action)
    request.headway.nudge()
    return to_json_response({"schedule": schedule.as_json()})
