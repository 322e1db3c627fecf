"""REST, the library and the command line set the same fields of todos, and filter by them."""

import asyncio
from datetime import UTC, datetime

from headway import connect
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.shell import Shell, get_error_line

DAY_END = 1_796_169_599  # of 2026-12-01


def test_rest_and_the_library_set_clear_and_filter(client: Client, service: Service) -> None:
    plain = client.add("plain")
    assert (plain["priority"], plain["due"], plain["labels"]) == ("normal", None, [])
    todo = client.add("pay", priority="high", due="2026-12-01", labels=["home", "bank", "home"])
    assert (todo["priority"], todo["due"], todo["labels"]) == ("high", DAY_END, ["bank", "home"])
    assert client.ok("GET", "/v1/todos?label=home&label=bank")["todos"] == [todo]
    assert client.ok("GET", "/v1/todos?label=home&label=other")["todos"] == []
    assert client.ok("GET", "/v1/todos/counts?priority=high&due_before=2026-12-02")["counts"]["pending"] == 1
    for refused in ("overdue=maybe", "priority=asap", "due_before=soon", "label="):
        assert client.get(f"/v1/todos?{refused}").status_code == 422
    for body in ({"due": "soon"}, {"labels": ["a\nb"]}, {"labels": ["x"] * 21}, {"priority": 1}):
        assert client.patch(f"/v1/todos/{todo['id']}", json=body).status_code == 422
    assert client.ok("GET", f"/v1/todos/{todo['id']}")["todo"] == todo

    async def use_library() -> None:
        async with connect(service.url, client.secret) as headway:
            found = await headway.todos.list(labels=["bank", "home"], priority="high", due_before=datetime(2026, 12, 2, tzinfo=UTC))
            assert [(one.id, one.due, one.labels) for one in found] == [
                (todo["id"], datetime(2026, 12, 1, 23, 59, 59, tzinfo=UTC), ("bank", "home"))
            ]
            late = await headway.todos.update(todo["id"], due=datetime(2020, 1, 1, tzinfo=UTC), labels=[])
            assert ([one.id async for one in headway.todos.iterate(overdue=True)], late.labels) == ([todo["id"]], ())
            cleared = await headway.todos.update(todo["id"], due=None, priority="normal")
            assert (cleared.priority, cleared.due, cleared.labels) == ("normal", None, ())

    asyncio.run(use_library())
    assert client.ok("GET", "/v1/todos?overdue=1")["todos"] == []


def test_commands_set_clear_show_and_filter(headway: Shell) -> None:
    headway("todo", "add", "plain")
    added = headway("todo", "add", "pay", "--priority", "urgent", "--due", "2020-12-01", "--label", "home", "--label", "two words")
    line = '#2 [pending] pay priority:urgent due:2020-12-01 label:home label:"two words"'
    assert added.out.strip() == line
    assert headway("todo", "ready").out.splitlines()[0] == line
    assert headway("todo", "list", "--overdue", "--label", "home", "--priority", "urgent").out.strip() == line
    assert headway("todo", "list", "--due-before", "2020-01-01").out.strip() == "no todos match"
    assert headway("todo", "edit", "2", "--due", "", "--label", "").out.strip() == "#2 [pending] pay priority:urgent"
    assert "priority must be" in get_error_line(headway("todo", "edit", "2", "--priority", "asap"), 2)
    assert headway("todo", "list").out.splitlines()[0] == "#1 [pending] plain"
