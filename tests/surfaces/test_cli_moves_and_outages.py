"""`headway admin tenant move` while another cell is down, or lost for good."""

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.surfaces.shell import Shell, get_error_line
from tests.surfaces.test_cli_moves import interrupt_after_fence, list_places

UNREACHABLE = "postgresql://headway@127.0.0.1:1/headway"


@pytest.fixture
def eu1(headway: Shell, cell_urls: list[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell with the settings of the first of three cells, which is the directory and has the tenant acme."""
    monkeypatch.setenv("HEADWAY_DATABASE_URL", cell_urls[0])
    headway.ok("tenant", "add", "acme")
    for name, url in zip(("eu1", "eu2", "eu3"), cell_urls, strict=True):
        headway.ok("cell", "add", name, "--url", url)
    return headway


@pytest.fixture
def lose(cell_urls: list[str]) -> Callable[[str], None]:
    """Let the directory have a URL of a cell at which nothing answers."""

    def change_url(cell: str) -> None:
        with psycopg.connect(cell_urls[0]) as connection:
            connection.execute("UPDATE cells SET url = %s WHERE name = %s", (UNREACHABLE, cell))

    return change_url


def test_a_tenant_moves_on_while_the_cell_that_it_came_from_is_down(eu1: Shell, lose: Callable[[str], None]) -> None:
    eu1.ok("tenant", "move", "acme", "--to", "eu2")
    eu1.ok("tenant", "move", "acme", "--to", "eu1")
    lose("eu2")

    eu1.ok("tenant", "move", "acme", "--to", "eu3")

    listed = json.loads(eu1("tenant", "list", "--json").out)
    assert [(row["name"], row["cell"]) for row in listed["tenants"]] == [("acme", "eu3")]


def test_cells_of_long_ago_send_requests_to_the_present_one(eu1: Shell, cell_urls: list[str]) -> None:
    eu1.ok("token", "new", "--tenant", "acme")

    for cell in ("eu2", "eu3"):
        eu1.ok("tenant", "move", "acme", "--to", cell)

    for url in cell_urls[:2]:
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT cell FROM departed_tokens").fetchall() == [("eu3",)]


def test_a_tenant_on_its_way_to_a_lost_cell_can_stay(
    eu1: Shell, cell_urls: list[str], tmp_path: Path, lose: Callable[[str], None]
) -> None:
    interrupt_after_fence(tmp_path, cell_urls[0])
    lose("eu2")
    assert "cannot be used" in get_error_line(eu1("tenant", "move", "acme", "--undo"), 1)

    removed = eu1("cell", "rm", "eu2", "--lost", "--yes")

    assert "headway admin tenant move acme --undo" in removed.err
    eu1.ok("tenant", "move", "acme", "--undo")
    eu1.ok("todo", "add", "accepted", "--tenant", "acme")
    assert list_places(eu1) == {"acme": "eu1"}
