"""Agents that hand work to each other: who says what, and ways to look at those that were handed something.

with talking(url, tmp_path, cast(index=said(delegated("dig"), text("Dug.")), researcher=text("A hole."))) as talk:
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
from tests.agents.turning import Talk
from tests.model_server import Call, Reply, Request, Script, call, calls, scripted

# What is said


def cast(**parts: Script | Reply) -> Script:
    """A part for every role that is met; who speaks is seen by its instructions."""
    scripts = {name: scripted(part) for name, part in parts.items()}
    return lambda request: scripts[speaker(request)](request)


def speaker(request: Request) -> str:
    return next((role.name for role in BUILT_IN_ROLES if request.system.startswith(role.prompt)), "own")


def said(*replies: Reply | Script) -> Script:
    """The first reply to a transcript without an answer, the second to one with one answer, and so on."""

    def script(request: Request) -> Reply:
        reply = replies[request.assistant_turns]
        return reply if isinstance(reply, Reply) else reply(request)

    return script


def by_task(**parts: Script | Reply) -> Script:
    """A part for every task: the word that it consists of."""
    scripts = {task: scripted(part) for task, part in parts.items()}
    return lambda request: scripts[task_of(request)](request)


def delegated(task: str, agent: str = "researcher", **more: Any) -> Reply:
    return calls(("delegate", {"agent": agent, "task": task, **more}))


def spawned(*tasks: str, **more: Any) -> Reply:
    return calls(*(("spawn_agent", {"task": task, **more}) for task in tasks))


def awaited(request: Request, **more: Any) -> Reply:
    """Wait for all that were spawned."""
    return calls(*(("await_agent", {"run_id": run_id, **more}) for run_id in spawned_ids(request)))


def of_first(tool: str, **more: Any) -> Script:
    """Call it for the first that was spawned."""
    return lambda request: calls((tool, {"run_id": spawned_ids(request)[0], **more}))


def spawned_ids(request: Request) -> list[str]:
    return [json.loads(one.content)["run_id"] for one in request.tool_results if one.name == "spawn_agent"]


def raw(tool: str, arguments: str) -> Call:
    return call(tool, raw_arguments=arguments)


# What is heard


def answered(request: Request, tool: str) -> list[dict[str, Any]]:
    """What a tool has answered so far."""
    return [json.loads(one.content) for one in request.tool_results if one.name == tool]


def handed(request: Request) -> str:
    """What a sub-agent was handed: the one message it begins with."""
    return next(text for text, message in zip(request.texts, request.messages, strict=True) if message["role"] == "user")


def envelope_of(request: Request) -> list[str]:
    """The lines of its envelope."""
    head, _, rest = handed(request).partition("\n[END DELEGATION CONTEXT]")
    assert head.startswith("[DELEGATION CONTEXT]\n")
    assert rest
    return head.split("\n")[1:]


def task_of(request: Request) -> str:
    return handed(request).split("[END DELEGATION CONTEXT]\n\n")[1].split("\n")[0]


def asked(talk: Talk, role: str) -> list[Request]:
    """What was asked of those that have the role."""
    return [request for request in talk.server.requests if speaker(request) == role]


# What is stored


def sub_agents(talk: Talk) -> dict[str, Run]:
    """By their task."""
    rows = talk.database.read(lambda tx: run_store.list_page(tx, talk.tenant_id, None, 500))
    return {run.task: run for run in reversed(rows) if run.parent_run_id}


def job_of(talk: Talk, run: Run) -> Job:
    return talk.database.read(lambda tx: jobs.get(tx, talk.tenant_id, run.id))


def states(talk: Talk) -> dict[str, tuple[str, str]]:
    """The state of every sub-agent and of its job, by its task."""
    return {task: (run.status, job_of(talk, run).state) for task, run in sub_agents(talk).items()}


def result_of(talk: Talk, task: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sub_agents(talk)[task].result or "{}")
    return found


def cancel_turn(talk: Talk) -> None:
    """What a door does: write it down, then wake up whoever waits."""
    assert talk.run is not None
    turn_id = talk.run.turn_id or ""
    talk.headway.interrupt(talk.database.write(lambda tx: turns.cancel(tx, talk.tenant_id, turn_id)))


# What happens


def holding(talk: Talk, reply: Reply | Script) -> Script:
    """From here on the model keeps its replies back, until it is released once."""
    met = count()

    def script(request: Request) -> Reply:
        if not next(met):
            talk.server.hold()
        return scripted(reply)(request)

    return script


async def begun(talk: Talk, role: str, number: int = 1) -> None:
    """Until those that have the role were asked so often."""
    await talk.begin()
    await talk.until(lambda: len(asked(talk, role)) >= number)


async def die(talk: Talk) -> None:
    """The process that works on everything is no more, and nobody has heard of it for a while."""
    engine = talk.headway.engine
    tasks = [*engine.background, *engine.tasks.values()]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    talk.forget_leases()


def over(talk: Talk) -> dict[str, Any]:
    """The turn, as soon as it has ended."""
    talk.wait(talk.until(lambda: bool(talk.turn()["ended_at"])))
    return talk.turn()
