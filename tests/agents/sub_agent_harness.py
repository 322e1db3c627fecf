"""Scripts for agents that delegate to each other, and views of their sub-agents.

with open_talk(url, tmp_path, by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=text("A hole."))) as talk:
    talk.say("Dig a hole.")
"""

import asyncio
import json
from itertools import count
from typing import Any

from headway.actions.engine import run_ends
from headway.actions.runs import jobs
from headway.agents.instructions.roles import BUILT_IN_ROLES
from headway.ledger.job import Job
from headway.ledger.run import Run
from headway.storage.stores import runs as run_store
from tests.agents.turn_harness import Talk
from tests.model_server import Call, Reply, Request, Script, call, calls, to_script

# Scripts for the model


def by_role(**parts: Script | Reply) -> Script:
    """Return a script that picks a part by the role of the requesting agent, which it reads from the instructions."""
    scripts = {name: to_script(part) for name, part in parts.items()}
    return lambda request: scripts[find_role(request)](request)


def find_role(request: Request) -> str:
    return next((role.name for role in BUILT_IN_ROLES if request.system.startswith(role.prompt)), "own")


def by_transcript(*replies: Reply | Script) -> Script:
    """Reply by the number of answers in the transcript: the first reply if there is none, the second if there is one, and so on."""

    def script(request: Request) -> Reply:
        reply = replies[request.assistant_turns]
        return reply if isinstance(reply, Reply) else reply(request)

    return script


def by_task(**parts: Script | Reply) -> Script:
    """Return a script that picks a part by the sub-agent's task, which is a single word."""
    scripts = {task: to_script(part) for task, part in parts.items()}
    return lambda request: scripts[get_task(request)](request)


def delegate_call(task: str, agent: str = "researcher", **more: Any) -> Reply:
    return calls(("delegate", {"agent": agent, "task": task, **more}))


def spawn_calls(*tasks: str, **more: Any) -> Reply:
    return calls(*(("spawn_agent", {"task": task, **more}) for task in tasks))


def await_calls(request: Request, **more: Any) -> Reply:
    """Wait for all spawned sub-agents."""
    return calls(*(("await_agent", {"run_id": run_id, **more}) for run_id in list_spawned_ids(request)))


def call_on_first(tool: str, **more: Any) -> Script:
    """Call a tool for the first spawned sub-agent."""
    return lambda request: calls((tool, {"run_id": list_spawned_ids(request)[0], **more}))


def list_spawned_ids(request: Request) -> list[str]:
    return [json.loads(result.content)["run_id"] for result in request.tool_results if result.name == "spawn_agent"]


def raw_call(tool: str, arguments: str) -> Call:
    return call(tool, raw_arguments=arguments)


# Contents of requests


def list_tool_answers(request: Request, tool: str) -> list[dict[str, Any]]:
    """Return the results of a tool so far."""
    return [json.loads(result.content) for result in request.tool_results if result.name == tool]


def get_first_message(request: Request) -> str:
    """Return the first user message of a sub-agent: its envelope and task."""
    return next(text for text, message in zip(request.texts, request.messages, strict=True) if message["role"] == "user")


def get_envelope(request: Request) -> list[str]:
    """Return the lines of the delegation envelope."""
    head, _, rest = get_first_message(request).partition("\n[END DELEGATION CONTEXT]")
    assert head.startswith("[DELEGATION CONTEXT]\n")
    assert rest
    return head.split("\n")[1:]


def get_task(request: Request) -> str:
    return get_first_message(request).split("[END DELEGATION CONTEXT]\n\n")[1].split("\n")[0]


def list_requests(talk: Talk, role: str) -> list[Request]:
    """Return the model requests made by agents with this role."""
    return [request for request in talk.server.requests if find_role(request) == role]


# Stored rows


def list_sub_agents(talk: Talk) -> dict[str, Run]:
    """Return the sub-agents by task."""
    rows = talk.database.read(lambda tx: run_store.list_run_page(tx, talk.tenant_id, None, 500))
    return {run.task: run for run in reversed(rows) if run.parent_run_id}


def get_job(talk: Talk, run: Run) -> Job:
    return talk.database.read(lambda tx: jobs.get_job(tx, talk.tenant_id, run.id))


def get_states(talk: Talk) -> dict[str, tuple[str, str]]:
    """Return the states of each sub-agent's run and job, by task."""
    return {task: (run.status, get_job(talk, run).state) for task, run in list_sub_agents(talk).items()}


def get_result(talk: Talk, task: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(list_sub_agents(talk)[task].result or "{}")
    return result


def cancel_turn(talk: Talk) -> None:
    """Cancel the turn as a surface does: store the cancellation, then interrupt the running jobs."""
    assert talk.run is not None
    turn_id = talk.run.turn_id or ""
    talk.headway.interrupt(talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn_id)))


# Actions


def hold_replies(talk: Talk, reply: Reply | Script, number: int = 1) -> Script:
    """Hold the replies to the first `number` requests until the model server is released. Other agents get their replies."""
    requests_seen = count()

    def script(request: Request) -> Reply:
        if next(requests_seen) < number:
            talk.server.hold()
        return to_script(reply)(request)

    return script


async def begin_and_wait(talk: Talk, role: str, number: int = 1) -> None:
    """Begin a turn and wait until agents with this role have made `number` requests."""
    await talk.begin()
    await talk.until(lambda: len(list_requests(talk, role)) >= number)


async def crash_process(talk: Talk) -> None:
    """Stop the process that runs all jobs, as in a crash, and expire its lease."""
    engine = talk.headway.engine
    tasks = [*engine.background, *engine.tasks.values()]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    talk.forget_leases()


def wait_for_end(talk: Talk) -> dict[str, Any]:
    """Wait until the turn has ended, and return it."""
    talk.wait(talk.until(lambda: bool(talk.turn()["ended_at"])))
    return talk.turn()
