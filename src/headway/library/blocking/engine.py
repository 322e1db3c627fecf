"""Methods without `await`. Written by scripts/write_sync_library.py from namespaces/engine.py."""

from collections.abc import Iterator, Mapping
from typing import Any

from headway.library.namespaces import engine
from headway.library.portal import Portal
from headway.values.turns import SentMessage
from headway.values.value import Page
from headway.values.work import Agent, AgentStep, Job, JobState, Schedule


class SyncAgents:
    """Inspects, steers and cancels agents."""

    def __init__(self, portal: Portal, source: engine.Agents) -> None:
        self._portal = portal
        self._source = source

    def list(
        self, *, turn_id: str | None = None, goal_id: int | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Agent]:
        """List the runs of agents, newest first: all, or those of a turn or a goal."""
        return self._portal.run(self._source.list(turn_id=turn_id, goal_id=goal_id, limit=limit, cursor=cursor))

    def get(self, run_id: str) -> Agent:
        """Return a run of an agent, or raise NotFound."""
        return self._portal.run(self._source.get(run_id))

    def cancel(self, run_id: str) -> Agent:
        """Cancel a sub-agent and everything that it started."""
        return self._portal.run(self._source.cancel(run_id))

    def steps(self, run_id: str) -> Iterator[AgentStep]:
        """Iterate over the answers of the agent's model with their tool calls, oldest first."""
        return self._portal.iterate(self._source.steps(run_id))

    def send_message(self, run_id: str, content: str) -> SentMessage:
        """Send a message to a running agent, which reads it at its next step."""
        return self._portal.run(self._source.send_message(run_id, content))


class SyncJobs:
    """Inspects and controls the jobs of the engine."""

    def __init__(self, portal: Portal, source: engine.Jobs) -> None:
        self._portal = portal
        self._source = source

    def list(
        self, *, state: JobState | None = None, kind: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Job]:
        """List jobs, newest first. Those in the state `dead` have failed for good."""
        return self._portal.run(self._source.list(state=state, kind=kind, limit=limit, cursor=cursor))

    def get(self, job_id: str) -> Job:
        """Return a job, or raise NotFound."""
        return self._portal.run(self._source.get(job_id))

    def retry(self, job_id: str) -> Job:
        """Run a dead job again, or a delayed one now."""
        return self._portal.run(self._source.retry(job_id))

    def cancel(self, job_id: str) -> Job:
        """Cancel a scheduled tool call, running or not yet started."""
        return self._portal.run(self._source.cancel(job_id))

    def delete(self, job_id: str) -> None:
        """Drop a dead job."""
        return self._portal.run(self._source.delete(job_id))


class SyncSchedules:
    """Creates and controls schedules."""

    def __init__(self, portal: Portal, source: engine.Schedules) -> None:
        self._portal = portal
        self._source = source

    def put(
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
        return self._portal.run(
            self._source.put(name, cron=cron, timezone=timezone, every_s=every_s, goal=goal, message=message, tool=tool)
        )

    def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[Schedule]:
        """List schedules by name."""
        return self._portal.run(self._source.list(limit=limit, cursor=cursor))

    def get(self, name: str) -> Schedule:
        """Return a schedule, or raise NotFound."""
        return self._portal.run(self._source.get(name))

    def pause(self, name: str) -> Schedule:
        """Pause a schedule."""
        return self._portal.run(self._source.pause(name))

    def resume(self, name: str) -> Schedule:
        """Resume a schedule from now on."""
        return self._portal.run(self._source.resume(name))

    def run(self, name: str) -> Schedule:
        """Run a schedule once, now."""
        return self._portal.run(self._source.run(name))

    def delete(self, name: str) -> None:
        """Delete a schedule."""
        return self._portal.run(self._source.delete(name))
