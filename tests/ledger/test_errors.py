"""Every error has a class, a message and a stable code, and the module's docstring draws the whole class tree."""

import re

from headway.ledger import errors
from headway.ledger.errors import HeadwayError
from tests.tables import each_row

CLASSES = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, HeadwayError)]


def parse_drawing() -> dict[str, str]:
    """Parse the tree in the module's docstring into {class: parent}. Four columns of indentation are one level."""
    above: list[str] = []
    parents: dict[str, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^((?:│   |    )*)(├── |└── )(\w+)", line) or re.match(r"^()()(HeadwayError)$", line)
        if match:
            depth = (len(match[1]) + len(match[2])) // 4
            above[depth:] = [match[3]]
            parents[match[3]] = above[depth - 1] if depth else "Exception"
    return parents


def test_the_drawing_in_the_docstring_is_the_tree_of_classes() -> None:
    assert parse_drawing() == {error_class.__name__: error_class.__mro__[1].__name__ for error_class in CLASSES}


@each_row("kind", CLASSES)
def test_an_error_raised_without_a_message_says_its_docstring(kind: type[HeadwayError]) -> None:
    assert kind.__doc__ is not None
    assert str(kind()) == kind.__doc__
    assert "\n" not in str(kind())


def test_an_error_raised_with_a_message_says_that() -> None:
    assert str(errors.NotFound("No todo 7.")) == "No todo 7."


@each_row(
    ("kind", "code"),
    [
        (errors.NotFound, "not_found"),
        (errors.IllegalTransition, "illegal_transition"),
        (errors.Leased, "leased"),
        (errors.TurnRowsStay, "turn_rows_stay"),
        (errors.DatabaseReadOnly, "database_read_only"),
    ],
)
def test_a_code_is_the_name_of_the_class_in_snake_case(kind: type[HeadwayError], code: str) -> None:
    assert kind().code == code


def test_no_two_errors_share_a_code() -> None:
    assert len({kind().code for kind in CLASSES}) == len(CLASSES)
