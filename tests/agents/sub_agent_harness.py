"""Scripts for agents that delegate to each other, and views of the sub-agents.

with open_talk(url, tmp_path, by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=text("A hole."))) as talk:
    talk.say("Dig a hole.")
"""

import asyncio
import json
from itertools import count
from typing import Any

from headway.actions import jobs, turns
from headway.agents.roles import BUILT_IN_ROLES
from headway.ledger.job import Job
from headway.ledger.run import Run
from headway.storage.stores import runs as run_store
from tests.agents.turn_harness import Talk
from tests.model_server import Call, Reply, Request, Script, call, calls, to_script

# What is said


def by_role(**parts: Script | Reply) -> Script:
    """A part for every role that is met; who speaks is seen by its instructions."""
    scripts = {name: to_script(part) for name, part in parts.items()}
    return lambda request: scripts[find_role(request)](request)


def find_role(request: Request) -> str:
    return next((role.name for role in BUILT_IN_ROLES if request.system.startswith(role.prompt)), "own")


def by_transcript(*replies: Reply | Script) -> Script:
    """The first reply to a transcript without an answer, the second to one with one answer, and so on."""

    def script(request: Request) -> Reply:
        reply = replies[request.assistant_turns]
        return reply if isinstance(reply, Reply) else reply(request)

    return script


def by_task(**parts: Script | Reply) -> Script:
    """A part for every task: the word that it consists of."""
    scripts = {task: to_script(part) for task, part in parts.items()}
    return lambda request: scripts[get_task(request)](request)


def delegate_call(task: str, agent: str = "researcher", **more: Any) -> Reply:
    return calls(("delegate", {"agent": agent, "task": task, **more}))


def spawn_calls(*tasks: str, **more: Any) -> Reply:
    return calls(*(("spawn_agent", {"task": task, **more}) for task in tasks))


def await_calls(request: Request, **more: Any) -> Reply:
    """Wait for all that were spawned."""
    return calls(*(("await_agent", {"run_id": run_id, **more}) for run_id in list_spawned_ids(request)))


def call_on_first(tool: str, **more: Any) -> Script:
    """Call it for the first that was spawned."""
    return lambda request: calls((tool, {"run_id": list_spawned_ids(request)[0], **more}))


def list_spawned_ids(request: Request) -> list[str]:
    return [json.loads(one.content)["run_id"] for one in request.tool_results if one.name == "spawn_agent"]


def raw_call(tool: str, arguments: str) -> Call:
    return call(tool, raw_arguments=arguments)


# What is heard


def list_tool_answers(request: Request, tool: str) -> list[dict[str, Any]]:
    """What a tool has answered so far."""
    return [json.loads(one.content) for one in request.tool_results if one.name == tool]


def get_first_message(request: Request) -> str:
    """What a sub-agent was handed: the one message it begins with."""
    return next(text for text, message in zip(request.texts, request.messages, strict=True) if message["role"] == "user")


def get_envelope(request: Request) -> list[str]:
    """The lines of its envelope."""
    head, _, rest = get_first_message(request).partition("\n[END DELEGATION CONTEXT]")
    assert head.startswith("[DELEGATION CONTEXT]\n")
    assert rest
    return head.split("\n")[1:]


def get_task(request: Request) -> str:
    return get_first_message(request).split("[END DELEGATION CONTEXT]\n\n")[1].split("\n")[0]


def list_requests(talk: Talk, role: str) -> list[Request]:
    """What was asked of those that have the role."""
    return [request for request in talk.server.requests if find_role(request) == role]


# What is stored


def list_sub_agents(talk: Talk) -> dict[str, Run]:
    """By their task."""
    rows = talk.database.read(lambda tx: run_store.list_page(tx, talk.tenant_id, None, 500))
    return {run.task: run for run in reversed(rows) if run.parent_run_id}


def get_job(talk: Talk, run: Run) -> Job:
    return talk.database.read(lambda tx: jobs.get(tx, talk.tenant_id, run.id))


def get_states(talk: Talk) -> dict[str, tuple[str, str]]:
    """The state of every sub-agent and of its job, by its task."""
    return {task: (run.status, get_job(talk, run).state) for task, run in list_sub_agents(talk).items()}


def get_result(talk: Talk, task: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(list_sub_agents(talk)[task].result or "{}")
    return found


def cancel_turn(talk: Talk) -> None:
    """What a door does: write it down, then wake up whoever waits."""
    assert talk.run is not None
    turn_id = talk.run.turn_id or ""
    talk.headway.interrupt(talk.database.write(lambda tx: turns.cancel(tx, talk.tenant_id, turn_id)))


# What happens


def hold_replies(talk: Talk, reply: Reply | Script) -> Script:
    """From here on the model keeps its replies back, until it is released once."""
    met = count()

    def script(request: Request) -> Reply:
        if not next(met):
            talk.server.hold()
        return to_script(reply)(request)

    return script


async def begin_and_wait(talk: Talk, role: str, number: int = 1) -> None:
    """Until those that have the role were asked so often."""
    await talk.begin()
    await talk.until(lambda: len(list_requests(talk, role)) >= number)


async def crash_process(talk: Talk) -> None:
    """The process that works on everything is no more, and nobody has heard of it for a while."""
    engine = talk.headway.engine
    tasks = [*engine.background, *engine.tasks.values()]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    talk.forget_leases()


def wait_for_end(talk: Talk) -> dict[str, Any]:
    """The turn, as soon as it has ended."""
    talk.wait(talk.until(lambda: bool(talk.turn()["ended_at"])))
    return talk.turn()
