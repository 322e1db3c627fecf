"""The entry point of `headway`: finds the command, imports only its module, and turns errors into a message and an exit code."""

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

# Where each command lives. A module is imported when its command is called, so that `todo add` does not load the web stack.
COMMANDS = {
    "serve": "serve:serve",
    "login": "access.login:login",
    "worker": "worker:worker",
    "demo": "demo:demo",
    "chat": "chat:chat",
    "turn": "turn:turn",
    "eval": "evals.family:evals",
    "approvals": "people:approvals",
    "questions": "people:questions",
    "todo": "todo:todo",
    "goal": "goal:goal",
    "files": "files.family:files",
    "memory": "memory:memory",
    "conversation": "access.conversation:conversation",
    "tenant": "access.tenant:tenant",
    "cell": "access.cell:cell",
    "token": "access.tenant:token",
    "mcp": "mcp.family:mcp",
    "acp": "acp:acp",
    "tools": "tools:tools",
    "agents": "engine:agents",
    "jobs": "operations.job_commands:jobs",
    "workers": "operations.job_commands:workers",
    "schedule": "engine:schedule",
    "webhook": "access.webhook:webhook",
    "costs": "costs:costs",
    "why": "why:why",
    "halt": "operators:halt",
    "unhalt": "operators:unhalt",
    "audit": "operators:audit",
    "settings": "settings:settings",
    "trust": "trust:trust",
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
        """Complete command names without help texts, which would mean importing every command while the user waits."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only needed for completion

        names = [CompletionItem(name) for name in COMMANDS if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=RootGroup)
@click.version_option(__version__, prog_name="headway")
def headway() -> None:
    """The work ledger and runtime for LLM agents."""


def main() -> None:
    use_utf8_output()
    try:
        code = headway(read_arguments(), standalone_mode=False)  # a command's Exit(n) is returned as n
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "headway"
        message = error.format_message()
        exit_with_message(f"{message}{'' if message.endswith(('.', '?')) else '.'} Try `{command} --help`.", error.exit_code)
    except click.ClickException as error:
        exit_with_message(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        exit_with_message("Interrupted.", 1)
    except HeadwayError as error:
        exit_with_message(str(error), get_exit_code(error))
    except OSError as error:
        # Commands handle errors of the files they use, and click handles broken pipes. What remains is mostly a full disk behind
        # standard output.
        discard_output()
        exit_with_message(f"Operating system error: {error.strerror or error}.", 1)
    sys.exit(code)


def run() -> None:
    """Run the program. Once the output is flushed and the database is closed, exit without interpreter shutdown, which would take a
    fifth of a short command's time."""
    try:
        main()
    except SystemExit as end:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):  # the reader has gone, or the stream was closed before we started
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def use_utf8_output() -> None:
    """Write UTF-8 to standard output and standard error, so that a narrow locale cannot make a command fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def read_arguments() -> list[str]:
    """Return the arguments, checked to be valid text. Invalid UTF-8 arrives as lone surrogates, which cannot be stored."""
    return [text.check_text(argument, f"Argument {number}", len(argument)) for number, argument in enumerate(sys.argv[1:], 1)]


def discard_output() -> None:
    """Redirect standard output to the null device. Otherwise the interpreter would flush it at exit and fail again."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_with_message(message: str, code: int) -> NoReturn:
    """Print an error as a single line, even if it quotes several, and exit."""
    click.echo(f"headway: {text.to_one_line(message)}", err=True)
    sys.exit(code)
