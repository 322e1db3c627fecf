"""Every statement of the stores names the tenant. Those that work for all tenants are listed in docs/internals/tenancy.md."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from headway.storage.direct import DirectDatabase
from headway.storage.stores.retention import list_tables
from tests.parsed_sources import parse_module
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
STORAGE = ROOT / "src" / "headway" / "storage"
CELLS = ROOT / "src" / "headway" / "cells"
UNKNOWN = "…"  # part of a statement that is known only when it runs
WORD = r"[a-z_]+"
REFERENCE = re.compile(rf"\b(FROM|JOIN|UPDATE|INTO)\s+({WORD})(?:\s+(?:AS\s+)?({WORD})\b)?")
NO_ALIASES = {"set", "where", "on", "order"}


def list_strings(tree: ast.Module, module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield each string of a module, with its constants filled in, after the name of the function or constant that contains it."""
    for statement in tree.body:
        name = getattr(statement, "name", "")
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            name = target.id if isinstance(target, ast.Name) else ""
        stack: list[ast.AST] = [statement]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.JoinedStr):
                yield name, "".join(render(part, module) for part in node.values)
                stack += [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield name, node.value
            else:
                stack += ast.iter_child_nodes(node)


def render(part: ast.expr, module: ModuleType) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    value = part.value if isinstance(part, ast.FormattedValue) else None
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):  # such as TODOS.stored
        constant = getattr(getattr(module, value.value.id, None), value.attr, None)
    else:
        constant = getattr(module, value.id, None) if isinstance(value, ast.Name) else None
    return constant if isinstance(constant, str) else UNKNOWN


def list_embedded(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the constants that are parts of other strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name) and node.value.id.isupper():
            yield node.value.id


def split_queries(text: str) -> list[str]:
    """Split a statement into its queries. Each is returned without the queries inside of it."""
    queries: list[str] = []
    while match := re.search(r"\(([^()]*)\)", text):  # the innermost parentheses
        inner = match[1]
        is_query = re.match(r"\s*(SELECT|WITH|VALUES|UPDATE)\b", inner)
        if is_query:
            queries.append(inner)
        text = f"{text[: match.start()]}{' ‹query› ' if is_query else f'‹{inner}›'}{text[match.end() :]}"
    return [part for query in (*queries, text) for part in re.split(r"\bUNION(?: ALL)?\b|(?=\bINSERT INTO\b)", query)]


def find_unbound(text: str, tables: set[str]) -> list[str]:
    """List the tables of tenants that a statement reads or writes without naming the tenant: with a parameter, or as the tenant of
    another table of the statement."""
    unbound = []
    for query in split_queries(text):
        references = [(verb, table, alias) for verb, table, alias in REFERENCE.findall(query) if table in tables]
        sources = [table for verb, table, _ in references if verb != "INTO"]
        for verb, table, alias in references:
            if verb == "INTO":
                columns = re.search(rf"INTO {table}(?: AS {WORD})?\s*‹([^›]*)›", query)
                is_bound = bool(columns and ("tenant_id" in columns[1] or UNKNOWN in columns[1]))
            else:
                name = alias if alias and alias not in NO_ALIASES and not alias.isupper() else table
                column = "id" if table == "tenants" else "tenant_id"
                own = rf"\b{name}\.{column}" if len(sources) > 1 else rf"(?<!\.)(?:\b{name}\.)?\b{column}"
                is_bound = bool(
                    re.search(rf"{own} (= \?|IN ‹|= {WORD}\.tenant_id)", query) or re.search(rf"\.tenant_id = {own}\b", query)
                )
            if not is_bound:
                unbound.append(table)
    return unbound


@pytest.fixture
def tables(sqlite_url: str) -> set[str]:
    with DirectDatabase(sqlite_url) as database:
        return set(database.read(list_tables))


def test_every_statement_names_the_tenant_except_those_that_tenancy_md_lists(tables: set[str]) -> None:
    paths = [*STORAGE.glob("*.py"), *STORAGE.glob("stores/**/*.py"), *STORAGE.glob("postgres/*.py"), *CELLS.glob("*.py")]
    trees = {path: parse_module(path) for path in sorted(paths)}
    parts = {name for tree in trees.values() for name in list_embedded(tree)}  # checked in the statements that contain them
    cross_tenant: dict[str, list[str]] = {}
    statements = 0
    for path, tree in trees.items():
        name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for place, text in list_strings(tree, importlib.import_module(name)):
            if REFERENCE.search(text) and place not in parts:
                statements += 1
                if unbound := find_unbound(text, tables):
                    store = "cells" if path.parent == CELLS else path.stem
                    cross_tenant.setdefault(f"{store}.{place}", []).extend(unbound)
    section = (
        (ROOT / "docs" / "internals" / "tenancy.md").read_text().partition("### Statements over all tenants")[2].partition("\n#")[0]
    )
    listed = set(re.findall(r"`([a-z_]+\.[a-zA-Z_]+)`", section))

    assert statements > 200
    assert set(cross_tenant) == listed


@each_row(
    "statement",
    [
        "SELECT 1 FROM todos WHERE id = ?",
        "SELECT 1 FROM todos WHERE tenant_id = ? AND id IN (SELECT todo_id FROM leases WHERE expires_at < ?)",
        "SELECT 1 FROM runs JOIN effects ON effects.run_id = runs.id WHERE runs.tenant_id = ?",
        "UPDATE todos SET position = 1 WHERE id = ?",
        "DELETE FROM jobs WHERE id = ?",
        "INSERT INTO leases (todo_id) VALUES (?)",
        "SELECT 1 FROM todos WHERE tenant_id = ? UNION ALL SELECT 1 FROM runs WHERE id = ?",
    ],
)
def test_the_check_finds_a_table_without_the_tenant(tables: set[str], statement: str) -> None:
    assert find_unbound(statement, tables)
