"""`headway conversation`: create, search, copy and delete conversations."""

from collections.abc import Sequence
from functools import partial

import click

from headway.actions.history import conversation_pages
from headway.actions.history.conversation_pages import ConversationFilter
from headway.actions.inspection.forks import ForkRequest
from headway.actions.todos import conversations, finding
from headway.actions.turns import turns
from headway.ledger.tenancy import Conversation
from headway.surfaces.cli.arguments import CONVERSATION_ID, MESSAGE_ID, fork_options, limit_option
from headway.surfaces.cli.context import SENDER, TENANT_WIDE, CommandGroup, Invocation, pass_invocation
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_row, print_table

CONVERSATION_HEADINGS = ("id", "key", "title")


@click.group(
    cls=CommandGroup,
    unused=TENANT_WIDE,
    aliases={"new": "add"},
    examples=("headway conversation search invoice", "headway conversation fork 4 --at 17 --message 'In French, please'"),
)
def conversation() -> None:
    """Create, search, copy and delete conversations. Each has its own todo list."""


@conversation.command("add")
@click.argument("title", default="")
@click.option("--key", help="A unique name for it (default: a UUID).")
@pass_invocation
def add_conversation(invocation: Invocation, title: str, key: str | None) -> None:
    """Create a conversation."""
    with invocation.open_ledger() as ledger:
        row = ledger.write(conversations.add_conversation, title, key)
    invocation.answer({"conversation": row.as_json()}, lambda: print_row(build_conversation_row(row)))


@conversation.command("list")
@click.option("--limit", default=50, show_default=True, metavar="N", type=click.IntRange(1, 500), help="List at most this many.")
@pass_invocation
def list_conversations(invocation: Invocation, limit: int) -> None:
    """List conversations, newest first."""
    with invocation.open_ledger() as ledger:
        rows = ledger.read(conversations.list_conversations, limit)
    invocation.answer(
        {"conversations": [row.as_json() for row in rows]},
        lambda: print_table(CONVERSATION_HEADINGS, map(build_conversation_row, rows), "no conversations yet"),
    )


@conversation.command("show")
@click.argument("conversation_id", metavar="ID", type=CONVERSATION_ID)
@click.option(
    "--limit", default=50, show_default=True, metavar="N", type=click.IntRange(1, 500), help="Show this many of the last messages."
)
@pass_invocation
def show_conversation(invocation: Invocation, conversation_id: int, limit: int) -> None:
    """Show a conversation and its last messages, with their ids and turns."""
    with invocation.open_ledger() as ledger:
        row = ledger.read(finding.get_conversation, conversation_id)
        messages = ledger.read(turns.list_messages, conversation_id, limit)

    def draw() -> None:
        print_row(build_conversation_row(row))
        rows = [(str(message.id), message.turn_id, message.speaker, message.content) for message in messages]
        print_table(("message", "turn", "who", "content"), rows, "no messages yet")

    invocation.answer({"conversation": row.as_json(), "messages": [message.as_json() for message in messages]}, draw)


@conversation.command("fork")
@click.argument("conversation_id", metavar="ID", type=CONVERSATION_ID)
@click.option("--at", "at", required=True, type=MESSAGE_ID, metavar="MESSAGE", help="The message to send or to write again.")
@click.option("--message", default="", metavar="TEXT", help="Send this instead of the user's message.")
@fork_options
@pass_invocation
def fork_conversation(
    invocation: Invocation, conversation_id: int, at: int, message: str, model: str, role: str, *, live: bool
) -> None:
    """Copy a conversation up to a message, and continue there: a user's message is sent again, an agent's is written again.

    Calls that the original made get its recorded results. At a call without one the fork stops, with exit code 6; with --live the
    call is made. `conversation show` lists the messages.
    """
    from headway.surfaces.cli.commands.chat import run_fork  # noqa: PLC0415  imports asyncio, which few commands need

    request = ForkRequest(at, message, model, role, live, sender=SENDER)
    with invocation.open_ledger() as ledger:
        ledger.read(finding.get_conversation, conversation_id)  # before the model layer is loaded
    run_fork(
        invocation,
        request,
        lambda forks, tx, tenant_id, checked: forks.begin_at_message(tx, tenant_id, conversation_id, checked),
    )


def build_conversation_row(conversation: Conversation) -> Sequence[str]:
    return str(conversation.id), conversation.key, conversation.title


@conversation.command("rename")
@click.argument("conversation_id", metavar="ID", type=CONVERSATION_ID)
@click.argument("title", nargs=-1, required=True)
@pass_invocation
def rename_conversation(invocation: Invocation, conversation_id: int, title: tuple[str, ...]) -> None:
    """Rename a conversation."""
    with invocation.open_ledger() as ledger:
        row = ledger.write(conversations.rename_conversation, conversation_id, " ".join(title))
    invocation.answer({"conversation": row.as_json()}, lambda: print_row(build_conversation_row(row)))


@conversation.command("rm")
@click.argument("ids", nargs=-1, required=True, type=CONVERSATION_ID, metavar="ID…")
@pass_invocation
def remove_conversations(invocation: Invocation, ids: tuple[int, ...]) -> None:
    """Delete conversations with their todos and notes. For a day, `conversation restore` brings them back."""
    with invocation.open_ledger() as ledger:
        tenant_id, unique_ids = ledger.scope.tenant_id, list(dict.fromkeys(ids))
        until = ledger.write(
            lambda tx, _tenant_id: [conversations.remove_conversation(tx, tenant_id, id_) for id_ in unique_ids][-1]
        )

    def draw() -> None:
        names = " ".join(map(str, unique_ids))
        click.echo(f"deleted {names}; `headway conversation restore {names}` works until {format_time(until)}")

    invocation.answer({"deleted": True, "restorable_until": until // 1000}, draw)


@conversation.command("restore")
@click.argument("ids", nargs=-1, required=True, type=CONVERSATION_ID, metavar="ID…")
@pass_invocation
def restore_conversations(invocation: Invocation, ids: tuple[int, ...]) -> None:
    """Restore conversations that were deleted within the last day."""
    with invocation.open_ledger() as ledger:
        tenant_id, unique_ids = ledger.scope.tenant_id, list(dict.fromkeys(ids))
        rows = ledger.write(lambda tx, _tenant_id: [conversations.restore(tx, tenant_id, id_) for id_ in unique_ids])
    invocation.answer(
        {"conversations": [row.as_json() for row in rows]},
        lambda: print_table(CONVERSATION_HEADINGS, map(build_conversation_row, rows), ""),
    )


@conversation.command("search")
@click.argument("words", nargs=-1, required=True)
@limit_option
@pass_invocation
def search_conversations(invocation: Invocation, words: tuple[str, ...], limit: int) -> None:
    """Find conversations with all WORDS in their titles or messages, newest first. Case does not matter."""
    with invocation.open_ledger() as ledger:
        find = partial(ledger.read, conversation_pages.list_conversations, ConversationFilter(" ".join(words)))
        page = find(limit)
        rows, excerpts = page.conversations, dict(page.excerpts)
        while page.next_cursor and len(rows) < limit:  # each read covers a part, and other work can run between
            page = find(limit - len(rows), page.next_cursor)
            rows, excerpts = rows + page.conversations, {**excerpts, **page.excerpts}
    found = page._replace(conversations=rows, excerpts=excerpts)
    cells = [(*build_conversation_row(row), excerpts.get(row.id, "")) for row in rows]
    headings = (*CONVERSATION_HEADINGS, "message")
    invocation.answer(
        found.as_json(),
        lambda: print_table(headings, cells, "no conversation has all these words", more=bool(found.next_cursor)),
    )
