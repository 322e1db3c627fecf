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
from headway.surfaces.cli.calling import Family, exit_code

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Where each command lives. A module is imported when its command is called, so that `todo add` loads no web stack.
COMMANDS = {
    "serve": "serve_command:serve",
    "worker": "worker_command:worker",
    "demo": "demo_command:demo",
    "chat": "chat_command:chat",
    "turn": "turn_commands:turn",
    "todo": "todo_commands:todo",
    "goal": "goal_commands:goal",
    "conversation": "tenant_commands:conversation",
    "tenant": "tenant_commands:tenant",
    "token": "tenant_commands:token",
    "mcp": "mcp_command:mcp",
    "agents": "engine_commands:agents",
    "jobs": "engine_commands:jobs",
    "schedule": "engine_commands:schedule",
    "halt": "halt_commands:halt",
    "unhalt": "halt_commands:unhalt",
    "doctor": "doctor:doctor",
    "completion": "completion_command:completion",
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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Names alone: for more than that every command would be loaded, while somebody waits with a finger on the Tab key."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  for those who press it, not for every command

        names = [CompletionItem(name) for name in COMMANDS if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=Headway)
@click.version_option(__version__, prog_name="headway")
def headway() -> None:
    """The work ledger and the engine room of LLM agents."""


def main() -> None:
    speak_utf8()
    try:
        code = headway(typed(), standalone_mode=False)  # a command's Exit(n) comes back as n
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "headway"
        said = error.format_message()
        stop(f"{said}{'' if said.endswith(('.', '?')) else '.'} Try `{command} --help`.", error.exit_code)
    except click.ClickException as error:
        stop(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        stop("Interrupted.", 1)
    except HeadwayError as error:
        stop(str(error), exit_code(error))
    except OSError as error:
        # Commands explain the files they touch, and click takes broken pipes: this is mostly a full disk behind our output.
        forget_output()
        stop(f"The system refused: {error.strerror or error}.", 1)
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


def speak_utf8() -> None:
    """What we print is UTF-8 wherever it goes, like the documents we read: a narrow locale must not cost an answer."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def typed() -> list[str]:
    """The arguments. Bytes that are no text arrive as lone surrogates, which no command could store or find."""
    return [text.safe(argument, f"Argument {place}", len(argument)) for place, argument in enumerate(sys.argv[1:], 1)]


def forget_output() -> None:
    """The interpreter would try to write the rest at exit, and complain again."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stop(message: str, code: int) -> NoReturn:
    """One line, whatever is quoted in it."""
    click.echo(f"headway: {text.one_line(message)}", err=True)
    sys.exit(code)
