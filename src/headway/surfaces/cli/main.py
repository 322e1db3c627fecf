"""`headway …`: finds the command, loads only what it needs, and turns failures into a sentence and an exit code."""

import sys
from importlib import import_module

import click

from headway import __version__
from headway.ledger.errors import HeadwayError
from headway.surfaces.cli.calling import Family, exit_code

# Where each command lives. A module is imported when its command is called, so that `todo add` loads no web stack.
COMMANDS = {
    "todo": "todo_commands:todo",
    "conversation": "tenant_commands:conversation",
    "tenant": "tenant_commands:tenant",
    "token": "tenant_commands:token",
    "doctor": "doctor:doctor",
}


class Headway(Family):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(import_module(f"headway.surfaces.cli.{module}"), name)
        return command


@click.group(cls=Headway)
@click.version_option(__version__, prog_name="headway")
def headway() -> None:
    """The work ledger and the engine room of LLM agents."""


def main() -> None:
    try:
        code = headway(standalone_mode=False)  # a command's Exit(n) comes back as n
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Nothing was changed.", err=True)
        sys.exit(1)
    except HeadwayError as error:
        click.echo(f"headway: {error}", err=True)
        sys.exit(exit_code(error))
    except BrokenPipeError:
        # Whoever reads our output has seen enough (`headway todo list | head`).
        sys.stdout = None
        sys.exit(0)
    sys.exit(code)
