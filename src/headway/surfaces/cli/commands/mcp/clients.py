"""`headway mcp install` and `uninstall`: add the server to the settings of an MCP client, and remove it again."""

import os
import shutil
import sys
from pathlib import Path

import click

from headway.extras import require_extra
from headway.ledger import text
from headway.settings import get_environment
from headway.surfaces.cli.context import Command, Invocation, pass_invocation
from headway.surfaces.mcp.installation.clients import CLIENTS, LaunchCommand
from headway.surfaces.mcp.installation.settings_file import SERVER_NAME, SettingsFile
from headway.surfaces.mcp.offer import DEFAULT_GROUPS, choose_offer

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
        place = text.to_one_line(str(file.path))
        done = f"Entry for {place}:" if print_only else f"Added to {place}:" if is_new else f"{place} has it already:"
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
    place = text.to_one_line(str(file.path))
    message = f"Removed from {place}." if was_there else f"{place} has no entry {SERVER_NAME}. Nothing was changed."
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
