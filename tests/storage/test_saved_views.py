"""Saved views of the board: their names, their filters, and what is refused."""

import json

import pytest

from headway.actions.todos import board
from headway.actions.todos.board import VIEWS_LIMIT, ViewChange
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.scope import SavedView, ViewFilters
from headway.testing import TenantHarness

ALL = ViewFilters("pending", 7, "ci-bot", "broken", "deploy 🚪")


def add(desk: TenantHarness, name: str, filters: ViewFilters = ALL) -> SavedView:
    return desk.write(board.add_saved_view, name, filters, "ada")


def list_names(desk: TenantHarness) -> list[str]:
    return [view.name for view in desk.read(board.list_all_saved_views)]


def test_views_are_saved_listed_by_name_changed_and_deleted(desk: TenantHarness) -> None:
    second, first = add(desk, "  zebra ", ViewFilters(q="  words \n")), add(desk, "Ärger")
    apple = add(desk, "apple", ViewFilters(conversation_id=0))
    assert desk.read(board.list_all_saved_views) == [apple, second, first]
    assert (second.name, second.filters, second.person, second.revision) == ("zebra", ViewFilters(q="words"), "ada", 0)

    renamed = desk.write(board.change_saved_view, second.id, ViewChange(name="Aardvark"), "bob")
    assert (renamed.filters, renamed.person, renamed.revision) == (second.filters, "bob", 1)
    changed = desk.write(board.change_saved_view, second.id, ViewChange(filters=ALL, revision=1), "ada")
    assert desk.write(board.change_saved_view, second.id, ViewChange("Aardvark", ALL, 2), "bob") == changed, "nothing differs"
    desk.write(board.remove_saved_view, first.id)
    assert desk.read(board.list_all_saved_views) == [changed, apple]

    changes = [json.loads(data) for kind, data in desk.events() if kind == "view_changed"]
    assert [(change["change"], change["view"]["name"], change["view"]["revision"]) for change in changes] == [
        ("created", "zebra", 0),
        ("created", "Ärger", 0),
        ("created", "apple", 0),
        ("updated", "Aardvark", 1),
        ("updated", "Aardvark", 2),
        ("deleted", "Ärger", 0),
    ]
    assert changes[2]["view"]["filters"] == {
        "status": None,
        "conversation_id": "tenant",
        "agent_id": None,
        "proof": None,
        "priority": None,
        "label": None,
        "overdue": None,
        "q": None,
    }


def test_a_name_is_taken_in_every_case(desk: TenantHarness) -> None:
    mine, other = add(desk, "Straße"), add(desk, "Ｗork")
    for name in ("straße", "STRASSE", " Straße "):
        with pytest.raises(Conflict, match="already a saved view named 'Straße'"):
            add(desk, name)
        with pytest.raises(Conflict, match="already a saved view named 'Straße'"):
            desk.write(board.change_saved_view, other.id, ViewChange(name=name), "ada")
    with pytest.raises(Conflict):
        add(desk, "work")
    assert desk.write(board.change_saved_view, mine.id, ViewChange(name="STRASSE"), "ada").name == "STRASSE"
    assert add(TenantHarness(desk.database, "rival"), "Straße").name == "Straße", "names are unique within a tenant"


def test_a_view_that_somebody_else_changed_is_not_overwritten(desk: TenantHarness) -> None:
    view = add(desk, "Mine")
    desk.write(board.change_saved_view, view.id, ViewChange(filters=ViewFilters(q="theirs")), "bob")
    with pytest.raises(Conflict, match="bob changed the view 'Mine' meanwhile"):
        desk.write(board.change_saved_view, view.id, ViewChange(filters=ViewFilters(q="mine"), revision=view.revision), "ada")
    assert desk.read(board.list_all_saved_views)[0].filters.q == "theirs"


@pytest.mark.parametrize(
    ("name", "filters"),
    [
        ("", ALL),
        (" ", ALL),
        ("two\nlines", ALL),
        ("x" * 201, ALL),
        ("Mine", ViewFilters(q="x" * 1_001)),
        ("Mine", ViewFilters(q="a\0b")),
        ("Mine", ViewFilters(agent_id=" ")),
        ("Mine", ViewFilters(agent_id="x" * 201)),
    ],
)
def test_what_cannot_be_a_view_is_refused(desk: TenantHarness, name: str, filters: ViewFilters) -> None:
    with pytest.raises(Invalid):
        add(desk, name, filters)
    view = add(desk, "Old")
    with pytest.raises(Invalid):
        desk.write(board.change_saved_view, view.id, ViewChange(name, filters), "ada")
    assert desk.read(board.list_all_saved_views) == [view]


def test_the_number_of_views_is_bounded(desk: TenantHarness) -> None:
    for n in range(VIEWS_LIMIT):
        last = add(desk, f"view {n}")
    with pytest.raises(Invalid, match=f"at most {VIEWS_LIMIT} saved views. Delete one first."):
        add(desk, "one more")
    desk.write(board.remove_saved_view, last.id)
    add(desk, "one more")
    assert len(list_names(desk)) == VIEWS_LIMIT


def test_views_belong_to_their_tenant(desk: TenantHarness) -> None:
    view, rival = add(desk, "Mine"), TenantHarness(desk.database, "rival")
    assert list_names(rival) == []
    with pytest.raises(NotFound):
        rival.write(board.change_saved_view, view.id, ViewChange(name="Theirs"), "eve")
    with pytest.raises(NotFound):
        rival.write(board.remove_saved_view, view.id)
    assert desk.read(board.list_all_saved_views) == [view]
