"""Requests about agents, jobs and schedules."""

from typing import Any, Final

from headway.actions import dead_letters, jobs, runs, schedules, views
from headway.actions.goals import DEFAULT_PRIORITY
from headway.actions.inspection import agent_steps
from headway.actions.people import steering
from headway.actions.schedules import Timing
from headway.actions.views import RunFilter, check_limit
from headway.agents.tools import scheduled
from headway.ledger.errors import Invalid
from headway.ledger.schedule import Schedule
from headway.library.door import Document
from headway.library.embedded.requests import LocalRequest, Operation
from headway.storage.transaction import Transaction

# The fields of each kind of scheduled work that may be left out.
WORK_DEFAULTS: Final[dict[str, Document]] = {
    "goal": {"success_criteria": "", "priority": DEFAULT_PRIORITY},
    "message": {},
    "tool": {"arguments": {}, "conversation_id": 0},
}
STEPS_LIMIT: Final = 100


def list_agents(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    run_filter = RunFilter(request.query.get("turn_id"), request.query.get("goal_id"))
    return views.list_agents(tx, tenant_id, run_filter, check_limit(request.limit), request.cursor).as_json()


def get_agent(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"agent": runs.show(tx, runs.get(tx, tenant_id, request.get_name()))}


def cancel_agent(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    run_id = request.get_name()
    request.after.append(lambda: request.headway.interrupt([run_id]))
    request.nudge()
    return {"agent": runs.as_json(runs.cancel(tx, tenant_id, run_id))}


def list_steps(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    after = request.query.get("after", -1)
    return agent_steps.list_page(tx, tenant_id, request.get_name(), after, min(request.limit, STEPS_LIMIT))


def send_message(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    message = steering.send_to_agent(tx, tenant_id, request.get_name(), request.body["content"], request.actor)
    return {"message": message.as_json()}


def list_jobs(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    query, limit = request.query, check_limit(request.limit)
    return views.list_jobs(tx, tenant_id, query.get("state"), limit, request.cursor, query.get("kind")).as_json()


def get_job(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"job": jobs.get(tx, tenant_id, request.get_name()).as_json()}


def retry_job(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    request.nudge()
    return {"job": dead_letters.retry(tx, tenant_id, request.get_name()).as_json()}


def cancel_job(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    job_id = request.get_name()
    request.after.append(lambda: request.headway.interrupt([job_id]))
    return {"job": jobs.cancel(tx, tenant_id, job_id).as_json()}


def drop_job(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    jobs.drop(tx, tenant_id, request.get_name())
    return {"deleted": True}


def put_schedule(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    body = request.body
    timing = Timing(body.get("cron", ""), body["timezone"], int((body.get("every_s") or 0) * 1000))
    work = {kind: complete_work(kind, dict(body[kind])) for kind in WORK_DEFAULTS if kind in body}
    if "tool" in work:
        scheduled.check_call(tx, tenant_id, work["tool"], request.headway.toolbox, request.headway.roles)
    return show(schedules.put(tx, tenant_id, request.get_name(), timing, work), request)


def complete_work(kind: str, fields: dict[str, Any]) -> Document:
    """Return the work of a schedule with all its fields. Raises Invalid if one is missing or unknown."""
    needed = {"goal": {"description"}, "message": {"conversation_id", "content"}, "tool": {"name"}}[kind]
    fields = WORK_DEFAULTS[kind] | fields
    if wrong := needed ^ set(fields) - set(WORK_DEFAULTS[kind]):
        raise Invalid(f"{kind}: {min(wrong)} is {'missing' if wrong & needed else 'unknown'}.")
    return fields


def show(schedule: Schedule, request: LocalRequest) -> Document:
    request.nudge()
    return {"schedule": schedule.as_json()}


def list_schedules(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return schedules.list_page(tx, tenant_id, check_limit(request.limit), request.cursor).as_json()


def get_schedule(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"schedule": schedules.get(tx, tenant_id, request.get_name()).as_json()}


def delete_schedule(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    schedules.remove(tx, tenant_id, request.get_name())
    return {"deleted": True}


def pause_schedule(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return show(schedules.pause(tx, tenant_id, request.get_name()), request)


def resume_schedule(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return show(schedules.resume(tx, tenant_id, request.get_name()), request)


def run_schedule(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return show(schedules.run_now(tx, tenant_id, request.get_name(), request.headway.settings.limits), request)


OPERATIONS: Final[dict[str, Operation]] = {
    "GET /agents": list_agents,
    "GET /agents/{}": get_agent,
    "POST /agents/{}/cancel": cancel_agent,
    "GET /agents/{}/steps": list_steps,
    "POST /agents/{}/messages": send_message,
    "GET /jobs": list_jobs,
    "GET /jobs/{}": get_job,
    "POST /jobs/{}/retry": retry_job,
    "POST /jobs/{}/cancel": cancel_job,
    "DELETE /jobs/{}": drop_job,
    "GET /schedules": list_schedules,
    "PUT /schedules/{}": put_schedule,
    "GET /schedules/{}": get_schedule,
    "DELETE /schedules/{}": delete_schedule,
    "POST /schedules/{}/pause": pause_schedule,
    "POST /schedules/{}/resume": resume_schedule,
    "POST /schedules/{}/run": run_schedule,
}
