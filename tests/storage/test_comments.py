"""Comments on todos: who may write and delete them, and that they go with their todo."""

import json

import pytest

from headway.actions.installation import pruning
from headway.actions.todos import board, conversations, todos
from headway.ledger.errors import BadCursor, Forbidden, Invalid, NotFound
from headway.storage import logged_transaction
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.tables import each_row


def list_texts(desk: TenantHarness, todo_id: int) -> list[str]:
    return [comment.text for comment in desk.read(board.list_comments, todo_id).comments]


def count_rows(desk: TenantHarness) -> int:
    def look(tx: Transaction) -> int:
        row = tx.one("SELECT COUNT(*) FROM comments WHERE tenant_id = ?", desk.tenant.id)
        return int(row[0]) if row else 0

    return desk.database.read(look)


def test_people_comment_on_a_todo_and_delete_their_own_comments(desk: TenantHarness) -> None:
    todo, other = desk.add("paint the door"), desk.add("paint the gate")
    mine = desk.write(board.add_comment, todo.id, "  Which colour? 🚪 ", "ada")
    desk.write(board.add_comment, todo.id, "Green.", "bob")
    desk.write(board.add_comment, other.id, "Also green.", "bob")

    assert list_texts(desk, todo.id) == ["Which colour? 🚪", "Green."]
    for editor in ("bob", "operator"):
        with pytest.raises(Forbidden, match="written by ada"):
            desk.write(board.edit_comment, todo.id, mine.id, "Red!", editor)
    with pytest.raises(NotFound):
        desk.write(board.edit_comment, other.id, mine.id, "Red?", "ada")
    edited = desk.write(board.edit_comment, todo.id, mine.id, " Red? ", "ada")
    assert (edited.text, edited.created_at, edited.edited_at > 0) == ("Red?", mine.created_at, True)
    assert desk.write(board.edit_comment, todo.id, mine.id, "Red?", "ada") == edited, "nothing differs"
    assert list_texts(desk, todo.id) == ["Red?", "Green."]
    with pytest.raises(Forbidden, match="written by ada"):
        desk.write(board.remove_comment, todo.id, mine.id, "bob", all_comments=False)
    with pytest.raises(NotFound):
        desk.write(board.remove_comment, other.id, mine.id, "ada", all_comments=True)
    desk.write(board.remove_comment, todo.id, mine.id, "ada", all_comments=False)
    desk.write(board.remove_comment, todo.id, desk.read(board.list_comments, todo.id).comments[0].id, "ada", all_comments=True)
    assert list_texts(desk, todo.id) == []

    changes = [json.loads(data) for kind, data in desk.events() if kind == "comment_changed"]
    assert [(change["change"], change["todo_id"], change["person"]) for change in changes] == [
        ("created", todo.id, "ada"),
        ("created", todo.id, "bob"),
        ("created", other.id, "bob"),
        ("updated", todo.id, "ada"),
        ("deleted", todo.id, "ada"),
        ("deleted", todo.id, "bob"),
    ]
    assert "Green" not in json.dumps(changes), "a deleted comment leaves no text in the log"


@each_row("text", ["", " \n", "x" * 10_001, "a\0b"])
def test_a_comment_needs_a_text(desk: TenantHarness, text: str) -> None:
    todo = desk.add()
    with pytest.raises(Invalid):
        desk.write(board.add_comment, todo.id, text, "ada")
    comment = desk.write(board.add_comment, todo.id, "Green.", "ada")
    with pytest.raises(Invalid):
        desk.write(board.edit_comment, todo.id, comment.id, text, "ada")
    assert list_texts(desk, todo.id) == ["Green."]


def test_comments_are_listed_page_by_page(desk: TenantHarness) -> None:
    todo = desk.add()
    for n in range(5):
        desk.write(board.add_comment, todo.id, str(n), "ada")
    texts, cursor = [], None
    for _ in range(3):
        page = desk.read(board.list_comments, todo.id, 2, cursor)
        texts.append([comment.text for comment in page.comments])
        cursor = page.next_cursor
    assert (texts, cursor) == ([["0", "1"], ["2", "3"], ["4"]], None)
    with pytest.raises(BadCursor):
        desk.read(board.list_comments, todo.id, 2, "nonsense")


def test_comments_are_counted_and_deleted_with_their_todo(desk: TenantHarness) -> None:
    conversation = desk.conversation()
    wide, planned = desk.add("wide"), desk.add("planned", conversation_id=conversation.id)
    for todo in (wide, planned):
        desk.write(board.add_comment, todo.id, "ä" * 500, "ada")

    def get_bytes() -> tuple[int, int]:
        def look(tx: Transaction) -> tuple[int, int]:
            row = tx.one("SELECT bytes FROM id_ranges WHERE tenant_id = ? AND kind = 'events'", desk.tenant.id)
            return int(row[0]) if row else 0, logged_transaction.count(tx, desk.tenant.id)

        return desk.database.read(look)

    assert get_bytes()[0] == get_bytes()[1] > 2_000
    desk.write(todos.remove_todo, wide.id)
    assert (count_rows(desk), get_bytes()[0]) == (1, get_bytes()[1])
    with pytest.raises(NotFound):
        desk.write(board.add_comment, wide.id, "too late", "ada")

    desk.write(conversations.remove_conversation, conversation.id)
    while desk.database.write(lambda tx: pruning.prune_deleted(tx, desk.tenant.id, tx.now + 1, None)).position:
        pass
    assert count_rows(desk) == 0
    assert get_bytes()[0] == get_bytes()[1]


def test_dependencies_are_shown_in_both_directions(desk: TenantHarness) -> None:
    first = desk.add("dig")
    second = desk.add("plant", depends_on=(first.id,))
    third = desk.add("water", depends_on=(second.id, first.id))
    desk.change(first, status="completed")

    around = desk.read(todos.list_neighbours, second.id)
    assert [(one.id, one.subject, one.status) for one in around.waits_for] == [(first.id, "dig", "completed")]
    assert [(one.id, one.subject) for one in around.needed_by] == [(third.id, "water")]
    assert not around.has_more
    with pytest.raises(NotFound):
        TenantHarness(desk.database, "rival").read(todos.list_neighbours, second.id)
