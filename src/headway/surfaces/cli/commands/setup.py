"""`headway settings`, `trust` and `completion`: the settings in force, the files that may be used, and completion in a shell."""

import os
import shlex
from typing import Any

import click
from click.shell_completion import get_completion_class

from headway import trust as trusted_folders
from headway.ledger.errors import Invalid
from headway.ledger.text import to_one_line
from headway.settings.listing import list_settings
from headway.surfaces.cli.context import INSTALLATION_WIDE, Command, Invocation, UnusedFlags, pass_invocation
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_table
from headway.surfaces.cli.trust_question import confirm_trust, is_person_present
from headway.trust import HOME, Inspection


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.option("--changed", is_flag=True, help="Only settings that differ from their defaults.")
@pass_invocation
def settings(invocation: Invocation, *, changed: bool) -> None:
    """Show the settings in force here, with the source of each: a flag, the environment, .env, models.toml or the default.

    Secrets are shown only as `set`, and URLs without passwords. A running server has the settings with which it was started.
    """
    rows = [row for row in list_settings(invocation.settings()) if not changed or row["source"] != "default"]
    cells = [(row["name"], row["source"], row["value"] or "not set") for row in rows]
    invocation.answer({"settings": rows}, lambda: print_table(("setting", "source", "value"), cells, "all settings are defaults"))


# `headway trust`: agree to the files of a folder, or take that back.


NO_LEDGER = UnusedFlags(("tenant", "conversation", "home", "database_url"), "applies to a folder")


@click.command(cls=Command, unused=NO_LEDGER)
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--yes", is_flag=True, help="Do not ask. Needed where there is no terminal.")
@click.option("--revoke", is_flag=True, help="Stop trusting the folder.")
@click.option("--list", "as_list", is_flag=True, help="List the folders that you trust.")
@pass_invocation
def trust(invocation: Invocation, folder: str, yes: bool, revoke: bool, as_list: bool) -> None:  # noqa: FBT001  named by click
    """Show what is in FOLDER (default: the current folder) and trust it.

    Headway uses the .env and the .headway of the current folder only after you have trusted them, because such files can run
    programs and send your keys elsewhere. A .headway that Headway created here is trusted. After a change of .env, or of a tool, a
    role or a settings file in .headway, trust the folder again.
    """
    if as_list:
        show_records(invocation)
    elif revoke:
        answer(invocation, folder, "Not trusted any more" if trusted_folders.revoke_trust(folder) else "Was not trusted")
    else:
        agree(invocation, folder, yes=yes)


def agree(invocation: Invocation, folder: str, *, yes: bool) -> None:
    inspection = trusted_folders.inspect(folder)
    if inspection.may_be_used:
        answer(invocation, folder, "Already trusted" if inspection.needs_trust else "Nothing needs trust")
        return
    if not yes:
        if not is_person_present():
            raise Invalid(f"There is no terminal to ask on. {inspection.explain_state()} To trust the folder, add --yes.")
        confirm_trust(inspection)
    trusted_folders.record_trust(inspection)
    answer(invocation, folder, "Trusted")
    if any(change.startswith(HOME) for change in inspection.list_changes()):
        home = shlex.quote(os.path.join(inspection.folder, HOME))
        click.echo(f"If you change these files often, name the home, which counts as trust: export HEADWAY_HOME={home}", err=True)


def answer(invocation: Invocation, folder: str, outcome: str) -> None:
    """Print the state of the folder after the command."""
    inspection = trusted_folders.inspect(folder)

    def draw() -> None:
        click.echo(f"{outcome}: {to_one_line(inspection.folder)}")
        for entry in inspection.list_contents():
            click.echo(f"  {entry}")

    invocation.answer({"folder": build_document(inspection)}, draw)


def build_document(inspection: Inspection) -> dict[str, Any]:
    return {
        "path": inspection.folder,
        "trusted": inspection.is_trusted,
        "needs_trust": inspection.needs_trust,
        "files": list(inspection.files),
        "variables": list(inspection.env.variables) if inspection.env else [],
        "home": inspection.home,
        "has_data": inspection.has_data,
    }


def show_records(invocation: Invocation) -> None:
    folders: list[dict[str, Any]] = [
        {"path": path, "files": list(files), "trusted_at": trusted_at, "exists": os.path.isdir(path)}
        for path, files, trusted_at in trusted_folders.list_records()
    ]

    def draw() -> None:
        for folder in folders:
            missing = "" if folder["exists"] else "  (no such folder)"
            click.echo(f"{format_time(folder['trusted_at'])}  {to_one_line(folder['path'])}{missing}")

    invocation.answer({"folders": folders}, draw)


# `headway completion`: print a script for shell completion.


SHELLS = ("bash", "zsh", "fish")
COMPLETION_VARIABLE = "_HEADWAY_COMPLETE"  # click reads the shell's completion request from this variable
COMPLETION_NO_LEDGER = UnusedFlags(("tenant", "conversation", "home", "database_url"), "does not use a ledger")


@click.command(cls=Command, unused=COMPLETION_NO_LEDGER)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
@pass_invocation
def completion(invocation: Invocation, context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in SHELL.

    \b
    bash   headway completion bash > ~/.local/share/bash-completion/completions/headway
    zsh    headway completion zsh > ~/.zfunc/_headway    (with fpath+=~/.zfunc before compinit in ~/.zshrc)
    fish   headway completion fish > ~/.config/fish/completions/headway.fish

    The folder must exist. Completion works in newly started shells.
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    script = completion_class(context.find_root().command, {}, "headway", COMPLETION_VARIABLE).source()
    invocation.answer({"completion": {"shell": shell, "script": script}}, lambda: click.echo(script))
