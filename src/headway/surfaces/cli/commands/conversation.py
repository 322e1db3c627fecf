"""`headway conversation`: what people do with conversations. The group and its other commands are in `tenant`."""

from functools import partial

import click

from headway.actions.history import conversation_pages
from headway.actions.history.conversation_pages import ConversationFilter
from headway.actions.todos import conversations
from headway.surfaces.cli.arguments import CONVERSATION_ID, limit_option
from headway.surfaces.cli.commands.tenant import CONVERSATION_HEADINGS, build_conversation_row, conversation
from headway.surfaces.cli.context import Invocation, pass_invocation
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_row, print_table

__all__ = ["conversation"]


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
