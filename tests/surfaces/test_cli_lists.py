"""`todo list` and `todo ready`: order, limits, statuses, conversations, turns, tenants."""

import json
from typing import Any

import pytest

from tests.surfaces.shell import Shell, get_error_line
from tests.tables import each_row

TURN = "6f2c1a9e-0d6b-4b53-9a51-3f3c0c7f9d10"


def subjects(answer: Any) -> list[str]:
    return [todo["subject"] for todo in answer["todos"]]


def add_one_of_each(headway: Shell) -> None:
    for number, verb in enumerate(("", "start", "done", "cancel"), 1):
        headway.ok("todo", "add", verb or "add")
        if verb:
            headway.ok("todo", verb, f"{number}")


def add_many(headway: Shell, count: int) -> None:
    document = {"todos": [{"subject": f"todo {number}"} for number in range(1, count + 1)]}
    headway.ok("todo", "import", "-", stdin=json.dumps(document))


def import_turn(headway: Shell) -> int:
    """Import a conversation with a plan of two todos in one turn, and one todo outside it."""
    turns = {"plan a": TURN, "plan b": TURN, "beside": None}
    todos = [{"subject": subject, "conversation_id": 7, "turn_id": turn} for subject, turn in turns.items()]
    document = {"conversations": [{"id": 7, "key": "k"}], "todos": todos}
    conversation: int = headway.json("todo", "import", "-", stdin=json.dumps(document))["todos"][0]["conversation_id"]
    return conversation


def test_a_list_shows_open_todos_and_with_all_also_ended_ones(headway: Shell) -> None:
    add_one_of_each(headway)

    assert headway.ok("todo", "list") == "▶ #2 [in_progress] start\n#1 [pending] add\n"
    assert subjects(headway.json("todo", "list", "--all")) == ["start", "add", "cancel", "done"]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--status", "pending"], ["add"]),
        (["--status", "completed"], ["done"]),
        (["--status", "canceled"], ["cancel"]),
        (["--status", "cancelled"], ["cancel"]),
        (["--status", "completed", "--status", "in_progress"], ["start", "done"]),
    ],
)
def test_a_list_of_some_statuses_shows_no_others(headway: Shell, options: list[str], shown: list[str]) -> None:
    add_one_of_each(headway)
    assert subjects(headway.json("todo", "list", *options)) == shown


def test_a_list_is_one_document_even_when_it_is_empty(headway: Shell) -> None:
    assert headway.json("todo", "list") == {"todos": [], "next_cursor": None}
    assert headway.json("todo", "ready") == {"todos": []}
    assert headway.ok("todo", "list") == "no open todos\n"


def test_a_list_shows_fifty_by_default(headway: Shell) -> None:
    add_many(headway, 620)

    assert len(headway.ok("todo", "list").splitlines()) == 50
    assert len(headway.ok("todo", "list", "--limit", "3").splitlines()) == 3
    whole = headway.ok("todo", "list", "--limit", "1000").splitlines()
    assert whole == [f"#{number} [pending] todo {number}" for number in range(1, 621)]
    assert headway("todo", "list").err == "50 shown, more exist: use --limit N\n"
    assert headway("todo", "list", "--limit", "620").err == headway("todo", "list", "--json").err == ""
    assert headway.json("todo", "list")["next_cursor"]
    assert headway.json("todo", "list", "--limit", "620")["next_cursor"] is None


def test_a_list_can_be_one_agents(headway: Shell) -> None:
    headway.ok("todo", "add", "hers", "--agent", "ada")
    headway.ok("todo", "add", "ours")

    assert subjects(headway.json("todo", "list", "--agent", "ada")) == ["hers"]


def test_a_conversation_is_named_by_id_or_by_key(headway: Shell) -> None:
    conversation = headway.json("conversation", "new", "a thread", "--key", "thread-1")["conversation"]
    other = headway.json("conversation", "new", "another")["conversation"]
    headway.ok("todo", "add", "tenant-wide")
    headway.ok("todo", "add", "in it", "--conversation", "thread-1")
    headway.ok("todo", "add", "elsewhere", "--conversation", other["key"])

    for reference in ("thread-1", f"{conversation['id']}", f"#{conversation['id']}"):
        assert subjects(headway.json("todo", "list", "--conversation", reference)) == ["in it", "tenant-wide"]
        assert subjects(headway.json("todo", "ready", "--conversation", reference)) == ["in it", "tenant-wide"]
    assert sorted(subjects(headway.json("todo", "list"))) == ["elsewhere", "in it", "tenant-wide"]
    assert f"#2 [pending] in it (conversation {conversation['id']})\n" in headway.ok("todo", "list")


def test_a_number_that_is_ones_id_and_the_others_key_is_refused(headway: Shell) -> None:
    headway.ok("conversation", "new", "first", "--key", "2")
    headway.ok("todo", "add", "by its key", "--conversation", "2")
    headway.ok("conversation", "new", "second")

    assert "Write #2 or #1" in get_error_line(headway("todo", "add", "which", "--conversation", "2"), 2)
    assert subjects(headway.json("todo", "list", "--conversation", "#1")) == ["by its key"]
    assert subjects(headway.json("todo", "list", "--conversation", "#2")) == []


@each_row("reference", ["404", "nobody's", "0", "-1", "9" * 5_000, "x" * 100_000])
@each_row("verb", [["list"], ["add", "x"], ["ready"], ["claim", "--agent", "ada"], ["export"]])
def test_a_conversation_that_is_not_there_is_not_found(headway: Shell, verb: list[str], reference: str) -> None:
    line = get_error_line(headway("todo", *verb, "--conversation", reference), 3)
    assert line.startswith("headway: No conversation ")
    assert len(line) < 200


def test_a_turns_plan_is_a_list_of_its_own(headway: Shell) -> None:
    conversation = import_turn(headway)

    assert subjects(headway.json("todo", "list", "--turn", TURN)) == ["plan a", "plan b"]
    more = headway.json("todo", "add", "plan c", "--turn", TURN, "--conversation", f"{conversation}")["todo"]
    assert (more["turn_id"], more["position"]) == (TURN, 2)
    assert subjects(headway.json("todo", "list", "--turn", TURN)) == ["plan a", "plan b", "plan c"]


def test_a_turns_rows_are_neither_handed_out_nor_deleted(headway: Shell) -> None:
    conversation = import_turn(headway)

    assert subjects(headway.json("todo", "ready", "--conversation", f"{conversation}")) == ["beside"]
    assert "cannot be deleted" in get_error_line(headway("todo", "rm", "1", "--yes"), 4)
    assert headway("todo", "cancel", "1").code == 0


def test_a_turn_that_is_not_there_is_not_found(headway: Shell) -> None:
    headway.ok("conversation", "new", "--key", "k")
    assert headway("todo", "list", "--turn", TURN).code == 3
    assert headway("todo", "add", "x", "--turn", TURN, "--conversation", "k").code == 3


def test_a_turn_belongs_to_its_conversation(headway: Shell) -> None:
    import_turn(headway)
    headway.ok("conversation", "new", "--key", "other")

    assert "belongs to conversation" in get_error_line(headway("todo", "add", "x", "--turn", TURN, "--conversation", "other"), 4)


def test_tenants_share_a_database_and_nothing_in_it(headway: Shell, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", database_url)
    for tenant in ("acme", "umbrella"):
        headway.ok("tenant", "add", tenant)
        headway.ok("conversation", "new", "--key", "thread", "--tenant", tenant)
        headway.ok("todo", "add", f"of {tenant}", "--tenant", tenant, "--conversation", "thread")
    headway.ok("todo", "add", "mine")
    foreign_todo = headway.json("todo", "list", "--tenant", "acme")["todos"][0]

    assert subjects(headway.json("todo", "list")) == ["mine"]
    assert subjects(headway.json("todo", "list", "--tenant", "umbrella")) == ["of umbrella"]
    assert subjects(headway.json("todo", "ready", "--tenant", "umbrella")) == ["of umbrella"]
    assert "of acme" not in headway.ok("todo", "export", "--tenant", "umbrella")
    for verb in ("show", "start", "done", "cancel", "reopen", "rm"):
        foreign = headway("todo", verb, f"{foreign_todo['id']}", "--tenant", "umbrella")
        unknown = headway("todo", verb, "404404", "--tenant", "umbrella")
        assert get_error_line(foreign, 3).replace(f"{foreign_todo['id']}", "404404") == get_error_line(unknown, 3)
    assert headway("todo", "add", "x", "--after", f"{foreign_todo['id']}", "--tenant", "umbrella").code == 3
    assert headway("todo", "list", "--tenant", "umbrella", "--conversation", f"{foreign_todo['conversation_id']}").code == 3
    assert headway.json("todo", "show", f"{foreign_todo['id']}", "--tenant", "acme")["todo"] == foreign_todo


def test_a_tenant_that_is_not_there_is_not_found(headway: Shell) -> None:
    assert "headway admin tenant list" in get_error_line(headway("todo", "list", "--tenant", "nobody"), 3)
    assert headway("todo", "add", "x", "--tenant", "nobody").code == 3
    assert headway.json("tenant", "list") == {"tenants": []}
