"""docs/internals/needs.md says who needs each setting, command, route, tool and event, and names no other."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click

from headway.agents.tools import catalogue
from headway.agents.tools.builtin import ExternalAccess
from headway.ledger.events import StreamedKind
from headway.settings.declarations import GROUPS
from headway.surfaces.cli.main import headway
from headway.surfaces.http.app import list_routes
from tests.parsed_sources import read_source

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "internals" / "needs.md"


def read_section(title: str) -> list[str]:
    """Return the names in the first column of a section's table."""
    section = read_source(PAGE).partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.+) \|$", section, re.MULTILINE)
    assert all(reason.strip() for _, reason in rows)
    names = [name for cell, _ in rows for name in re.findall(r"`([^`]+)`", cell)]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    return sorted(names)


def list_commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from list_commands(command, (*path, name))
        else:
            yield " ".join((*path, name))


def test_every_setting_is_needed_by_somebody() -> None:
    assert read_section("Settings") == sorted(name for group in GROUPS.values() for name in group)


def test_every_command_is_needed_by_somebody() -> None:
    assert read_section("Commands") == sorted(list_commands(headway))


def test_every_route_is_needed_by_somebody() -> None:
    routes = {f"{route.method} {route.documented_path.removeprefix('/v1')}" for route in list_routes() if route.tag}
    assert read_section("Routes") == sorted(routes)


def test_every_tool_is_needed_by_somebody() -> None:
    assert read_section("Tools") == sorted(catalogue.build_toolbox(ExternalAccess(("*",), ("ls", "python3"))).tools)


def test_every_event_is_needed_by_somebody() -> None:
    assert sorted(read_section("Events")) == sorted(get_args(StreamedKind))
