"""The prompt of the chat, and its fallback where there is no line editor."""

import asyncio
import os
import re
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import click

from headway.actions.todos import finding
from headway.actions.turns import turns
from headway.ledger import text
from headway.ledger.attachment import Attachment
from headway.ledger.errors import AttachmentRefused, Conflict, HeadwayError, Invalid
from headway.ledger.scope import Scope
from headway.ledger.text import to_one_line
from headway.ledger.tiers import REHEARSAL_MODEL
from headway.settings import Settings
from headway.storage.transaction import Transaction
from headway.surfaces.cli.keyboard.line_editor import ATTACH_COMMAND, HistoryFile, is_attach_line
from headway.surfaces.cli.render import is_terminal
from headway.surfaces.cli.turn_view import CONTINUE_COMMAND, describe_open

HISTORY_NAME = "typed.jsonl"
KEY = re.compile(r"\x1b(?:\[[0-9;]*.?|O.?|.?)")  # what a key sends that types no character


def open_prompt(
    runner: asyncio.Runner, history_folder: str, wait_until_open: Callable[[], Coroutine[Any, Any, None]]
) -> Callable[[str], str | None]:
    """Return a function that asks for a line, which begins as a draft. It returns None when the person ends the chat.

    It raises the error of a chat that cannot open, also while a line is typed.
    """
    if not is_terminal():
        runner.run(wait_until_open())
        return ask_plainly
    from headway.surfaces.cli.keyboard.line_editor import Interrupted, LineEditor  # noqa: PLC0415  only needed at a terminal

    editor = LineEditor(HistoryFile(os.path.join(history_folder, HISTORY_NAME)))

    def ask(draft: str) -> str | None:
        for is_again in (False, True):
            try:
                return runner.run(ask_until_failure(editor.ask(draft), wait_until_open()))
            except EOFError:
                return None
            except Interrupted:
                if not is_again:
                    click.echo("Press Ctrl-C again to end, or Ctrl-D.", err=True)
        return None

    return ask


async def ask_until_failure(asking: Coroutine[Any, Any, str], opening: Coroutine[Any, Any, None]) -> str:
    """Ask for a line, but leave the prompt when the chat turns out to be unable to open."""
    line, opened = asyncio.ensure_future(asking), asyncio.ensure_future(opening)
    await asyncio.wait({line, opened}, return_when=asyncio.FIRST_COMPLETED)
    if opened.done() and opened.exception() and not line.done():
        line.cancel()
        await asyncio.wait({line})
        opened.result()
    try:
        return await line
    finally:
        opened.cancel()


def ask_plainly(_draft: str) -> str | None:
    """Ask without a screen to edit on, because the output goes elsewhere. Keys such as Arrow-Up are no part of a message."""
    line = ""
    try:
        while not line.strip():
            line = KEY.sub("", click.prompt(click.style("you", bold=True), prompt_suffix=" › ", err=True))
    except click.Abort:
        click.echo(err=True)
        return None
    return line


# The prompt of `headway chat`: messages, and the lines that are commands of the chat itself.


COMMANDS: Final = {
    ATTACH_COMMAND: "PATH  send a file with your next message",
    "/clear": "start a new conversation",
    CONTINUE_COMMAND: "work on the open todos of the last turn",
    "/exit": "end the chat, as exit, quit and Ctrl-D do",
    "/help": "show this list",
    "/model": "[NAME]  show the model, or use another one",
}
LAST_WORDS: Final = ("exit", "quit", "/exit", "/quit")
COMMAND_LINE: Final = re.compile(r"/[A-Za-z][\w-]*(?:[ \t][^\n]*)?")  # not a path, and not the first line of a longer text
SHOWN_MESSAGES: Final = 2
SHOWN_CHARACTERS: Final = 200


class Chat(Protocol):
    """The conversation that the prompt belongs to."""

    settings: Settings
    scope: Scope
    attachments: list[Attachment]

    def take_draft(self) -> str: ...
    def attach(self, line: str) -> str: ...
    async def wait_until_open(self) -> None: ...
    async def turn(self, content: str) -> None: ...
    async def start_conversation(self) -> None: ...
    async def change_model(self, name: str) -> None: ...


def is_command(line: str) -> bool:
    """Whether a typed line is a command of the chat, known or not. A line that begins with a space is a message."""
    return COMMAND_LINE.fullmatch(line.rstrip()) is not None


def parse_message(message: str) -> str:
    """Validate a message before a conversation is opened for it."""
    content = text.check_text(message.strip(), "The message")
    if not content:
        raise Invalid("The message is empty.")
    return content


def run_prompt_loop(runner: asyncio.Runner, session: Chat, introduction: list[str]) -> None:
    click.echo(f"Chatting with {describe_model(session)}. /help lists the commands; Ctrl-D ends the chat.", err=True)
    for sentence in introduction:
        click.echo(sentence, err=True)
    ask = open_prompt(runner, session.settings.get_chat_history(session.scope.tenant_id), session.wait_until_open)
    while (line := ask(session.take_draft())) is not None:
        if line.strip() in LAST_WORDS:
            return
        runner.run(session.wait_until_open())  # if that fails, there is no chat
        try:
            if is_command(line) and line.split()[0] != CONTINUE_COMMAND:
                click.echo(run_command(runner, session, line), err=True)
            elif line.strip():
                runner.run(session.turn(parse_message(line)))
        except AttachmentRefused as error:
            session.attachments = []
            click.echo(f"headway: {error} The files are no longer attached.", err=True)
        except HeadwayError as error:  # the chat continues: the next message may succeed
            click.echo(f"headway: {error}", err=True)


def run_command(runner: asyncio.Runner, session: Chat, line: str) -> str:
    """Run a command of the chat and return what to tell its user. An unknown one is refused, because a message costs money."""
    name, _, argument = line.strip().partition(" ")
    if is_attach_line(line):
        return session.attach(line)
    if name == "/help":
        commands = "\n".join(f"  {command:<10} {sentence}" for command, sentence in COMMANDS.items())
        return f"{commands}\nA line that begins with a space is a message, also if a slash follows."
    if name == "/clear":
        runner.run(session.start_conversation())
        return "A new conversation begins. The old one is kept: `headway conversation list`."
    if name == "/model":
        if argument.strip():
            runner.run(session.change_model(argument.strip()))
        return f"The model is {describe_model(session)}."
    raise Invalid(f"Unknown command {to_one_line(name[:40])}. There are {', '.join(COMMANDS)}. Nothing was sent.")


def describe_model(session: Chat) -> str:
    model = session.settings.model
    return f"{REHEARSAL_MODEL} (a built-in stand-in, not an LLM)" if model == REHEARSAL_MODEL else model


def introduce(tx: Transaction, tenant_id: int, conversation_id: int) -> list[str]:
    """Say which conversation continues: its number and title, its last messages, and how many todos its last turn left open."""
    conversation = finding.get_conversation(tx, tenant_id, conversation_id)
    messages = turns.list_messages(tx, tenant_id, conversation_id, SHOWN_MESSAGES)
    if not messages:
        return []
    title = to_one_line(conversation.title or conversation.key)
    lines = [f"Continuing conversation {conversation_id}{f': {title}' if title else ''}"]
    lines += [f"  {message.speaker} › {shorten(message.content)}" for message in messages]
    try:
        count = len(turns.list_incomplete(tx, tenant_id, turns.get_unfinished(tx, tenant_id, conversation_id)))
    except Conflict:
        return lines
    return [*lines, f"  {describe_open(count)}"]


def shorten(content: str) -> str:
    line = to_one_line(content)
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]} …"
