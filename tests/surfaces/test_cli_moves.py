"""`headway admin tenant move`, and requests of a tenant that is being moved."""

import asyncio
from functools import partial
from pathlib import Path

import psycopg
import pytest

from headway import settings
from headway.cells import move_steps as arriving
from headway.cells import moving
from headway.cells.directory import Directory
from headway.surfaces.cli.context import act_as_sender
from tests.surfaces.in_process_app import open_app
from tests.surfaces.shell import Shell, get_error_line


@pytest.fixture
def eu1(headway: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell with the settings of the first of two cells, which is the directory and has the tenant acme."""
    monkeypatch.setenv("HEADWAY_DATABASE_URL", cell_urls[0])
    headway.ok("tenant", "add", "acme")
    headway.ok("cell", "add", "eu1", "--public-url", "https://eu1.example.org")
    headway.ok("cell", "add", "eu2", "--url", cell_urls[1], "--public-url", "https://eu2.example.org")
    return headway


def list_places(shell: Shell) -> dict[str, str]:
    return {row["name"]: row["cell"] for row in shell.json("tenant", "list")["tenants"]}


def interrupt_after_fence(home: Path, url: str) -> None:
    """Do what a command does that is killed when the fence is up."""
    loaded = settings.load({"home": str(home), "database_url": url})
    with (
        Directory(loaded) as directory,
        moving.open_route(directory, directory.get("eu1"), directory.get("eu2"), print, act_as_sender) as route,
    ):
        moving.fence(route, moving.begin(route, "acme"))


def test_a_tenant_moves_and_commands_follow_it(eu1: Shell, cell_urls: list[str]) -> None:
    eu1.ok("todo", "add", "before", "--tenant", "acme")

    answer = eu1.json("tenant", "move", "acme", "--to", "eu2")

    assert {name: answer["move"][name] for name in ("tenant", "from", "to", "state")} == {
        "tenant": "acme",
        "from": "eu1",
        "to": "eu2",
        "state": "done",
    }
    assert list_places(eu1) == {"acme": "eu2"}
    eu1.ok("todo", "add", "after", "--tenant", "acme")
    assert [todo["subject"] for todo in eu1.json("todo", "list", "--tenant", "acme")["todos"]] == ["before", "after"]
    assert eu1.json("tenant", "move", "acme", "--to", "eu2")["move"]["state"] == "done"  # again: nothing is left to do
    assert "tenant acme is in the cell eu1" in eu1.ok("tenant", "move", "acme", "--to", "eu1")
    assert list_places(eu1) == {"acme": "eu1"}


def test_an_interrupted_move_is_reported_and_undone_or_completed(eu1: Shell, cell_urls: list[str], tmp_path: Path) -> None:
    interrupt_after_fence(tmp_path, cell_urls[0])

    assert "is being moved to another cell" in get_error_line(eu1("todo", "add", "refused", "--tenant", "acme"), 1)
    findings = [check["detail"] for check in eu1.json("doctor")["checks"] if check["name"] == "cells"]
    assert any("the move of tenant 'acme' is not complete" in finding for finding in findings)
    assert "stays in the cell eu1" in eu1.ok("tenant", "move", "acme", "--undo")
    eu1.ok("todo", "add", "accepted", "--tenant", "acme")

    interrupt_after_fence(tmp_path, cell_urls[0])
    eu1.ok("tenant", "move", "acme", "--to", "eu2")
    assert list_places(eu1) == {"acme": "eu2"}


def test_a_move_that_was_interrupted_near_its_end_is_completed_though_the_directory_names_the_target(
    eu1: Shell, cell_urls: list[str], tmp_path: Path
) -> None:
    loaded = settings.load({"home": str(tmp_path), "database_url": cell_urls[0]})
    with (
        Directory(loaded) as directory,
        moving.open_route(directory, directory.get("eu1"), directory.get("eu2"), print, act_as_sender) as route,
    ):
        move = moving.begin(route, "acme")
        moving.carry_over(route, move)
        moving.record_placement(route, move)
        assert route.target.database.read(partial(arriving.get_arrival_state, move_id=move.id)) == "arrived"

    assert "Complete the move" in get_error_line(eu1("tenant", "move", "acme", "--undo"), 4)
    eu1.ok("tenant", "move", "acme", "--to", "eu2")

    with psycopg.connect(cell_urls[0]) as connection:
        connection.execute("SET headway.tenant = 'all'")
        assert connection.execute("SELECT name FROM tenants WHERE name <> 'local'").fetchall() == []


MISTAKES = (
    (["acme"], 2, "Name a cell with --to, or use --undo."),
    (["acme", "--to", "eu2", "--undo"], 2, "Name a cell with --to, or use --undo."),
    (["acme", "--to", "eu9"], 3, "No cell named 'eu9'"),
    (["unknown", "--to", "eu2"], 3, "No tenant named 'unknown'"),
    (["local", "--to", "eu2"], 2, "exists in every cell"),
    (["acme", "--to", "eu1"], 4, "is in the cell eu1 already"),
    (["acme", "--undo"], 3, "No move of the tenant 'acme' is under way"),
)


def test_mistakes_are_named_and_change_nothing(eu1: Shell) -> None:
    for arguments, code, sentence in MISTAKES:
        assert sentence in get_error_line(eu1("tenant", "move", *arguments), code)
    assert list_places(eu1) == {"acme": "eu1"}


def test_moves_need_postgres(headway: Shell) -> None:
    assert "Cells need Postgres" in get_error_line(headway("tenant", "move", "acme", "--to", "eu2"), 2)


def test_requests_are_answered_with_503_during_the_move_and_with_421_after_it(
    eu1: Shell, cell_urls: list[str], tmp_path: Path
) -> None:
    headers = {"Authorization": f"Bearer {eu1.json('token', 'new', '--tenant', 'acme')['token']}"}
    interrupt_after_fence(tmp_path, cell_urls[0])

    async def ask() -> None:
        async with open_app(tmp_path, database_url=cell_urls[0]) as opened:
            refused = await opened.client.post("/v1/todos", json={"subject": "refused"}, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (503, "tenant_moving")
            assert refused.headers["Retry-After"] == "1"
            assert (await opened.client.get("/v1/todos", headers=headers)).status_code == 200
            await asyncio.to_thread(eu1.ok, "tenant", "move", "acme", "--to", "eu2")
            sent_away = await opened.client.get("/v1/todos", headers=headers)
            assert (sent_away.status_code, sent_away.json()["location"]) == (421, "https://eu2.example.org")
        async with open_app(tmp_path, database_url=cell_urls[1]) as opened:
            assert (await opened.client.get("/v1/todos", headers=headers)).status_code == 200

    asyncio.run(ask())
