"""A process of Headway without models. process/building.py adds the models and the engine when agents start."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.actions.access import audit
from headway.actions.turns.live_text import LiveText
from headway.agents.checks.runner import CheckRunner
from headway.agents.instructions import role_files
from headway.agents.instructions.roles import REMOTE_FAMILIES, ROLE_FOLDER, Role, Roles
from headway.agents.instructions.skills import SkillFolders
from headway.agents.mcp.config import FILE_NAME as MCP_FILE_NAME
from headway.agents.mcp.config import READY_TIMEOUT_S, load_servers
from headway.agents.permission import Permission
from headway.agents.policy_file import PolicyFile
from headway.agents.tools import catalogue
from headway.agents.tools.builtin import ExternalAccess
from headway.agents.tools.execution import Execution, ResolvedScope
from headway.extras import require_extra
from headway.feed import Feed
from headway.ledger.permission import FILE_NAME as POLICY_FILE_NAME
from headway.process.housekeeping import Housekeeping
from headway.settings import Settings, get_environment
from headway.settings.redaction import build_redactor
from headway.storage.database import Database
from headway.storage.direct import create_home, is_sqlite
from headway.storage.retry import repeat_forever
from headway.storage.server_session import ServerSession

if TYPE_CHECKING:
    from headway.agents.mcp.tools import McpServers


class Host:
    """The parts that need no model. Must be started on an event loop."""

    def __init__(
        self,
        settings: Settings,
        tools: Iterable[Callable[..., Any]] = (),
        mcp: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = settings
        with suppress(OSError):  # a process on Postgres may do without
            create_home(settings.home)
        self.mcp_configs = load_servers(Path(settings.home, MCP_FILE_NAME), get_environment(), mcp)
        check_extras(settings, has_mcp=bool(self.mcp_configs))
        self.redact = build_redactor(settings, *(secret for config in self.mcp_configs for secret in config.secrets))
        access = ExternalAccess(settings.http_allow, settings.commands, settings.sandbox)
        self.toolbox = catalogue.build_toolbox(access, Path(settings.home, "tools"), tools)
        self.checks = CheckRunner(access, self.toolbox)
        self.policy = PolicyFile(os.path.join(settings.home, POLICY_FILE_NAME))
        self.permission = Permission(self.policy, self.toolbox, settings.get_workspace)
        self.remote_tools = self.toolbox.only(REMOTE_FAMILIES)
        self.skills = SkillFolders(settings.home)
        self.roles = Roles(role_files.load(Path(settings.home, ROLE_FOLDER), self.toolbox.tools))
        direct_url = settings.database_direct_url
        self.database = Database(settings.database_url, on_commit=self._on_commit, quotas=settings.quotas, direct_url=direct_url)
        self.session = ServerSession()
        self.feed = Feed(self.database, self.session, per_tenant=settings.quotas.streams)
        self.housekeeping: asyncio.Task[None] | None = None
        self.policy_recording: asyncio.Task[None] | None = None
        self.policy_changed = asyncio.Event()
        self.live_text = LiveText()
        self.announcements = self.notifications = self.text_relay = None
        if not is_sqlite(settings.database_url):
            from headway.storage.postgres.announcements import AnnouncementListener, NotificationSender  # noqa: PLC0415  SQLite users never load psycopg
            from headway.text_relay import TextRelay  # noqa: PLC0415

            self.notifications = NotificationSender(settings.database_url)
            self.text_relay = TextRelay(self.feed, self.live_text, self.notifications.send)
            urls = settings.database_url, settings.database_direct_url
            self.announcements = AnnouncementListener(
                *urls, self._on_commit, self.session, self.database.source, self.text_relay, self._on_jobs
            )

    def start(self) -> None:
        """Start to follow the event log, delete old rows and record changes of the policy. `start_agents` starts the engine."""
        self.feed.start()
        if self.text_relay:
            self.text_relay.start()
        self.housekeeping = asyncio.create_task(repeat_forever(Housekeeping(self.database, self.settings).run, "housekeeping"))
        loop = asyncio.get_running_loop()
        self.policy.on_change = lambda: None if loop.is_closed() else loop.call_soon_threadsafe(self.policy_changed.set)
        self.policy_recording = asyncio.create_task(repeat_forever(self._record_policy, "the audit of the policy"))

    def execution(self, resolved: ResolvedScope, role: Role) -> Execution:
        """Build the context for tools that are called in this scope."""
        scope, folder = resolved.scope, self.settings.task_folder
        workspace = resolved.folder or self.settings.get_workspace(scope.tenant_id)
        skills = self.skills.find(scope.tenant_id)
        execution = Execution(self.database.of(scope.tenant_id), folder, scope, role, resolved.conversation_uuid, workspace)
        execution = execution._replace(sandbox=self.settings.sandbox, policy=self.policy, redact=self.redact, skills=skills)
        return execution._replace(workspace_name=resolved.folder)

    def close(self) -> None:
        """Close the database. Call `stop_agents` first."""
        self.feed.close()
        for task in filter(None, (self.housekeeping, self.policy_recording)):
            task.cancel()
        if self.text_relay:
            self.text_relay.close()
        if self.announcements:
            self.announcements.close()
        if self.notifications:
            self.notifications.close()
        self.database.close()

    @cached_property
    def mcp(self) -> "McpServers":
        from headway.agents.mcp.tools import McpServers  # noqa: PLC0415

        return McpServers(self.mcp_configs, self.toolbox, self.redact)

    async def prepare_tools(self, role: Role, timeout_s: float | None = READY_TIMEOUT_S, only: str | None = None) -> None:
        """Start the MCP servers that the role may use, or only one of them, so that the toolbox has their tools."""
        if self.mcp_configs:
            await self.mcp.prepare(role, timeout_s, only)

    def list_mcp_servers(self) -> list[dict[str, str]]:
        """List the MCP servers with their status: ready, starting, down or not_started."""
        return self.mcp.list_statuses() if self.mcp_configs else []

    def describe_mcp_servers(self) -> list[dict[str, Any]]:
        """Describe the MCP servers and their tools to those who run the installation."""
        return self.mcp.describe_all() if self.mcp_configs else []

    async def stop_tools(self) -> None:
        """Stop the MCP servers that this process has started."""
        if "mcp" in vars(self):
            await self.mcp.stop()

    async def _record_policy(self) -> None:
        """Record the policy that is in force, if it has changed, and wait for the next change."""
        self.policy_changed.clear()
        digest, rule_count = self.policy.digest, len(self.policy.policy.rules)
        if (await self.database.read(audit.find_policy))["sha256"] != digest:
            await self.database.write(partial(audit.record_policy, digest=digest, rule_count=rule_count))
        await self.policy_changed.wait()

    def _on_commit(self, tenants: frozenset[int]) -> None:
        self.feed.notify_commit(tenants)

    def _on_jobs(self) -> None:
        """Called, from another thread, when another process may have made a job due."""


def check_extras(settings: Settings, *, has_mcp: bool) -> None:
    """Raise MissingExtra if something is configured whose library is not installed, before anything starts."""
    if not is_sqlite(settings.database_url):
        require_extra("postgres", "A Postgres database")
    if settings.notify:
        require_extra("notify", "Sending notices (HEADWAY_NOTIFY)")
    if has_mcp:
        require_extra("mcp", "Connecting to MCP servers")
