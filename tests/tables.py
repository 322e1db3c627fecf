"""Tables of quick checks: one test that tries every row, and reports each row that fails.

    @each_row(("written", "seconds"), [("1 h", 3600), ("2 d", 172_800)])
    def test_a_duration_is_read_as_people_write_it(written: str, seconds: int) -> None:
        assert parse_duration(written) == seconds

A test per row would cost more for its collection, fixtures and report than for the check. The rows share the fixtures of the test:
use `pytest.mark.parametrize` where a row has to start from an empty database.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]


def each_row(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Call the test with every row. It takes the arguments of `pytest.mark.parametrize`."""
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [row if len(columns) > 1 else (row,) for row in rows]
    assert table, "a table without rows checks nothing"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def check_rows(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for row in table:
                try:
                    test(**fixtures, **dict(zip(columns, row, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  the other rows are tried all the same
                    error.add_note(f"This was the row {row!r}.")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows failed", failures)

        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in columns]
        check_rows.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]  # pytest reads it
        return check_rows

    return decorate
