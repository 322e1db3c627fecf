"""`headway …`: finds the command, loads only what it needs, and turns failures into a sentence and an exit code."""

import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from headway import __version__
from headway.ledger import text
from headway.ledger.errors import HeadwayError
from headway.surfaces.cli.context import CommandGroup, get_exit_code

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Where each command lives. A module is imported when its command is called, so that `todo add` loads no web stack.
COMMANDS = {
    "serve": "serve:serve",
    "worker": "worker:worker",
    "demo": "demo:demo",
    "chat": "chat:chat",
    "turn": "turn:turn",
    "todo": "todo:todo",
    "goal": "goal:goal",
    "conversation": "tenant:conversation",
    "tenant": "tenant:tenant",
    "token": "tenant:token",
    "mcp": "mcp:mcp",
    "agents": "engine:agents",
    "jobs": "engine:jobs",
    "schedule": "engine:schedule",
    "halt": "halt:halt",
    "unhalt": "halt:unhalt",
    "doctor": "doctor:doctor",
    "completion": "completion:completion",
}


class RootGroup(CommandGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(import_module(f"headway.surfaces.cli.commands.{module}"), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Names alone: for more than that every command would be loaded, while somebody waits with a finger on the Tab key."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  for those who press it, not for every command

        names = [CompletionItem(name) for name in COMMANDS if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=RootGroup)
@click.version_option(__version__, prog_name="headway")
def headway() -> None:
    """The work ledger and the engine room of LLM agents."""


def main() -> None:
    use_utf8_output()
    try:
        code = headway(read_arguments(), standalone_mode=False)  # a command's Exit(n) comes back as n
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "headway"
        said = error.format_message()
        exit_with_message(f"{said}{'' if said.endswith(('.', '?')) else '.'} Try `{command} --help`.", error.exit_code)
    except click.ClickException as error:
        exit_with_message(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        exit_with_message("Interrupted.", 1)
    except HeadwayError as error:
        exit_with_message(str(error), get_exit_code(error))
    except OSError as error:
        # Commands explain the files they touch, and click takes broken pipes: this is mostly a full disk behind our output.
        discard_output()
        exit_with_message(f"The system refused: {error.strerror or error}.", 1)
    sys.exit(code)


def run() -> None:
    """The program. Once the answer is out and the database closed, the process ends on the spot: taking the interpreter
    apart piece by piece would take a fifth of a short command's time."""
    try:
        main()
    except SystemExit as end:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):  # whoever read it has gone, or it was closed before we began
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def use_utf8_output() -> None:
    """What we print is UTF-8 wherever it goes, like the documents we read: a narrow locale must not cost an answer."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def read_arguments() -> list[str]:
    """The arguments. Bytes that are no text arrive as lone surrogates, which no command could store or find."""
    return [text.check_text(argument, f"Argument {place}", len(argument)) for place, argument in enumerate(sys.argv[1:], 1)]


def discard_output() -> None:
    """The interpreter would try to write the rest at exit, and complain again."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_with_message(message: str, code: int) -> NoReturn:
    """One line, whatever is quoted in it."""
    click.echo(f"headway: {text.to_one_line(message)}", err=True)
    sys.exit(code)
