"""Documents that `todo import` rejects: each causes one error with exit code 2, and nothing is written."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.surfaces.shell import Shell, get_error_line

TIMES = {"created_at": 1700000000, "updated_at": 1700000003, "started_at": 1700000001, "completed_at": 1700000002}


def row(**fields: Any) -> bytes:
    return json.dumps({"todos": [{"subject": "fine"}, {"subject": "wrong"} | fields]}).encode()


BAD_JSON = {
    "empty": b"",
    "not JSON": b"todos",
    "half a document": b'{"todos": [{"subject": "one"}',
    "not UTF-8": b'{"todos": [{"subject": "\xff"}]}',
    "too deep": b"[" * 100_000,
    "a long number": b'{"todos": [{"subject": "x", "id": ' + b"9" * 5_000 + b"}]}",
    "a number": b"7",
    "no todos": b'{"items": []}',
    "todos that are no list": b'{"todos": {"subject": "one"}}',
    "a todo that is no object": b'{"todos": ["one"]}',
    "no subject": b'{"todos": [{"description": "one"}]}',
    "a newer format": b'{"headway": 2, "todos": []}',
    "a cycle": b'{"todos": [{"id": 1, "subject": "a", "depends_on": [2]}, {"id": 2, "subject": "b", "depends_on": [1]}]}',
    "itself": b'{"todos": [{"id": 1, "subject": "a", "depends_on": [1]}]}',
    "an unknown reference": row(depends_on=[404]),
    "the same id twice": b'{"todos": [{"id": 1, "subject": "a"}, {"id": 1, "subject": "b"}]}',
    "the same uuid twice": b'{"todos": [{"uuid": "u", "subject": "a"}, {"uuid": "u", "subject": "b"}]}',
    "a blank subject": row(subject=" \n"),
    "a subject that is too long": row(subject="x" * 1_001),
    "a NUL": row(description="nul\0"),
    "a lone surrogate": row(outcome="\ud800"),
    "a uuid with a lone surrogate": row(uuid="\ud800"),
    "a uuid that is too long": row(uuid="x" * 1_000),
    "a number as subject": row(subject=7),
    "a list as description": row(description=["one"]),
    "a text as id": row(id="1"),
    "a truth as id": row(id=True),
    "an id beyond 64 bits": row(id=2**64),
    "a fraction as position": row(position=1.5),
    "a position out of bounds": row(position=-1),
    "an unknown status": row(status="blocked"),
    "an unknown way to complete": row(status="completed", completed_by="nobody"),
    "a text as dependencies": row(depends_on="12"),
    "dependencies that are texts": row(depends_on=["1"]),
    "dependencies that are truths": row(id=2, depends_on=[True]),
    "dependencies that are lists": row(depends_on=[[1]]),
    "an unknown conversation": row(conversation_id=3),
    "a time that is text": row(**TIMES | {"created_at": "today"}),
    "a time that is no number": row(**TIMES | {"created_at": float("nan")}),
    "a time beyond all time": row(**TIMES | {"created_at": 1e300}),
    "an end without an end": row(**TIMES),
    "conversations that are no list": b'{"conversations": {}, "todos": [{"subject": "one"}]}',
    "a conversation that is no object": b'{"conversations": [1], "todos": [{"subject": "one"}]}',
    "a conversation without a key": b'{"conversations": [{"id": 1}], "todos": [{"subject": "one"}]}',
    "a conversation without an id": b'{"conversations": [{"key": "k"}], "todos": [{"subject": "one"}]}',
    "a conversation with a broken key": b'{"conversations": [{"id": 1, "key": "\\ud800"}], "todos": [{"subject": "one"}]}',
    "two conversations with one id": b'{"conversations": [{"id": 1, "key": "a"}, {"id": 1, "key": "b"}], "todos": []}',
    "a turn with a lone surrogate": (
        b'{"conversations": [{"id": 1, "key": "k"}], "todos": [{"subject": "a", "conversation_id": 1, "turn_id": "\\ud800"}]}'
    ),
    "a wrong todo in a new conversation": b'{"conversations": [{"id": 1, "key": "k"}], "todos": [{"subject": ""}]}',
}
BAD_MARKDOWN = {
    "empty": b"",
    "no items": b"# A plan\n\nProse.\n- a list without boxes\n",
    "not UTF-8": b"- [ ] caf\xe9\n",
    "a NUL": b"- [ ] fine\n- [ ] nul \0\n",
    "a subject that is too long": b"- [ ] fine\n- [ ] " + b"x" * 1_001,
    "a description that is too long": b"- [ ] fine\n  > " + b"x" * 200_001,
}


def list_wrong_answers(headway: Shell, form: str, documents: Mapping[str, bytes]) -> list[object]:
    """Import each document, from standard input and from a file, and return the answers that are not one short error."""
    wrong: list[object] = []
    headway.ok("todo", "add", "here before")
    before = headway.ok("todo", "export")
    for name, document in documents.items():
        (headway.folder / "document").write_bytes(document)
        piped = headway("todo", "import", "-", "--format", form, stdin=document)
        named = headway("todo", "import", "document", "--format", form)
        wrong += [
            (name, ran)
            for ran in (piped, named)
            if (ran.code, ran.out, ran.err.startswith("headway: "), ran.err.count("\n")) != (2, "", True, 1) or len(ran.err) > 250
        ]
        if headway.ok("todo", "export") != before or headway.json("conversation", "list") != {"conversations": []}:
            return [*wrong, (name, "was written")]
    return wrong


def test_json_that_is_wrong_is_one_error_and_nothing_is_written(headway: Shell) -> None:
    assert list_wrong_answers(headway, "json", BAD_JSON) == []


def test_markdown_that_is_wrong_is_one_error_and_nothing_is_written(headway: Shell) -> None:
    assert list_wrong_answers(headway, "md", BAD_MARKDOWN) == []


def test_an_error_names_the_part_of_the_document_that_is_wrong(headway: Shell) -> None:
    json_error = get_error_line(headway("todo", "import", "-", stdin=row(id="x")), 2)
    markdown_error = get_error_line(headway("todo", "import", "-", "--format", "md", stdin=BAD_MARKDOWN["a NUL"]), 2)

    assert json_error == "headway: Todo 2 of the document: id must be a whole number."
    assert markdown_error.startswith("headway: Item 2 of the document: subject contains a NUL character")


@pytest.mark.parametrize("file", ["missing.json", "."])
def test_a_file_that_cannot_be_read_is_one_error(headway: Shell, file: str) -> None:
    assert f"{file} cannot be read" in get_error_line(headway("todo", "import", file), 2)
