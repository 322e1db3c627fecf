"""`headway.checks`: functions that build definitions of checks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import headway
from headway import Headway, Invalid, checks
from headway.ledger.parsing.checks import FIELDS, parse_checks

EVERY_KIND = [
    checks.command("pytest -q", exit=1, expect="passed", timeout_s=60, folder="/srv/project", name="tests"),
    checks.file("a.md", exists=True, contains="x", sha256="0" * 64, schema={"type": "object"}, folder="/srv", name="report"),
    checks.http("https://example.com", status=204, json={"ok": True}, name="health"),
    checks.outcome({"type": "integer"}, name="a count"),
    checks.tool("calculate", {"expression": "1+1"}, expect="2"),
    checks.judge("It is polite.", name="tone"),
]


def test_they_cover_every_field_of_every_kind() -> None:
    parsed = parse_checks(EVERY_KIND, "operator")
    assert [{**check, "by": "operator"} for check in EVERY_KIND] == parsed
    named = {check["kind"]: check.keys() - {"kind"} for check in EVERY_KIND}
    assert named == {kind: {*fields, "name"} for kind, fields in FIELDS.items()}


def test_a_todo_takes_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Headway.open(home=tmp_path, model="rehearsal") as opened:
            todo = await opened.todos.add("count", checks=[checks.outcome({"type": "integer"})])
            assert todo.checks == ({"kind": "outcome", "schema": {"type": "integer"}, "by": "operator"},)

    asyncio.run(scenario())


def test_checks_that_are_no_list_are_refused_with_an_error_of_headway(tmp_path: Path) -> None:
    not_lists: tuple[Any, ...] = (checks.command("pytest -q"), "pytest -q", ["pytest -q"])
    words: Any = "one subject"

    async def scenario() -> None:
        async with Headway.open(home=tmp_path, model="rehearsal") as opened:
            todo = await opened.todos.add("count")
            for wrong in not_lists:
                with pytest.raises(Invalid, match="checks"):
                    await opened.todos.add("count", checks=wrong)
                with pytest.raises(Invalid, match="checks"):
                    await opened.todos.update(todo.id, checks=wrong)
                with pytest.raises(Invalid, match="checks"):
                    await opened.goals.add("count", checks=wrong)
            with pytest.raises(Invalid, match="todos"):
                await opened.todos.add_many(words)
            assert [one.subject for one in await opened.todos.list()] == ["count"]

    asyncio.run(scenario())


def test_a_console_completes_the_public_names_and_nothing_else() -> None:
    assert dir(headway) == sorted(headway.__all__)
