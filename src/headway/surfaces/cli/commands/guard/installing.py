"""`headway guard install` and `uninstall`, and the home that the hooks of a project use."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from headway.ledger import text
from headway.settings import get_environment
from headway.surfaces.cli.commands.mcp.clients import find_program
from headway.surfaces.cli.context import Command, Invocation, pass_invocation
from headway.surfaces.guard.installation import CLIENTS, GuardFile
from headway.surfaces.guard.places import find_home_folder, find_project

CLIENT = click.Choice(list(CLIENTS))


def place_options(command: Callable[..., None]) -> Callable[..., None]:
    user = click.option("--user/--project", "for_user", default=False, help="For all your projects, or for this one (default).")
    return user(command)


@click.command(cls=Command)
@click.argument("client", type=CLIENT, metavar="CLIENT")
@place_options
@click.option("--print", "print_only", is_flag=True, help="Show the file and what would be written, and change nothing.")
@pass_invocation
def install(invocation: Invocation, client: str, *, for_user: bool, print_only: bool) -> None:
    """Install the guard into an assistant.

    CLIENT is claude-code, codex, gemini, opencode or cursor. The hooks use the home of the project that the assistant works in: the
    nearest .headway, from its folder upwards, or the one that --home names here. This command creates one here if there is none;
    with --user, in your home folder.
    Other entries of the file stay as they are.
    """
    file = find_guard_file(invocation, client, for_user=for_user)
    is_new = False
    if not print_only:
        open_home(invocation, for_user=for_user)
        is_new = file.install()
    document = {"client": client, "file": str(file.path), "content": file.render(), "changed": is_new}

    def draw() -> None:
        place = text.to_one_line(str(file.path))
        if print_only:
            click.echo(f"For {place}:\n\n{file.render()}")
            return
        scope = "in all your projects" if for_user else f"in {text.to_one_line(os.getcwd())}"
        click.echo(f"{'Installed in' if is_new else 'Already in'} {place}. Headway guards {file.client.title} {scope}.")
        for advice in filter(None, (file.client.advice,)):
            click.echo(advice)
        click.echo(f'Next: headway guard add "the tests pass" --check-command "…"   Undo: headway guard uninstall {client}')

    invocation.answer(document, draw)


@click.command(cls=Command)
@click.argument("client", type=CLIENT, metavar="CLIENT")
@place_options
@pass_invocation
def uninstall(invocation: Invocation, client: str, *, for_user: bool) -> None:
    """Remove the guard from an assistant. What was recorded stays."""
    file = find_guard_file(invocation, client, for_user=for_user)
    was_there = file.uninstall()
    place = text.to_one_line(str(file.path))
    message = f"Removed from {place}." if was_there else f"{place} does not have the guard. Nothing was changed."
    invocation.answer({"client": client, "file": str(file.path), "changed": was_there}, lambda: click.echo(message))


def find_guard_file(invocation: Invocation, client: str, *, for_user: bool) -> GuardFile:
    """Return the file of a client. A home that is named with --home is the home of its hooks."""
    project = None if for_user else Path.cwd()
    known = CLIENTS[client]
    named_home = () if invocation.home is None else ("env", f"HEADWAY_HOME={os.path.abspath(invocation.home)}")
    return GuardFile(known, known.find_file(project, Path.home(), get_environment()), (*named_home, *find_program()))


def open_home(invocation: Invocation, *, for_user: bool) -> None:
    """Create the home and its database if there are none."""
    with enter_home(invocation, Path.home() if for_user else None), invocation.open_ledger():
        pass


@contextmanager
def enter_home(invocation: Invocation, folder: Path | None = None) -> Iterator[str]:
    """Use the home of the project, as the hooks do: the nearest one from this folder upwards. Yields the project's folder."""
    here = os.getcwd()
    place = str(folder) if folder else here
    if invocation.home is None and not get_environment().get("HEADWAY_HOME"):
        os.chdir(find_home_folder(place) or place)
    try:
        yield find_project(here)
    finally:
        os.chdir(here)
