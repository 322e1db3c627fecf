"""`headway completion`: print a script for shell completion."""

import click
from click.shell_completion import get_completion_class

from headway.surfaces.cli.context import Command, Invocation, UnusedFlags, pass_invocation

SHELLS = ("bash", "zsh", "fish")
COMPLETION_VARIABLE = "_HEADWAY_COMPLETE"  # click reads the shell's completion request from this variable
NO_LEDGER = UnusedFlags(("tenant", "conversation", "home", "database_url"), "does not use a ledger")


@click.command(cls=Command, unused=NO_LEDGER)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
@pass_invocation
def completion(call: Invocation, context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in SHELL.

    \b
    bash   headway completion bash > ~/.local/share/bash-completion/completions/headway
    zsh    headway completion zsh > ~/.zfunc/_headway    (with fpath+=~/.zfunc before compinit in ~/.zshrc)
    fish   headway completion fish > ~/.config/fish/completions/headway.fish

    The folder must exist. Completion works in newly started shells.
    """
    found = get_completion_class(shell)
    assert found is not None
    script = found(context.find_root().command, {}, "headway", COMPLETION_VARIABLE).source()
    call.answer({"completion": {"shell": shell, "script": script}}, lambda: click.echo(script))
