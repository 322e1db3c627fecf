"""`pytest --fast`, which `make test-fast` runs: the rules, SQL on SQLite, turns of the loop, and commands about todos.

Other files are not imported, because to import them all takes longer than to run these. A file runs if the command line names it.
"""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FAST_FILES = ("ledger/test_*.py", "storage/test_*.py", "agents/test_turn_*.py", "surfaces/test_cli_todo*.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="the rules, SQL on SQLite, turns of the loop, and commands about todos")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_module = collection_path.match("test_*.py")
    is_named = any(collection_path.name in argument for argument in config.args)
    return True if config.getoption("fast") and is_module and not is_named and not is_fast(collection_path) else None


def is_fast(file: Path) -> bool:
    return any(file.relative_to(TESTS).match(pattern) for pattern in FAST_FILES)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("fast"):
        config.hook.pytest_deselected(items=[item for item in items if needs_more(item)])
        items[:] = [item for item in items if not needs_more(item)]


def needs_more(item: pytest.Item) -> bool:
    """Whether the test is a proof or needs Postgres."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return "postgres_server" in fixtures or item.get_closest_marker("proof") is not None
