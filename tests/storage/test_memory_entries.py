"""Memory that people list, search and change."""

import json
from collections.abc import Callable

import pytest

from headway.actions.turns import memory
from headway.actions.turns.memory import MemoryChange, MemoryPage, NewMemory
from headway.ledger.errors import BadCursor, Conflict, HeadwayError, Invalid, NotFound
from headway.ledger.scope import MemorySelection, Scope
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness

EVERYTHING = MemorySelection()


def add(desk: TenantHarness, text: str, kind: str = "note", conversation_id: int = 0) -> int:
    return desk.write(memory.add_note, NewMemory(text, kind, conversation_id), "ada").id


def list_texts(desk: TenantHarness, selection: MemorySelection = EVERYTHING, query: str = "") -> list[str]:
    return [entry.text for entry in desk.read(memory.list_notes, selection, query).entries]


def list_changes(desk: TenantHarness) -> list[tuple[str, int, int]]:
    events = [json.loads(data) for kind, data in desk.events() if kind == "memory_changed"]
    return [(event["change"], event["id"], event["revision"]) for event in events]


def test_entries_are_listed_newest_first_by_conversation_and_kind(desk: TenantHarness) -> None:
    here, there = desk.conversation().id, desk.conversation().id
    for place, (text, kind, conversation) in enumerate([("wide", "fact", 0), ("here", "note", here), ("there", "fact", there)]):
        assert add(desk, text, kind, conversation) > place

    assert list_texts(desk) == ["there", "here", "wide"]
    assert list_texts(desk, MemorySelection(here)) == ["here", "wide"]
    assert list_texts(desk, MemorySelection(0)) == ["wide"]
    assert list_texts(desk, MemorySelection(there, "fact")) == ["there", "wide"]
    assert list_texts(desk, MemorySelection(kind="fact")) == ["there", "wide"]
    assert list_texts(desk, MemorySelection(here), "WI") == ["wide"]
    assert list_texts(TenantHarness(desk.database, "rival")) == []


def test_pages_and_searches_continue_at_their_cursor(desk: TenantHarness) -> None:
    for n in range(7):
        add(desk, f"{'odd' if n % 2 else 'even'} {n}")

    def collect(query: str) -> list[str]:
        page: MemoryPage = desk.read(memory.list_notes, EVERYTHING, query, 2)
        texts = [entry.text for entry in page.entries]
        while page.next_cursor:
            page = desk.read(memory.list_notes, EVERYTHING, query, 2, page.next_cursor)
            assert page.searched_all
            texts += [entry.text for entry in page.entries]
        return texts

    assert collect("") == ["even 6", "odd 5", "even 4", "odd 3", "even 2", "odd 1", "even 0"]
    assert collect("EVEN") == ["even 6", "even 4", "even 2", "even 0"]
    with pytest.raises(BadCursor):
        desk.read(memory.list_notes, EVERYTHING, "", 2, "bm90IG91cnM")


def test_a_search_says_that_it_did_not_cover_all_entries_and_continues(sqlite_url: str) -> None:
    def fill(tx: Transaction, tenant_id: int) -> None:
        memory.add_note(tx, tenant_id, NewMemory("a needle"), "ada")
        for n in range(memory.SEARCH_LIMIT):
            memory.add_note(tx, tenant_id, NewMemory(f"hay {n}"), "ada")

    with DirectDatabase(sqlite_url) as database:
        desk = TenantHarness(database)
        desk.write(fill)
        first = desk.read(memory.list_notes, EVERYTHING, "needle")
        rest = desk.read(memory.list_notes, EVERYTHING, "needle", 50, first.next_cursor)

        assert (first.entries, first.searched_all) == ([], False)
        assert ([entry.text for entry in rest.entries], rest.searched_all, rest.next_cursor) == (["a needle"], True, None)
        assert desk.read(memory.list_notes, EVERYTHING, "").searched_all


def test_an_edit_keeps_the_agent_and_names_the_person(desk: TenantHarness, clock: FixedClock) -> None:
    scope = Scope(desk.tenant.id, desk.conversation().id, None, "researcher")
    entry = desk.database.write(lambda tx: memory.remember(tx, scope, "The door code is 4711.", "fact", tenant_wide=True))
    clock.advance(60)
    edited = desk.write(memory.change_note, entry.id, MemoryChange(" The door code is 4712. "), "ada")
    again = desk.write(memory.change_note, entry.id, MemoryChange("The door code is 4712.", "fact"), "grace")

    assert (edited.text, edited.kind, edited.revision) == ("The door code is 4712.", "fact", 1)
    assert edited.updated_at - edited.created_at == 60_000
    assert (edited.origin.agent_id, edited.origin.person) == ("researcher", "ada")
    assert (edited.conversation_id, edited.origin.conversation_id) == (0, scope.conversation_id)
    assert again == edited == desk.read(memory.get_note, entry.id)
    assert list_changes(desk) == [("created", entry.id, 0), ("updated", entry.id, 1)]
    with pytest.raises(Conflict, match=rf"^Memory entry #{entry.id} was edited by ada in the meantime\. Nothing was changed"):
        desk.write(memory.change_note, entry.id, MemoryChange("mine", revision=0), "grace")
    assert desk.write(memory.change_note, entry.id, MemoryChange("mine", revision=1), "grace").origin.person == "grace"


def test_a_deleted_entry_is_gone_and_no_event_has_its_text(desk: TenantHarness) -> None:
    entry_id = add(desk, "a secret")
    desk.write(memory.change_note, entry_id, MemoryChange("a secret, edited"), "ada")
    desk.write(memory.remove_note, entry_id)

    assert list_texts(desk) == []
    assert list_changes(desk) == [("created", entry_id, 0), ("updated", entry_id, 1), ("deleted", entry_id, 1)]
    assert [data for _, data in desk.events() if "secret" in data] == []
    with pytest.raises(NotFound, match=rf"^No memory entry #{entry_id}\.$"):
        desk.write(memory.remove_note, entry_id)


REFUSED: list[tuple[type[HeadwayError], Callable[[TenantHarness, int], object]]] = [
    (Invalid, lambda desk, _id: add(desk, " \n")),
    (Invalid, lambda desk, _id: add(desk, "x" * (memory.ENTRY_LIMIT + 1))),
    (Invalid, lambda desk, _id: add(desk, "x", "a\nb")),
    (NotFound, lambda desk, _id: add(desk, "x", conversation_id=987_654)),
    (Invalid, lambda desk, id_: desk.write(memory.change_note, id_, MemoryChange("a\0b"), "ada")),
    (Invalid, lambda desk, id_: desk.write(memory.change_note, id_, MemoryChange(kind=" "), "ada")),
    (Invalid, lambda desk, _id: desk.read(memory.list_notes, EVERYTHING, "x" * 1_001)),
    (Invalid, lambda desk, _id: desk.read(memory.list_notes, MemorySelection(kind="a\0b"))),
    (NotFound, lambda desk, _id: desk.read(memory.list_notes, MemorySelection(987_654))),
]


def test_what_cannot_be_is_refused_and_nothing_changes(desk: TenantHarness) -> None:
    entry_id = add(desk, "kept")
    for error, attempt in REFUSED:
        with pytest.raises(error):
            attempt(desk, entry_id)

    assert list_texts(desk) == ["kept"]
    assert list_changes(desk) == [("created", entry_id, 0)]
