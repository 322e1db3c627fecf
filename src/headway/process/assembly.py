"""The composition root: builds a working Headway from settings."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack
from uuid import uuid4

from headway.actions.access import spending
from headway.actions.engine import run_ends
from headway.actions.inspection.forks import ForkRequest
from headway.actions.installation import tenants
from headway.actions.turns import turns
from headway.actions.turns.live_text import PartialAnswer
from headway.agents.forks import Forks
from headway.agents.instructions.roles import SUPERVISOR
from headway.agents.tools.execution import ResolvedScope
from headway.agents.tools.external_loop import ExternalLoop, resolve_loop_scope
from headway.agents.tools.programs.sandbox import probe
from headway.engine.engine import Engine
from headway.ledger.attachment import Attachment
from headway.ledger.errors import SettingsError, StorageError
from headway.ledger.events import encode_json
from headway.ledger.job import Job
from headway.ledger.run import Run, TurnMode
from headway.ledger.scope import Scope
from headway.ledger.tenancy import LOCAL_TENANT
from headway.ledger.todo import DEFAULT_AGENT
from headway.library.client import Client, DoorClient
from headway.process.host import Host
from headway.settings import SettingArguments, Settings, load_arguments
from headway.storage.retry import repeat_forever
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction, Work
from headway.values.turns import TurnReport

if TYPE_CHECKING:
    from headway.agents.loop.context import Runtime
    from headway.agents.tracing import Tracer
    from headway.engine.external import Dispatcher
    from headway.library.embedded import EmbeddedTransport
    from headway.webhooks import Sender, WebhookWatch


class Headway(Host, Client):
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
        self.tracer_provider: Any = (
            None  # where spans go; by default to the program's global provider, or the exporter of the settings
        )
        self.forks = Forks(lambda: self.runtime)
        self.warming: asyncio.Task[None] | None = None
        self.storing: set[asyncio.Task[None]] = set()  # interrupted answers
        self.webhook_watch: WebhookWatch | None = None
        self.watching: asyncio.Task[None] | None = None
        self.dispatch_secret = ""  # what the deliveries of an external dispatcher must know

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
        tracer_provider: Any = None,
        **settings: Unpack[SettingArguments],
    ) -> AsyncIterator[Self]:
        """Open a Headway inside a program and run it until the block ends. Unfinished work resumes when the next one opens.

        `tools` are functions marked with @tool. `models` are models that the caller built, by the names used in the settings. `mcp`
        are MCP servers, in the form of mcpServers in mcp.json. With `alone`, work only on what this process starts, not on
        schedules, goals or jobs of other processes. `tenant` is used by all methods that are not given another one; if it is in
        another cell, that cell's database is opened. `tracer_provider` is an OpenTelemetry provider for the spans of agents; the
        default is the one that the program has set globally. Other keyword arguments are settings, named like the environment
        variables in lower case (home="…", model="…", budget_usd=2). They override the environment.
        """
        loaded_settings = load_arguments(settings)
        if tenant is not None:
            from headway.cells.directory import find_settings  # noqa: PLC0415  few programs name a tenant

            loaded_settings = await asyncio.to_thread(find_settings, loaded_settings, tenant)
        if loaded_settings.commands:
            await asyncio.to_thread(probe)  # starts a process, which the event loop must not wait for
        headway = cls(loaded_settings, models, tools, mcp)
        headway.tenant = tenant or LOCAL_TENANT
        headway.tracer_provider = tracer_provider
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
            self.executor_id += worker_leases.ALONE_SUFFIX
        self.warming = asyncio.create_task(self._warm_up(alone=alone))

    async def _warm_up(self, *, alone: bool) -> None:
        if self.settings.dispatch and not alone:
            from headway.dispatch.opening import ensure_secret  # noqa: PLC0415  most installations do not need it

            self.dispatch_secret = await ensure_secret(self.database, self.settings.dispatch)
        self.engine.start(await asyncio.to_thread(self._load, alone=alone), alone=alone)
        if not alone:
            self._watch_webhooks()

    def _watch_webhooks(self) -> None:
        """Deliver to webhooks from now on."""
        from headway.webhooks import WebhookWatch  # noqa: PLC0415  only processes that run the jobs of others need it

        self.webhook_watch = WebhookWatch(self.database, self.nudge)
        self.watching = asyncio.create_task(repeat_forever(self.webhook_watch.step, "the watch for webhooks"))

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
            if self.watching:
                self.watching.cancel()
            await self.engine.stop()
            await asyncio.gather(*self.storing)
            self.webhook_sender.close()
            await self.runtime.models.close()
            await self.stop_tools()
            await asyncio.to_thread(self.tracer.close)

    @property
    def engine_alive(self) -> bool:
        """Whether jobs are being processed. Also true while the engine is still starting."""
        return self.warming is not None and (not self.warming.done() or self.engine.alive)

    @cached_property
    def engine(self) -> Engine:
        from headway.process.building import build_engine  # noqa: PLC0415

        return build_engine(self.settings, self.database, self.runtime, self.session, self.webhook_sender)

    @cached_property
    def webhook_sender(self) -> "Sender":
        from headway.webhooks import Sender  # noqa: PLC0415  loads OpenSSL

        return Sender(self.settings.webhook_hosts)

    @cached_property
    def dispatcher(self) -> "Dispatcher | None":
        """The external engine that dispatches jobs. None: Headway does it."""
        if not self.settings.dispatch:
            return None
        from headway.dispatch.opening import open_dispatcher  # noqa: PLC0415  an optional library

        return open_dispatcher(self.settings.dispatch, self.dispatch_secret)

    @cached_property
    def runtime(self) -> "Runtime":
        from headway.agents.loop.context import Runtime  # noqa: PLC0415
        from headway.process.building import build_models  # noqa: PLC0415

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

    def find_engine(self) -> Engine | None:
        """Return the engine, if this process has built it."""
        return self.engine if "engine" in vars(self) else None

    @cached_property
    def tracer(self) -> "Tracer":
        from headway.agents.tracing import build_tracer  # noqa: PLC0415

        exporter, captures_content = self.settings.traces
        return build_tracer(exporter, self.redact, captures_content=captures_content, provider=self.tracer_provider)

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
        mode: TurnMode | None = None,
        attachments: Sequence[Attachment] = (),
        continues: str = "",
    ) -> Job:
        """Create a turn whose job this process owns, as `begin_requested_turn` does."""
        request = turns.TurnRequest(content, mode, attachments=tuple(attachments), continues=continues)
        return self.begin_requested_turn(tx, tenant_id, conversation_id, request)

    def begin_requested_turn(self, tx: Transaction, tenant_id: int, conversation_id: int, request: turns.TurnRequest) -> Job:
        """Create a turn whose job this process owns. After the commit, the engine runs the job at once, ahead of every queue.

        With `continues`, it takes over the open todos of that turn. Raises AttachmentRefused if the model is known not to accept an
        attachment.
        """
        if request.attachments:
            self._check_readable(request)
        worker_leases.record_heartbeat(tx, self.executor_id)
        limits = self.settings.limits
        request = request._replace(limit=limits.iterations, attempts=limits.attempts, owner=self.executor_id)
        return turns.start_with_job(tx, tenant_id, conversation_id, request).job

    def _check_readable(self, request: turns.TurnRequest) -> None:
        from headway.agents.transcripts.transcript import check_readable  # noqa: PLC0415

        models, tier = self.runtime.models, self.roles.find(request.role).tier
        with suppress(SettingsError):  # the model cannot be built; the turn fails with the reason
            check_readable(models.names[tier], models.find(tier), request.attachments)

    async def start_job(self, begin: Work[Job]) -> Job:
        """Create a job and hand it to the engine. `begin` enters the tenant."""
        job = await self.database.write(begin)
        self.engine.take(job)
        return job

    async def run_to_end(self, begin: Work[Job]) -> Job:
        """Start a job, run it and wait for its end. Canceling the wait does not cancel the job. `begin` enters the tenant."""

        async def all_the_way() -> Job:
            job = await self.start_job(begin)
            await self.engine.ended(job.id)
            return job

        task = asyncio.create_task(all_the_way())
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # the caller may have stopped waiting
        return await asyncio.shield(task)

    # The API for programs that embed Headway

    @cached_property
    def transport(self) -> "EmbeddedTransport":
        """Where the library's requests go: to the actions, for the tenant that this Headway was opened for."""
        from headway.library.embedded import EmbeddedTransport  # noqa: PLC0415  commands and servers do not need it

        return EmbeddedTransport(self, self.tenant)

    def as_caller(self, *, tenant: str | None = None, actor: str = "library") -> Client:
        """Return the library's methods for another tenant, or for a person or program whose name its changes are recorded under."""
        from headway.library.embedded import EmbeddedTransport  # noqa: PLC0415

        return DoorClient(EmbeddedTransport(self, tenant or self.tenant, actor))

    async def ask(
        self,
        content: str,
        conversation: int | str | None = None,
        *,
        mode: TurnMode | None = None,
        attachments: Iterable[Path | str | bytes] = (),
        continues: str = "",
        tenant: str | None = None,
    ) -> TurnReport:
        """Have an agent answer a message, and return a report of the turn. Raises TurnFailed if the turn failed.

        `conversation` is an id, or a key of your choice; a conversation is opened for a new key. `mode` is plan (the default) or
        queue. `tenant` is another tenant than that of this Headway.
        """
        options: dict[str, Any] = {"mode": mode, "attachments": attachments, "continues": continues}
        if tenant is not None:
            return await self.as_caller(tenant=tenant).ask(content, conversation, **options)
        return await super().ask(content, conversation, **options)

    async def fork(self, turn_id: str, request: ForkRequest, *, tenant: str | None = None) -> TurnReport:
        """Fork a turn at one of its steps, and return a report of the fork when it has ended, like `ask`."""
        await self.agents_ready()
        checked = self.forks.check(request)
        name = tenant or self.tenant
        job = await self.run_to_end(lambda tx: self.forks.begin(tx, tenants.resolve(tx, name).id, turn_id, checked))
        return await self.as_caller(tenant=name).turns.report(turns.get_turn_id(job))

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

        def enter(tx: Transaction) -> ResolvedScope:
            return resolve_loop_scope(
                tx, Scope(tenants.resolve(tx, tenant or self.tenant).id, turn_id=turn, agent_id=agent), conversation
            )

        return ExternalLoop.of(self.toolbox, self.execution(await self.database.write(enter), found_role), self.checks)

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
            answer = self.live_text.finish(run.id)
            if self.text_relay:
                self.text_relay.finish(run)
            if answer and data.get("interrupted"):
                storing = asyncio.create_task(self._store_stopped(run, answer))
                self.storing.add(storing)
                storing.add_done_callback(self.storing.discard)
            return
        self.live_text.hear(run.id, data)
        if self.text_relay:
            self.text_relay.stream(run, data)
        document = encode_json({"turn_id": run.turn_id, "run_id": run.id, **data})
        self.feed.broadcast(run.tenant_id, run.conversation_id, run.turn_id, "text_delta", document)

    async def _store_stopped(self, run: Run, answer: PartialAnswer) -> None:
        """Store what was said of an interrupted answer, if its turn was canceled by a process that did not have the text."""
        with suppress(StorageError):  # lost, like the text of a process that dies
            await self.database.of(run.tenant_id).write(lambda tx: run_ends.store_stopped(tx, run, answer))

    def _on_commit(self, tenants: frozenset[int]) -> None:
        super()._on_commit(tenants)
        if self.webhook_watch:
            self.webhook_watch.notify_commit(tenants)

    def _on_jobs(self) -> None:
        """Wake the engine, because another process may have made a job due."""
        if "engine" in vars(self) and self.feed.loop is not None and not self.feed.loop.is_closed():
            self.feed.loop.call_soon_threadsafe(self.engine.nudge)
