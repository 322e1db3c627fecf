"""Agents, jobs and schedules."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from headway.ledger.job import check_schedule_name
from headway.library.transport import RequestTransport, drop_none, join_explanation
from headway.values.turns import SentMessage
from headway.values.value import Page, decode, decode_all, decode_page
from headway.values.work import Agent, AgentStep, Job, JobState, Schedule


class Agents:
    """Inspects, steers and cancels agents."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def list(
        self, *, turn_id: str | None = None, goal_id: int | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Agent]:
        """List the runs of agents, newest first: all, or only the runs of a turn or a goal."""
        query = drop_none(turn_id=turn_id, goal_id=goal_id, limit=limit, cursor=cursor)
        return decode_page(Agent, await self._transport.send("GET /agents", query=query), "agents")

    async def get(self, run_id: str) -> Agent:
        """Return a run of an agent, or raise NotFound."""
        return decode(Agent, (await self._transport.send("GET /agents/{}", run_id))["agent"])

    async def cancel(self, run_id: str) -> Agent:
        """Cancel a sub-agent and everything that it started."""
        return decode(Agent, (await self._transport.send("POST /agents/{}/cancel", run_id))["agent"])

    async def steps(self, run_id: str) -> AsyncIterator[AgentStep]:
        """Iterate over the answers of the agent's model with their tool calls, oldest first."""
        after: int | None = None
        while True:
            answer = await self._transport.send("GET /agents/{}/steps", run_id, query=drop_none(limit=100, after=after))
            for step in decode_all(AgentStep, answer["steps"]):
                yield step
            after = answer["next_after"]
            if after is None:
                return

    async def send_message(self, run_id: str, content: str) -> SentMessage:
        """Send a message to a running agent, which reads it at its next step."""
        answer = await self._transport.send("POST /agents/{}/messages", run_id, body={"content": content})
        return decode(SentMessage, answer["message"])


class Jobs:
    """Inspects and controls the jobs of the engine."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def list(
        self, *, state: JobState | None = None, kind: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Job]:
        """List jobs, newest first. Jobs in the state `dead` have failed for good."""
        return decode_page(
            Job,
            await self._transport.send("GET /jobs", query=drop_none(state=state, kind=kind, limit=limit, cursor=cursor)),
            "jobs",
        )

    async def get(self, job_id: str) -> Job:
        """Return a job, or raise NotFound."""
        return decode(Job, (await self._transport.send("GET /jobs/{}", job_id))["job"])

    async def why(self, job_id: str) -> str:
        """Explain how a job got into its current state, one event per line. The last line says what would change it."""
        return join_explanation(await self._transport.send("GET /why/job/{}", job_id))

    async def retry(self, job_id: str) -> Job:
        """Run a dead job again, or a delayed one now."""
        return decode(Job, (await self._transport.send("POST /jobs/{}/retry", job_id))["job"])

    async def cancel(self, job_id: str) -> Job:
        """Cancel a scheduled tool call, running or not yet started."""
        return decode(Job, (await self._transport.send("POST /jobs/{}/cancel", job_id))["job"])

    async def delete(self, job_id: str) -> None:
        """Drop a dead job."""
        await self._transport.send("DELETE /jobs/{}", job_id)


class Schedules:
    """Creates and controls schedules."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def put(
        self,
        name: str,
        *,
        cron: str | None = None,
        timezone: str = "UTC",
        every_s: float | None = None,
        goal: Mapping[str, Any] | None = None,
        message: Mapping[str, Any] | None = None,
        tool: Mapping[str, Any] | None = None,
    ) -> Schedule:
        """Create a schedule, or change the one with this name. It has `cron` or `every_s`, and one of three kinds of work:
        `goal` {description, success_criteria, priority}, `message` {conversation_id, content}, `tool` {name, arguments}."""
        body = drop_none(cron=cron, timezone=timezone, every_s=every_s, goal=goal, message=message, tool=tool)
        return decode(Schedule, (await self._transport.send("PUT /schedules/{}", check_schedule_name(name), body=body))["schedule"])

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[Schedule]:
        """List schedules by name."""
        answer = await self._transport.send("GET /schedules", query=drop_none(limit=limit, cursor=cursor))
        return decode_page(Schedule, answer, "schedules")

    async def get(self, name: str) -> Schedule:
        """Return a schedule, or raise NotFound."""
        return decode(Schedule, (await self._transport.send("GET /schedules/{}", check_schedule_name(name)))["schedule"])

    async def pause(self, name: str) -> Schedule:
        """Pause a schedule."""
        return await self._act("pause", name)

    async def resume(self, name: str) -> Schedule:
        """Resume a schedule from now on."""
        return await self._act("resume", name)

    async def run(self, name: str) -> Schedule:
        """Run a schedule once, now."""
        return await self._act("run", name)

    async def delete(self, name: str) -> None:
        """Delete a schedule."""
        await self._transport.send("DELETE /schedules/{}", check_schedule_name(name))

    async def _act(self, verb: str, name: str) -> Schedule:
        return decode(Schedule, (await self._transport.send(f"POST /schedules/{{}}/{verb}", check_schedule_name(name)))["schedule"])
