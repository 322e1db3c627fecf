"""Counting the values of JSON without parsing it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from headway.ledger.parsing.json_values import ValueCounter, has_more_values

SCALARS = st.none() | st.integers() | st.text()
DOCUMENTS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def count_signs(document: object) -> int:
    """Count the commas and opening brackets that a document has outside of its strings."""
    if not isinstance(document, list | dict):
        return 0
    parts = document.values() if isinstance(document, dict) else document
    return 1 + max(0, len(document) - 1) + sum(map(count_signs, parts))


@given(DOCUMENTS, st.integers(1, 7), st.booleans())
def test_separators_in_strings_do_not_count_wherever_the_text_is_cut(document: object, length: int, ascii_only: bool) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "replace")
    counter = ValueCounter(10**9)
    for start in range(0, len(text), length):
        counter.feed(text[start : start + length])
    assert counter.total == count_signs(document)


def test_counting_stops_when_there_are_too_many() -> None:
    counter = ValueCounter(10)
    counter.feed(b'["",' * 1_000)
    assert counter.total == 11
    assert has_more_values(b"[1,2,3]", 2)
    assert not has_more_values(b'["[[[,,,"]', 2)
