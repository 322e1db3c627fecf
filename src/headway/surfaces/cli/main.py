"""The entry point of `headway`: finds the command, imports only its module, and turns errors into a message and an exit code."""

import io
import os
import sys
from contextlib import suppress
from typing import NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from headway import __version__
from headway.ledger import text
from headway.ledger.errors import HeadwayError
from headway.surfaces.cli.context import get_exit_code, option
from headway.surfaces.cli.lazy_group import LazyCommand, LazyGroup

SECTIONS = {
    "Start": {
        "demo": LazyCommand("demo:demo", "Watch Headway work: offline, in under a minute."),
        "chat": LazyCommand("chat:chat", "Talk with an agent, or send it one message."),
        "serve": LazyCommand("serve:serve", "Serve the web page, the HTTP API and MCP."),
        "login": LazyCommand("login:login", "Print a link that signs in to the web page."),
        "doctor": LazyCommand("doctor:doctor", "Check the setup and say how to fix it."),
    },
    "Work": {
        "todo": LazyCommand("todo:todo", "Add, list and complete todos."),
        "goal": LazyCommand("goal:goal", "Set goals that agents pursue on their own."),
        "inbox": LazyCommand("inbox:inbox", "Approve tool calls, and answer the questions of agents."),
        "why": LazyCommand("why:why", "Explain how a todo, turn, goal or job got where it is."),
        "conversation": LazyCommand("conversation:conversation", "Create, search, copy and delete conversations."),
        "turn": LazyCommand("turn:turn", "Inspect, steer, copy and compare turns."),
        "agent": LazyCommand("agent:agents", "Inspect, steer and cancel running agents."),
        "file": LazyCommand("files:files", "Read and compare the files that agents wrote."),
        "memory": LazyCommand("memory:memory", "Search and change what agents remember."),
        "costs": LazyCommand("costs:costs", "Show what agents spent; set the limit."),
    },
    "Set up": {
        "mcp": LazyCommand("mcp:mcp", "Give an assistant such as Claude Code your todo list."),
        "guard": LazyCommand("guard:guard", "Send coding assistants back to work that is not finished."),
        "acp": LazyCommand("serve:acp", "Run an agent in an editor such as Zed."),
        "tool": LazyCommand("tools:tools", "List the tools of agents, and call one."),
        "schedule": LazyCommand("schedule:schedule", "Start goals, messages and tools at set times."),
        "eval": LazyCommand("evals:evals", "Test models and agents with suites of cases."),
        "webhook": LazyCommand("webhook:webhook", "Send events to other systems."),
        "token": LazyCommand("tokens:token", "Create and revoke tokens for the HTTP API."),
        "settings": LazyCommand("setup:settings", "Show the settings in force and where each comes from."),
        "trust": LazyCommand("setup:trust", "Allow Headway to use the files of a folder."),
        "completion": LazyCommand("setup:completion", "Print the script for completion in your shell."),
    },
    "Operate": {
        "worker": LazyCommand("worker:worker", "Run jobs in one more process; list such processes."),
        "backup": LazyCommand("backup:backup", "Write everything into one file, while Headway is at work."),
        "restore": LazyCommand("backup:restore", "Replace everything with a backup."),
        "halt": LazyCommand("operators:halt", "Stop all agents at once."),
        "unhalt": LazyCommand("operators:unhalt", "Let all agents continue."),
        "admin": LazyCommand("admin:admin", "Manage tenants, cells and jobs; read the audit log."),
    },
}

# Commands for one kind of request, which help does not show: `inbox` covers both.
HIDDEN = {
    "approval": LazyCommand("inbox:approvals", "Approve or reject tool calls."),
    "question": LazyCommand("inbox:questions", "Answer the questions of agents."),
}

# Other names of commands, and words that people try. Help does not show them.
ALIASES = {
    "agents": "agent",
    "approvals": "approval",
    "audit": "admin audit",
    "cell": "admin cell",
    "config": "settings",
    "files": "file",
    "help": "--help",
    "jobs": "admin job",
    "questions": "question",
    "tenant": "admin tenant",
    "tools": "tool",
    "version": "--version",
    "workers": "worker list",
}

EXAMPLES = (
    "headway demo",
    "headway todo add 'Write the release notes' --check-file NOTES.md",
    "headway chat 'Work through my todos'",
)


def print_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001  as click calls it
    """Print the version, and the commit that this build comes from."""
    if value and not ctx.resilient_parsing:
        commit = find_commit()
        click.echo(f"headway, version {__version__}{commit and f' (commit {commit})'}")
        ctx.exit()


def find_commit() -> str:
    """Return the commit that this package was built from, or that its checkout is at. It is unknown for a copy of the sources."""
    import subprocess  # noqa: PLC0415  commands load neither
    from pathlib import Path  # noqa: PLC0415

    package = Path(__file__).parents[2]
    file, checkout = package / "commit.txt", package.parents[1]
    if file.exists():
        return file.read_text(encoding="ascii")
    if package.parent.name != "src" or not (checkout / ".git").exists():
        return ""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty=+changes", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603  a fixed command
    except (OSError, subprocess.CalledProcessError):
        return ""


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    hidden_entries=HIDDEN,
    aliases=ALIASES,
    examples=EXAMPLES,
    epilog="`headway COMMAND --help` explains a command.",
)
@option("--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version, help="Show the version and exit.")
def headway() -> None:
    """A durable task list for LLM agents, and a runtime that works through it."""


def main() -> None:
    use_utf8_output()
    try:
        code = headway(read_arguments(), standalone_mode=False)  # a command's Exit(n) is returned as n
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "headway"
        message = " ".join(map(str.strip, error.format_message().splitlines()))
        exit_with_message(f"{message}{'' if message.endswith(('.', '?')) else '.'} Try `{command} --help`.", error.exit_code)
    except click.ClickException as error:
        exit_with_message(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        exit_with_message("Interrupted.", 1)
    except HeadwayError as error:
        exit_with_message(str(error), get_exit_code(error))
    except OSError as error:
        # Commands handle errors of the files they use, and click handles broken pipes. The rest is mostly a full disk behind
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
