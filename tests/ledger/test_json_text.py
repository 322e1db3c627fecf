"""Stored JSON: every value that Python can serialize is written, and the result is standard JSON."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headway.ledger.events import encode_json, join_json, to_json
from tests.tables import each_row

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
DOCUMENTS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(DOCUMENTS)
def test_json_round_trips(document: Any) -> None:
    assert json.loads(to_json(document)) == document


def nested(depth: int) -> list[Any]:
    innermost: list[Any] = []
    return [nested(depth - 1)] if depth else innermost


@each_row(
    "document",
    [2**64, -(2**70), {"deep": nested(400)}, "\ud800", {1: "a key that is no text"}],
)
def test_documents_that_orjson_refuses_are_written_by_the_fallback(document: Any) -> None:
    assert to_json(document) == json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def test_json_is_compact_and_keeps_non_ascii_letters() -> None:
    assert to_json({"a": [1, "ä", None], "b": True}) == '{"a":[1,"ä",null],"b":true}'


@each_row("number", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_become_null(number: float) -> None:
    """JSON has no NaN or infinity, and a browser would reject the whole document."""
    assert to_json({"n": number}) == '{"n":null}'


def test_parts_that_are_written_already_are_put_in_as_they_are() -> None:
    assert encode_json({"a": 1}, outcome='{"b":2}') == '{"a":1,"outcome":{"b":2}}'
    assert join_json(goal_id=1, entry='{"n":2}') == '{"goal_id":1,"entry":{"n":2}}'
