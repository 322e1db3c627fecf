"""The composition root: builds a working Headway from settings."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from headway.actions import conversations, spending, turns
from headway.actions.access import tenants
from headway.actions.inspection.forks import ForkRequest
from headway.actions.people import steering
from headway.agents.forks import Forks
from headway.agents.instructions.roles import SUPERVISOR
from headway.agents.people import People
from headway.agents.tools.execution import ResolvedScope
from headway.agents.tools.external_loop import ExternalLoop, place_loop
from headway.agents.tools.programs.sandbox import probe
from headway.engine.engine import Engine
from headway.host import Host
from headway.ledger.attachment import Attachment, build_attachment
from headway.ledger.errors import SettingsError
from headway.ledger.events import encode_json
from headway.ledger.job import Job
from headway.ledger.run import Run, TurnMode
from headway.ledger.scope import Scope
from headway.ledger.tenancy import LOCAL_TENANT
from headway.ledger.todo import DEFAULT_AGENT
from headway.settings import Settings, load
from headway.storage.attachment_files import read_attachment
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction, Work, within_tenant

if TYPE_CHECKING:
    from headway.agents.loop.context import Runtime
    from headway.agents.tracing import Tracer
    from headway.engine.port import Dispatcher


class Headway(Host):
    """A running Headway: the database with its threads, the live feed, and the engine that runs agents.

    Must be started on an event loop.
    """

    def __init__(
        self,
        settings: Settings,
        models: Mapping[str, Any] | None = None,
        tools: Iterable[Callable[..., Any]] = (),
        mcp: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(settings, tools, mcp)
        self.models_by_name = models or {}  # models that the settings name and that are missing here are built
        self.tenant = LOCAL_TENANT  # of calls that name no other one
        self.people = People(self.database, self.permission, self.nudge, lambda: self.tenant)
        self.forks = Forks(lambda: self.runtime)
        self.warming: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        tools: Iterable[Callable[..., Any]] = (),
        models: Mapping[str, Any] | None = None,
        mcp: Mapping[str, Any] | None = None,
        alone: bool = False,
        tenant: str | None = None,
        **settings: str | int | float | Path | None,
    ) -> AsyncIterator[Self]:
        """Open a Headway inside a program and run it until the block ends. Unfinished work resumes when the next one opens.

        `tools` are functions marked with @tool. `models` are models that the caller built, by the names used in the settings. `mcp`
        are MCP servers, in the form of mcpServers in mcp.json. With `alone`, work only on what this process starts, not on
        schedules or on jobs of other processes. `tenant` is used by all methods that are not given another one; if it is in another
        cell, that cell's database is opened. Other keyword arguments are settings, named like the environment variables in
        lower case (home="…", model="…", budget_usd=2). They override the environment.
        """
        loaded_settings = load({name: None if value is None else str(value) for name, value in settings.items()})
        if tenant is not None:
            from headway.cells.whereabouts import find_settings  # noqa: PLC0415  few programs name a tenant

            loaded_settings = await asyncio.to_thread(find_settings, loaded_settings, tenant)
        if loaded_settings.commands:
            await asyncio.to_thread(probe)  # starts a process, which the event loop must not wait for
        headway = cls(loaded_settings, models, tools, mcp)
        headway.tenant = tenant or LOCAL_TENANT
        try:
            headway.start()
            headway.start_agents(alone=alone)
            await headway.agents_ready()
            try:
                yield headway
            finally:
                await headway.stop_agents()
        finally:
            headway.close()

    # The model layer takes a second to import, so it is imported only where it is needed.

    def start_agents(self, *, alone: bool = False) -> None:
        """Load the model layer in the background, then start the engine. With `alone`, run only jobs that this process starts."""
        if alone:
            self.executor_id += job_store.ALONE_SUFFIX
        self.warming = asyncio.create_task(self._warm_up(alone=alone))

    async def _warm_up(self, *, alone: bool) -> None:
        self.engine.start(await asyncio.to_thread(self._load, alone=alone), alone=alone)

    def _load(self, *, alone: bool) -> "Dispatcher | None":
        probe()  # starts a process, which no transaction should wait for
        self.runtime.models.preload()
        return None if alone else self.dispatcher

    async def agents_ready(self) -> None:
        """Wait until the model layer is loaded and the engine has started."""
        assert self.warming is not None, "call start_agents first"
        await asyncio.shield(self.warming)

    async def stop_agents(self) -> None:
        """Stop the engine. Jobs in progress stay in the database and resume in the next process."""
        if self.warming:
            await self.agents_ready()
            await self.engine.stop()
            await self.runtime.models.close()
            await self.stop_tools()
            await asyncio.to_thread(self.tracer.close)

    @property
    def engine_alive(self) -> bool:
        """Whether jobs are being processed. Also true while the engine is still starting."""
        return self.warming is not None and (not self.warming.done() or self.engine.alive)

    @cached_property
    def engine(self) -> Engine:
        from headway.building import build_engine  # noqa: PLC0415

        return build_engine(self.settings, self.database, self.runtime, self.session)

    @cached_property
    def dispatcher(self) -> "Dispatcher | None":
        """The external engine that dispatches jobs. None: Headway does it."""
        if not self.settings.dispatch:
            return None
        from headway.dispatch.opening import open_dispatcher  # noqa: PLC0415  an optional library

        return open_dispatcher(self.settings.dispatch)

    @cached_property
    def runtime(self) -> "Runtime":
        from headway.agents.loop.context import Runtime  # noqa: PLC0415
        from headway.building import build_models  # noqa: PLC0415

        settings = self.settings
        models = build_models(settings, self.models_by_name, self.tracer, self.redact)
        return Runtime(
            self.database,
            models,
            self.toolbox,
            self.roles,
            settings.limits,
            settings.goals,
            self.executor_id,
            self.execution,
            self._stream_text,
            self.prepare_tools,
            self.nudge,
            self.checks,
            self.tracer,
            settings.worktrees,
        )

    @cached_property
    def unpriced_models(self) -> list[str]:
        """The configured models without a known price. Their calls are counted as $0, so no budget stops them."""
        models = self.runtime.models
        return models.prices.list_unpriced(self.settings.model_names)

    def list_model_totals(self) -> list[dict[str, Any]]:
        """List the totals of the model calls that this process has made, by model."""
        totals = self.runtime.models.totals.values() if "runtime" in vars(self) else ()
        return [spending.encode_total("model", total) for total in totals]

    def list_job_totals(self) -> dict[tuple[str, str], int]:
        """Count the jobs that have ended in this process, by kind and state."""
        return dict(self.engine.runner.ended_jobs) if "engine" in vars(self) else {}

    def count_running_jobs(self) -> int:
        """Count the jobs that run in this process."""
        return self.engine.runner.running.total() if "engine" in vars(self) else 0

    @cached_property
    def tracer(self) -> "Tracer":
        from headway.agents.tracing import build_tracer  # noqa: PLC0415

        exporter, captures_content = self.settings.traces
        return build_tracer(exporter, self.redact, captures_content=captures_content)

    @cached_property
    def executor_id(self) -> str:
        """This process's name among the job owners."""
        return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"

    def begin_turn(
        self,
        tx: Transaction,
        tenant_id: int,
        conversation_id: int,
        content: str,
        mode: TurnMode = "plan",
        attachments: Sequence[Attachment] = (),
    ) -> Job:
        """Create a turn whose job this process owns. After the commit, the engine runs the job at once, ahead of every queue.

        Raises AttachmentRefused if the model is known not to accept an attachment.
        """
        if attachments:
            self._check_readable(attachments)
        job_store.record_heartbeat(tx, self.executor_id)
        limits = self.settings.limits
        request = turns.TurnRequest(
            content,
            mode,
            limit=limits.iterations,
            attempts=limits.attempts,
            owner=self.executor_id,
            attachments=tuple(attachments),
        )
        return turns.start_with_job(tx, tenant_id, conversation_id, request).job

    def _check_readable(self, attachments: Sequence[Attachment]) -> None:
        from headway.agents.transcripts.attachments import check_readable  # noqa: PLC0415

        models, tier = self.runtime.models, self.roles.find(SUPERVISOR).tier
        with suppress(SettingsError):  # the model cannot be built; the turn fails with the reason
            check_readable(models.names[tier], models.find(tier), attachments)

    async def run_turn(self, tenant_id: int, conversation_id: int, content: str, mode: TurnMode = "plan") -> dict[str, Any]:
        """Answer a message in a conversation and return the ended turn."""
        await self.agents_ready()

        def begin(tx: Transaction) -> Job:
            return self.begin_turn(tx, tenant_id, conversation_id, content, mode)

        job = await self._run_to_end(within_tenant(tenant_id, begin))
        return await self.database.of(tenant_id).read(
            lambda tx: turns.show(tx, tenant_id, turns.get_turn_id(job), self.settings.limits)
        )

    async def _run_to_end(self, begin: Work[Job]) -> Job:
        """Start a job, run it and wait for its end. Canceling the wait does not cancel the job. `begin` enters the tenant."""

        async def all_the_way() -> Job:
            job = await self.database.write(begin)
            self.engine.take(job)
            await self.engine.ended(job.id)
            return job

        task = asyncio.create_task(all_the_way())
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # the caller may have stopped waiting
        return await asyncio.shield(task)

    # The API for programs that embed Headway

    async def ask(
        self,
        content: str,
        conversation: int | str | None = None,
        *,
        mode: TurnMode = "plan",
        attachments: Iterable[Path | bytes] = (),
        tenant: str | None = None,
    ) -> turns.TurnReport:
        """Have an agent answer a message, and return a report of the turn.

        Raises TurnFailed if the turn failed. Canceling the call does not stop the turn. `conversation` is an id, or a key of your
        choice; a conversation is opened for a new key. `attachments` are files or their contents: images, PDFs or text.
        """
        files = [
            build_attachment(f"file {n}", source) if isinstance(source, bytes) else await asyncio.to_thread(read_attachment, source)
            for n, source in enumerate(attachments, 1)
        ]
        await self.agents_ready()

        def begin(tx: Transaction) -> Job:
            tenant_id = tenants.resolve(tx, tenant or self.tenant).id
            return self.begin_turn(tx, tenant_id, conversations.ensure(tx, tenant_id, conversation).id, content, mode, files)

        job = await self._run_to_end(begin)
        return await self.database.of(job.tenant_id).read(lambda tx: turns.get_report(tx, job.tenant_id, turns.get_turn_id(job)))

    async def fork(self, turn_id: str, request: ForkRequest, *, tenant: str | None = None) -> turns.TurnReport:
        """Fork a turn at one of its steps, and return a report of the fork when it has ended, like `ask`."""
        await self.agents_ready()
        checked = self.forks.check(request)
        job = await self._run_to_end(
            lambda tx: self.forks.begin(tx, tenants.resolve(tx, tenant or self.tenant).id, turn_id, checked)
        )
        return await self.database.of(job.tenant_id).read(lambda tx: turns.get_report(tx, job.tenant_id, turns.get_turn_id(job)))

    async def send_message(self, content: str, conversation: int | str, *, tenant: str | None = None) -> None:
        """Send a message to the turn that runs in a conversation, or raise Conflict. Its agent reads it at its next step."""

        await self.database.write(
            lambda tx: steering.send_to_conversation(
                tx, tenants.resolve(tx, tenant or self.tenant).id, conversation, content, "library"
            )
        )

    async def own_loop(
        self,
        conversation: int | str | None = None,
        *,
        turn: str | None = None,
        role: str = SUPERVISOR,
        agent: str = DEFAULT_AGENT,
        tenant: str | None = None,
    ) -> ExternalLoop:
        """Return Headway's tools for an agent loop that you drive yourself, on the plan of the given turn or of a new one."""
        found_role = self.roles.find(role)

        def place(tx: Transaction) -> ResolvedScope:
            return place_loop(tx, Scope(tenants.resolve(tx, tenant or self.tenant).id, turn_id=turn, agent_id=agent), conversation)

        return ExternalLoop.of(self.toolbox, self.execution(await self.database.write(place), found_role), self.checks)

    def interrupt(self, run_ids: Iterable[str]) -> None:
        """Interrupt canceled runs of this process, so that they stop waiting for models and tools."""
        for run_id in run_ids:
            self.engine.interrupt(run_id)

    def nudge(self) -> None:
        """Wake the engine, because there may be a job to run."""
        self.engine.nudge()

    def _stream_text(self, run: Run, data: dict[str, Any]) -> None:
        if not run.answers_turn:
            return  # only the turn's main agent is streamed to users
        if data.get("end"):
            self.live_text.finish(run.id)
            if self.text_relay:
                self.text_relay.finish(run)
            return
        self.live_text.hear(run.id, data)
        if self.text_relay:
            self.text_relay.stream(run, data)
        document = encode_json({"turn_id": run.turn_id, "run_id": run.id, **data})
        self.feed.broadcast(run.tenant_id, run.conversation_id, run.turn_id, "text_delta", document)

    def _on_jobs(self) -> None:
        """Wake the engine, because another process may have made a job due."""
        if "engine" in vars(self) and self.feed.loop is not None and not self.feed.loop.is_closed():
            self.feed.loop.call_soon_threadsafe(self.engine.nudge)
