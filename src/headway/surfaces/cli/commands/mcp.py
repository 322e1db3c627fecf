"""`headway mcp`: the MCP server on standard input and output, and its entry in the settings of clients."""

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from headway.actions.todos import finding
from headway.actions.turns import turns
from headway.extras import require_extra
from headway.ledger import text
from headway.ledger.errors import HeadwayError, Invalid, NotFound
from headway.ledger.permission import FILE_NAME
from headway.ledger.scope import Scope
from headway.settings import get_environment
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction, Work, within_tenant
from headway.surfaces.cli.context import Command, CommandGroup, Invocation, pass_invocation
from headway.surfaces.mcp.early_answers import EarlyAnswers, EarlyLedger
from headway.surfaces.mcp.installation import CLIENTS, SERVER_NAME, LaunchCommand, SettingsFile
from headway.surfaces.mcp.offer import DEFAULT_GROUPS, choose_offer
from headway.surfaces.mcp.resources import list_resources
from headway.surfaces.mcp.scopes import McpCaller
from headway.surfaces.mcp.stdio_transport import StdioChannel, answer_early

DATABASE_VARIABLE = "HEADWAY_DATABASE_URL"
CLIENT = click.Choice(list(CLIENTS))
GROUPS_HELP = "The tools to offer: ledger, plan or both, separated by a comma; tasks and queue for compatible tools; all."


@click.command(cls=Command)
@click.argument("client", type=CLIENT, metavar="CLIENT")
@click.option("--tools", default=DEFAULT_GROUPS, show_default=True, metavar="GROUPS", help=GROUPS_HELP)
@click.option("--print", "print_only", is_flag=True, help="Show the entry and the file, and change nothing.")
@pass_invocation
def install(invocation: Invocation, client: str, tools: str, *, print_only: bool) -> None:
    """Add the server to the settings of an MCP client.

    CLIENT is claude-code, claude-desktop, codex, gemini, qwen, opencode, cursor, vscode or zed. The entry names this program and
    this home with absolute paths. The rest of the file stays as it is.
    """
    require_extra("mcp", "The MCP server")
    choose_offer(tools)
    known, file = CLIENTS[client], find_settings_file(client)
    entry = known.build_entry(build_launch_command(invocation, client, tools))
    is_new = not print_only and file.add(entry)
    document = {"client": client, "file": str(file.path), "section": known.section, "entry": entry, "changed": is_new}

    def draw() -> None:
        path = text.to_one_line(str(file.path))
        done = f"Entry for {path}:" if print_only else f"Added to {path}:" if is_new else f"{path} has it already:"
        click.echo(f"{done}\n\n{file.render(entry)}")
        if not print_only:
            click.echo(f"{known.check} Undo: headway mcp uninstall {client}")
        if DATABASE_VARIABLE in get_environment() and invocation.database_url is None:
            click.echo(
                f"{known.title} does not see the {DATABASE_VARIABLE} of this shell. Pass --database-url to write it.", err=True
            )

    invocation.answer(document, draw)


@click.command(cls=Command)
@click.argument("client", type=CLIENT, metavar="CLIENT")
@pass_invocation
def uninstall(invocation: Invocation, client: str) -> None:
    """Remove the server from the settings of an MCP client. The rest of the file stays as it is."""
    file = find_settings_file(client)
    was_there = file.remove()
    path = text.to_one_line(str(file.path))
    message = f"Removed from {path}." if was_there else f"{path} has no entry {SERVER_NAME}. Nothing was changed."
    invocation.answer({"client": client, "file": str(file.path), "changed": was_there}, lambda: click.echo(message))


def find_settings_file(client: str) -> SettingsFile:
    return SettingsFile(CLIENTS[client], CLIENTS[client].find_file(Path.home(), get_environment()))


def build_launch_command(invocation: Invocation, client: str, tools: str) -> LaunchCommand:
    program, *arguments = find_program()
    flags = {
        "--home": os.path.abspath(invocation.settings().home),
        "--database-url": invocation.database_url,
        "--tenant": invocation.tenant,
        "--conversation": invocation.conversation,
        "--agent": client,
        "--tools": tools if tools != DEFAULT_GROUPS else None,
    }
    chosen = [part for flag, value in flags.items() if value is not None for part in (flag, value)]
    return LaunchCommand(program, (*arguments, "mcp", *chosen))


def find_program() -> list[str]:
    """Return the command that runs this program: the script that was started, or the Python that runs it."""
    script = shutil.which(sys.argv[0]) if os.path.basename(sys.argv[0]) == "headway" else None
    return [os.path.abspath(script)] if script else [sys.executable, "-m", "headway"]


# `headway mcp`: run an MCP server on standard input and output, or add it to the settings of an MCP client.


T = TypeVar("T")

TURN_HELP = "The turn whose plan the session works on (default: the open plan of the conversation or the current folder)."


@click.group(
    cls=CommandGroup, invoke_without_command=True, examples=("headway mcp install claude-code", "headway mcp --tools ledger")
)
@click.option("--tools", default=DEFAULT_GROUPS, show_default=True, metavar="GROUPS", help=GROUPS_HELP)
@click.option("--turn", metavar="UUID", help=TURN_HELP)
@click.option("--agent", default="mcp", show_default=True, metavar="NAME", help="Agent name to record.")
@click.pass_context
def mcp(context: click.Context, tools: str, turn: str | None, agent: str) -> None:
    """Run an MCP server on standard input and output, for an assistant on this machine."""
    if context.invoked_subcommand is not None:
        return
    require_extra("mcp", "The MCP server")
    invocation = context.ensure_object(Invocation)
    reference, invocation.conversation = invocation.conversation, None
    scope = Scope(0, agent_id=text.check_name(agent, "agent_id"), turn_id=turn)
    with invocation.open_ledger() as ledger:
        scope = ledger.read(find_scope, scope, reference)
    caller = build_caller(scope, reference)
    early = EarlyAnswers(choose_offer(tools), build_early_ledger(invocation, scope, caller))
    with suppress(BrokenPipeError), closing(StdioChannel()) as channel:  # a client that is gone is no failure
        line = answer_early(channel, early)
        if line is not None:
            serve_rest(invocation, caller, channel, early, line)


mcp.add_command(install)
mcp.add_command(uninstall)


def find_scope(tx: Transaction, tenant_id: int, scope: Scope, reference: str | None) -> Scope:
    """Check what the flags name. A key that no conversation has is given to a new one, when the server first needs it."""
    scope = scope._replace(tenant_id=tenant_id)
    if reference:
        try:
            scope = scope._replace(conversation_id=finding.resolve(tx, tenant_id, reference).id)
        except NotFound:
            if finding.is_id(reference):
                raise
    if scope.turn_id:
        from headway.agents.tools.execution import resolve_scope  # noqa: PLC0415  takes a second to load

        scope = resolve_scope(tx, scope).scope
    return scope


def build_caller(scope: Scope, reference: str | None) -> McpCaller:
    folder = os.getcwd()
    name = text.to_one_line(os.path.basename(folder) or folder).encode(errors="replace").decode()
    return McpCaller(scope.tenant_id, reference, scope.turn_id, scope.agent_id, build_folder_key(folder), name)


def build_early_ledger(invocation: Invocation, scope: Scope, caller: McpCaller) -> EarlyLedger:
    """Raises SettingsError if the policy cannot be read, before the first answer."""
    from headway.agents.policy_file import PolicyFile  # noqa: PLC0415  help does not need it

    policy = PolicyFile(os.path.join(invocation.settings().home, FILE_NAME))
    is_settled = bool(scope.conversation_id) or not caller.conversation  # otherwise the server creates the conversation

    @contextmanager
    def open_database() -> Iterator[DirectDatabase]:
        with invocation.open_tenant(invocation.tenant) as (database, _tenant):
            yield database

    def read(work: Work[T]) -> T | None:
        with suppress(HeadwayError), open_database() as database:  # the server reports the error
            return database.read(within_tenant(scope.tenant_id, work))
        return None

    def list_early(cursor: str | None) -> dict[str, Any] | None:
        return read(lambda tx: list_resources(tx, scope, cursor)) if is_settled else None

    def call_early(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        from headway.surfaces.mcp.early_calls import EarlyCalls  # noqa: PLC0415  the lists do not wait for it

        return EarlyCalls(open_database, caller, invocation.settings(), policy).call(name, arguments)

    return EarlyLedger(list_early, call_early, lambda: read(lambda tx: turns.find_log_position(tx, scope.tenant_id)))


def serve_rest(invocation: Invocation, caller: McpCaller, channel: StdioChannel, early: EarlyAnswers, line: bytes) -> None:
    """Load the server, and let it continue the session."""
    import asyncio  # noqa: PLC0415  the first answers do not wait for it

    from headway.surfaces.log_lines import configure_plain_logging  # noqa: PLC0415
    from headway.surfaces.mcp.stdio_server import serve_stdio  # noqa: PLC0415

    settings = invocation.settings()
    configure_plain_logging(settings)
    asyncio.run(serve_stdio(settings, caller, channel, early, line))


def build_folder_key(folder: str) -> str:
    """Return the key of the conversation that has the plan of a project: the folder in which its assistant starts us."""
    try:
        return text.check_name(f"folder {folder}", "folder")
    except Invalid:  # too long, or not text
        return f"folder {hashlib.sha256(os.fsencode(folder)).hexdigest()}"
