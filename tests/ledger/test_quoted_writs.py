"""Writs that an agent quotes from what it has read: found in any decoration, shown as text, and never run."""

import json
from html import escape
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.ledger.parsing import read_calls, writ_parser
from headway.ledger.parsing.writ_parser import MAX_READ_WRITS, ParsedText, ReadWrits, Writ, WritParser, parse
from tests.tables import each_row

CANCEL = "/todo cancel 1"
SCHEDULE = '/schedule x every 1h: say "hi" to Zoë, twice'


def read(*texts: str) -> ReadWrits:
    writs = ReadWrits()
    for text in texts:
        writs.add(text)
    return writs


# What counts as the same line


@each_row(
    "source",
    [
        "{}",
        "{}\r\n",
        "Intro\n{}\nMore",
        "please run {} now",
        "`{}`",
        "```sh\n{}\n```",
        "- {}\n- next",
        "> > {}",
        "1. **{}**",
        "| {} | does it |",
        "“{}”",
        "_{}_",
        "<li>{}</li>",
        "\u200b{}\ufeff",
        "\u2800\U0001d173{}\ufff0",
        "x{}",
    ],
)
@each_row("line", [CANCEL, SCHEDULE])
def test_a_line_is_found_in_any_decoration(source: str, line: str) -> None:
    text = source.format(line)
    result = json.dumps({"content": text, "lines": [1, None]})  # a long one is cut, and no longer JSON

    for encoded in (text, result, json.dumps({"content": result}, ensure_ascii=False), json.dumps([json.dumps(result)])):
        assert line in read(encoded)
    assert line in read(f"{result[:-10]}… (9 more characters)")


@each_row(
    "source",
    [
        "/TODO Cancel 1",
        "/todo  cancel\t1",
        "/todo\u00a0cancel\u20031",
        "/todo cancel\n  1",
        "/todo cancel #1.",
        "/to\u200bdo can\u00adcel 1",
        "／ｔｏｄｏ ｃａｎｃｅｌ １",
        "/todo <b>cancel</b>&nbsp;1",
        "&#47;todo cancel 1",
        "&amp;#x2F;todo cancel 1",
        r'{"a": "\u002ftodo cancel 1"}',
        r"\/todo cancel 1",
        "/todo cancel 1: and more",
    ],
)
def test_a_line_is_found_in_other_spellings(source: str) -> None:
    assert CANCEL in read(source)


@each_row("rest", ["Zo\u00eb <b>now</b>", "a <b and c> d &lt; \\\\n", "x\by \\u0041", "write&lowbar;file <i>é</i>"])
def test_a_line_that_looks_encoded_is_found_in_a_result(rest: str) -> None:
    line = f"/todo add {rest}"

    for encoded in (line, json.dumps({"content": f"Do:\n{line}\n"}), json.dumps([json.dumps([line])]), escape(line)):
        assert line in read(encoded)


@each_row(
    ("source", "line"),
    [
        ("cafe\u0301", "café"),
        ("caf\u00e9", "cafe\u0301"),
        ("straße", "STRASSE"),
        (r"\ud83e\udd89", "🦉"),
        (r"\u65e5\u672c", "日本"),
        ("𝐛𝐨𝐥𝐝", "bold"),
    ],
)
def test_forms_of_the_same_letters_are_equal(source: str, line: str) -> None:
    assert f"/todo add {line}" in read(f"See: /todo add {source}")


@each_row(
    "source",
    [
        "",
        "todo cancel 1",
        "/todo cancel 11",
        "/todo cancel",
        "/todo done 1",
        "/todos cancel 1",
        "/ todo cancel 1",
        "cancel 1 /todo",
        "/todo please cancel 1",
        "/todo cancel 🦉",
    ],
)
def test_other_lines_are_not_the_same(source: str) -> None:
    assert CANCEL not in read(source)


def test_lines_that_begin_with_the_same_words_are_the_same() -> None:
    words = " ".join(f"w{n}" for n in range(100))

    assert f"/todo add {words} and more" in read(f"/todo add {words}")
    assert f"/todo add w0 {words}" not in read(f"/todo add {words}")


LINES = st.builds(
    "{} {}".format,
    st.sampled_from(["/todo cancel", "/todo add", "/schedule x every 1h:", "/agent coder", "/parallel"]),
    st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=60),
)
NOISE = st.text(max_size=40)


@settings(deadline=None)
@given(LINES, NOISE, NOISE)
@example("/todo add İ", "", "")
@example("/todo add ﷺ", "\\", "")
def test_a_line_is_always_found_in_what_contains_it(line: str, before: str, after: str) -> None:
    text = f"{before}\n{line}\n{after}"

    assert line in read(text)
    assert line in read(json.dumps(text))
    assert line in read(json.dumps({"a": [text]}, ensure_ascii=False))


# Long hostile texts


@each_row(
    "text",
    [
        "/todo " * 40_000,
        "/todo cancel 1\n" * 20_000,
        "<a" * 100_000,
        "\\" * 200_000,
        "&#47;" * 40_000,
        "/todo " + "\u0591\u0315" * 50_000,
        "/todo " + "\ufdfa" * 50_000,
        "[" * 200_000,
    ],
)
def test_repetition_adds_few_writs(text: str) -> None:
    assert len(read(text).keys) <= writ_parser.COMPARED_WORDS * (read_calls.DECODINGS + 1)


def test_after_too_many_writs_every_line_counts_as_read() -> None:
    writs = read("\n".join(f"/todo cancel {n}" for n in range(2 * MAX_READ_WRITS)))

    assert len(writs.keys) == MAX_READ_WRITS + 1
    assert "/todo add something else" in writs


# Parsing with quoted writs


def is_quoted(line: str) -> bool:
    return "quoted" in line


def test_a_quoted_writ_is_visible_and_marked() -> None:
    text = "It says:\n/todo cancel quoted\r\n/todo done 1\n/schedule quoted every 1h: x\nEnd."

    assert parse(text, is_quoted) == ParsedText(
        "It says:\n/todo cancel quoted\r\n/schedule quoted every 1h: x\nEnd.",
        [
            Writ("todo", "cancel quoted", is_quoted=True),
            Writ("todo", "done 1"),
            Writ("schedule", "quoted every 1h: x", is_quoted=True),
        ],
    )


def test_the_body_of_a_quoted_add_is_visible_and_nothing_in_it_runs() -> None:
    text = "/todo add quoted\nfirst\n/todo done 1\n/endtodo\n/todo done 2\n"

    assert parse(text, is_quoted) == ParsedText(
        "/todo add quoted\nfirst\n/todo done 1\n/endtodo\n",
        [Writ("todo", "add quoted", "first\n/todo done 1", is_quoted=True), Writ("todo", "done 2")],
    )
    assert parse("/todo add mine\nquoted\n/endtodo\n", is_quoted) == ParsedText("", [Writ("todo", "add mine", "quoted")])


@each_row("block", ["/parallel quoted\n/agent a b\n", "/parallel\n/agent a b\n/agent quoted c\n"])
@each_row("end", ["/endparallel\n", ""])
def test_one_quoted_line_makes_a_whole_parallel_block_text(block: str, end: str) -> None:
    visible, (writ,) = parse(f"{block}{end}", is_quoted)

    assert visible == f"{block}{end}"
    assert writ.is_quoted


PIECES = st.sampled_from(
    [
        *("/todo ", "add look", "/todo add quoted\n", "/todo add look\n", "/todo cancel quoted\n", "/todo list\n", "/endtodo\n"),
        *(
            "/agent quoted go\n",
            "/agent coder go\n",
            "/parallel\n",
            "/endparallel\n",
            "quoted",
            "```\n",
            "\n",
            "\r\n",
            "\r",
            "text",
        ),
    ]
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=20).map("".join), st.lists(st.integers(min_value=0), max_size=6))
def test_quoting_changes_only_what_is_visible(text: str, places: list[int]) -> None:
    whole = parse(text, is_quoted)

    assert [writ._replace(is_quoted=False) for writ in whole.writs] == parse(text).writs
    if all(writ.is_quoted for writ in whole.writs):
        assert whole.visible == text
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    parser = WritParser(is_quoted)
    steps = [*(parser.feed(text[start:end]) for start, end in pairwise(edges)), parser.finish()]
    assert ParsedText("".join(step.visible for step in steps), [writ for step in steps for writ in step.writs]) == whole


def test_a_quoted_writ_is_shown_when_its_line_ends_and_its_body_as_it_arrives() -> None:
    parser = WritParser(is_quoted)
    visible = [parser.feed(piece).visible for piece in ("/todo add", " quoted", "\n", "fir", "st\n", "/endtodo", "\n", "/to")]

    assert visible == ["", "", "/todo add quoted\n", "", "first\n", "/endtodo", "\n", ""]
