"""Conversations, looked up by id or key, and their turns."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID

import pytest

from headway.actions.todos import conversations, finding, todo_lists, todos
from headway.ledger.errors import Invalid, NameTaken, NotFound, TextTooLong, UnsafeText
from headway.ledger.scope import Selection
from headway.ledger.text import NAME_LIMIT
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase
from headway.storage.stores import conversations as conversation_store
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.tables import each_row


def test_a_conversation_can_be_read_back_by_id_and_by_key(desk: TenantHarness, clock: FixedClock) -> None:
    conversation = desk.conversation(title="Dinner 🍝", key="slack/C042")

    assert (conversation.title, conversation.key, conversation.created_at) == ("Dinner 🍝", "slack/C042", clock.now)
    assert desk.read(finding.get_conversation, conversation.id) == conversation
    assert desk.read(finding.resolve, "slack/C042") == conversation
    assert desk.read(finding.resolve, str(conversation.id)) == conversation


def test_a_conversation_without_a_key_gets_a_unique_one(desk: TenantHarness) -> None:
    first, second = desk.conversation(), desk.conversation()

    assert UUID(first.key).hex == first.key
    assert first.key != second.key


def test_a_conversation_has_its_own_uuid_besides_its_key(desk: TenantHarness) -> None:
    conversation = desk.conversation(key="../../etc/passwd")

    assert UUID(conversation.uuid).hex == conversation.uuid


def test_a_key_is_unique_within_its_tenant_and_only_there(database: DirectDatabase, desk: TenantHarness) -> None:
    own = desk.conversation(key="daily")
    foreign = TenantHarness(database, "rival").conversation(key="daily")

    with pytest.raises(NameTaken, match="'daily'"):
        desk.conversation(key="daily")
    assert desk.read(finding.resolve, "daily") == own
    assert foreign.id != own.id
    assert desk.count("conversations") == 1


def test_a_number_is_an_id_or_a_key_and_refused_when_it_is_one_of_each(desk: TenantHarness) -> None:
    first = desk.conversation()
    misleading = desk.conversation(key=str(first.id))
    year, issue = desk.conversation(key="2026"), desk.conversation(key="#404")

    with pytest.raises(Invalid, match=f"Write #{first.id} or #{misleading.id}"):
        desk.read(finding.resolve, str(first.id))
    assert desk.read(finding.resolve, f"#{first.id}") == first
    assert desk.read(finding.resolve, f"#{misleading.id}") == misleading
    assert desk.read(finding.resolve, "2026") == year
    assert desk.read(finding.resolve, "#404") == issue


def test_a_conversation_whose_key_is_its_own_id_is_found_by_it(desk: TenantHarness) -> None:
    before = desk.conversation()
    own = desk.conversation(key=str(before.id + 1))

    assert own.id == before.id + 1
    assert desk.read(finding.resolve, own.key) == own


def test_a_key_with_a_number_sign_is_refused_when_it_is_also_an_id(desk: TenantHarness) -> None:
    first = desk.conversation()
    second = desk.conversation(key=f"#{first.id}")

    with pytest.raises(Invalid, match=f"Write {first.id} or {second.id}"):
        desk.read(finding.resolve, second.key)


@pytest.mark.parametrize(
    "reference", ["", "404", "#404", "#", "-1", "٣", "0", "9" * 18, "9" * 19, "9" * 5_000, "nobody's", "x" * 100_000]
)
def test_an_unknown_conversation_key_is_not_found_in_a_short_line(desk: TenantHarness, reference: str) -> None:
    desk.conversation(key="somebody's")

    with pytest.raises(NotFound, match=r"^No conversation ") as refusal:
        desk.read(finding.resolve, reference)
    assert len(str(refusal.value)) < 150


@each_row(("key", "error"), [("", Invalid), ("two\nlines", Invalid), ("\ud800", UnsafeText), ("x" * (NAME_LIMIT + 1), TextTooLong)])
def test_a_bad_key_opens_nothing(desk: TenantHarness, key: str, error: type[Invalid]) -> None:
    with pytest.raises(error):
        desk.conversation(key=key)
    assert desk.count("conversations") == 0


def test_conversations_are_listed_newest_first_a_page_at_a_time(desk: TenantHarness) -> None:
    newest_first = [desk.conversation() for _ in range(5)][::-1]
    first_page = desk.read(conversations.list_conversations, 3)
    second_page = desk.read(conversations.list_conversations, 3, before=first_page[-1].id)

    assert first_page + second_page == newest_first


@each_row("limit", [0, -1, 501])
def test_a_page_has_one_to_five_hundred_rows(desk: TenantHarness, limit: int) -> None:
    for view in (conversations.list_conversations, todo_lists.list_ready_todos):
        with pytest.raises(Invalid, match="limit must be between 1 and 500"):
            desk.read(view, limit=limit)


def test_a_turn_has_a_uuid_and_a_list_of_its_own(desk: TenantHarness) -> None:
    conversation = desk.conversation()
    turn, other = (desk.write(conversations.open_turn, conversation.id).id for _ in range(2))
    desk.add("planned", conversation_id=conversation.id, turn_id=turn)
    desk.add("planned elsewhere", conversation_id=conversation.id, turn_id=other)
    desk.add("not planned", conversation_id=conversation.id)

    assert str(UUID(turn)) == turn
    assert desk.read(finding.get_turn, turn).conversation_id == conversation.id
    assert desk.subjects(Selection(turn_id=turn)) == ["planned"]
    assert desk.read(todo_lists.get_todo_list, Selection(turn_id=turn), 50).counts["pending"] == 1


def test_an_unknown_turn_is_not_an_empty_one(desk: TenantHarness) -> None:
    with pytest.raises(NotFound, match=r"^No turn '404'\.$"):
        desk.subjects(Selection(turn_id="404"))


@each_row("hostile", ["nul\0", "half \ud800"])
def test_looking_up_unstorable_text_is_refused_the_same_way_on_every_database(desk: TenantHarness, hostile: str) -> None:
    for look in (
        partial(finding.resolve, reference=hostile),
        partial(finding.get_turn, turn_id=hostile),
        partial(finding.lock_turn, turn_id=hostile),
        partial(todo_lists.list_todos, selection=Selection(turn_id=hostile)),
        partial(todo_lists.list_todos, selection=Selection(agent_id=hostile)),
        partial(todos.add_todo, draft=Draft("x", turn_id=hostile)),
    ):
        with pytest.raises(UnsafeText):
            desk.database.write(partial(look, tenant_id=desk.tenant.id))


def test_a_turn_needs_a_conversation(desk: TenantHarness) -> None:
    with pytest.raises(NotFound, match=r"No conversation 404\."):
        desk.write(conversations.open_turn, 404)
    assert desk.count("turns") == 0


def test_two_concurrent_first_uses_of_a_key_get_the_same_conversation(postgres_url: str) -> None:
    both_looked = threading.Barrier(2)

    def first_use(name: str) -> int:
        waited: list[str] = []

        def work(tx: Transaction) -> int:
            assert waited or conversation_store.find_by_key(tx, tenant_id, "k") is None
            if not waited:
                waited.append(name)
                both_looked.wait(30)
            return conversations.ensure(tx, tenant_id, "k").id

        with DirectDatabase(postgres_url) as own:
            return own.write(work)

    with DirectDatabase(postgres_url) as database, ThreadPoolExecutor() as pool:
        tenant_id = TenantHarness(database).tenant.id
        assert len(set(pool.map(first_use, ("one", "other")))) == 1
