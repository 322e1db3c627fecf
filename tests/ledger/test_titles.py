"""Titles of conversations: one short line from the first request."""

from headway.ledger.titles import TITLE_LENGTH, make_title
from tests.tables import each_row


@each_row(
    ("request_text", "title"),
    [
        ("What time is it in Tokyo?", "What time is it in Tokyo?"),
        ("Fix the build. It has failed since Monday.", "Fix the build"),
        (
            "Calculate 12*7, then write the result to notes.txt, and then list",
            "Calculate 12*7, then write the result to notes.txt, and…",
        ),
        ("Version 1.2.3 breaks imports, e.g. of yaml! Why?", "Version 1.2.3 breaks imports, e.g. of yaml!"),
        ("Hi.\n\nPlease rename the `main` branch to **trunk**.", "Hi. Please rename the main branch to trunk"),
        ("# Release notes\n\n- [ ] write them", "Release notes"),
        ("- [ ] 1. > Write [the report](https://example.com/q3)", "Write the report"),
        ("```python\nprint(1)\n```\nWhat does this print?", "What does this print?"),
        ("```\nprint(1)\n```", "print(1)"),
        ("日本語の文章です。次の文章。", "日本語の文章です"),
        ("snake_case and 2 * 3 ~ 6 stay", "snake_case and 2 * 3 ~ 6 stay"),
        ("x" * 100, "x" * 59 + "…"),
        ("a\x1b[31mb\u202ec\nnext line", "a\ufffd[31mb\ufffdc"),
        ("...", ""),
        (" \n ", ""),
    ],
)
def test_a_title_is_the_first_sentence_as_plain_text(request_text: str, title: str) -> None:
    assert make_title(request_text) == title
    assert len(title) <= TITLE_LENGTH
