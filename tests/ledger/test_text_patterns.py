"""The regular expressions in the API documents accept exactly the text that the rules accept."""

import re
from collections.abc import Callable

from headway.ledger import text
from headway.ledger.errors import Invalid
from tests.tables import each_row

SURROGATES = range(0xD800, 0xE000)  # not valid text, see text.safe


def is_accepted(rule: Callable[[str], str], value: str) -> bool:
    try:
        rule(value)
    except Invalid:
        return False
    return True


@each_row("around", ["{}", " {}", "a{}b"])
@each_row(
    ("pattern", "rule"),
    [
        (text.TEXT_PATTERN, lambda value: text.check_text(value, "text")),
        (text.SUBJECT_PATTERN, text.check_subject),
        (text.NAME_PATTERN, lambda value: text.check_name(value, "name")),
    ],
)
def test_a_pattern_and_its_rule_agree_on_every_character(pattern: str, rule: Callable[[str], str], around: str) -> None:
    values = [around.format(chr(point)) for point in range(0x11000) if point not in SURROGATES]
    documented = {value for value in values if re.search(pattern, value)}

    assert documented == {value for value in values if is_accepted(rule, value)}
