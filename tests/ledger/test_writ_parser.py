"""Parsing writs from streamed text: the visible text, the writs, and the same result however the text is split into chunks."""

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.ledger.parsing.writ_parser import ParsedText, Writ, WritParser, parse
from tests.tables import each_row


def writs(text: str) -> list[Writ]:
    return parse(text).writs


def parse_pieces(pieces: list[str]) -> ParsedText:
    parser = WritParser()
    steps = [*(parser.feed(piece) for piece in pieces), parser.finish()]
    return ParsedText("".join(step.visible for step in steps), [writ for step in steps for writ in step.writs])


# Every form


@each_row(
    ("line", "writ"),
    [
        ("/todo list", Writ("todo", "list")),
        ("/todo start 14", Writ("todo", "start 14")),
        ("/todo done #14", Writ("todo", "done #14")),
        ("/todo cancel write the post-mortem", Writ("todo", "cancel write the post-mortem")),
        ("/todo describe 14: bumped: twice", Writ("todo", "describe 14: bumped: twice")),
        ("/todo subject 14: another", Writ("todo", "subject 14: another")),
        ("/todo add write it down", Writ("todo", "add write it down")),
        ("/todo   list  ", Writ("todo", "list")),
        ("/todo", Writ("todo", "")),
        ("/todo dance", Writ("todo", "dance")),
        ("/agent coder fix the bug", Writ("agent", "coder fix the bug")),
        ("/schedule daily 0 6 * * *: sweep", Writ("schedule", "daily 0 6 * * *: sweep")),
        ("/schedule hourly every 1h: look", Writ("schedule", "hourly every 1h: look")),
        ("/schedule list", Writ("schedule", "list")),
        ("/schedule rm daily", Writ("schedule", "rm daily")),
    ],
)
@each_row("newline", ["\n", "\r\n", ""])
def test_a_writ_of_one_line_is_taken_out_of_the_text(line: str, writ: Writ, newline: str) -> None:
    assert parse(line + newline) == ParsedText("", [writ])
    if newline:
        assert parse(f"before{newline}{line}{newline}{newline}after") == ParsedText(f"before{newline}{newline}after", [writ])


@each_row(
    "text",
    [
        "say /todo list to see them",
        " /todo list",
        "\t/todo list",
        "> /todo list",
        "- /todo list",
        "`/todo list`",
        "/todos list",
        "/todo-list",
        "/todolist",
        "/TODO list",
        "//todo list",
        "/ todo list",
        "\\/todo list",
        "/agents",
        "/home/me",
        "/",
        "/endtodo",
        "/endparallel",
        "",
        "\n\n",
        "no newline at the end",
    ],
)
def test_text_that_is_not_a_writ_is_shown_unchanged(text: str) -> None:
    assert parse(text) == ParsedText(text, [])
    assert parse(f"{text}\r\n") == ParsedText(f"{text}\r\n", [])


def test_several_writs_come_in_the_order_of_the_text() -> None:
    text = "Plan:\n/todo add one\n/todo add two\n/todo list\nDone.\n/agent coder go\n"

    assert parse(text) == ParsedText(
        "Plan:\nDone.\n", [Writ("todo", "add one"), Writ("todo", "add two"), Writ("todo", "list"), Writ("agent", "coder go")]
    )


# The body of an add


def test_lines_after_an_add_are_its_body_until_the_terminator() -> None:
    text = "/todo add the post-mortem\nwhat happened\n\n  and why\n/endtodo\nafter"

    assert parse(text) == ParsedText("after", [Writ("todo", "add the post-mortem", "what happened\n\n  and why")])


@each_row("after", ["", "\n", "\r\n", "\n\nplain text\n", "\n   \nplain text\n", "\n/todo list", "\n/agent coder go\n"])
def test_an_add_is_of_one_line_before_a_blank_line_another_writ_or_the_end(after: str) -> None:
    first, *_ = writs(f"/todo add look{after}")

    assert first == Writ("todo", "add look")


def test_the_blank_line_after_an_add_and_the_text_after_it_are_shown() -> None:
    assert parse("/todo add look\n\nplain\n/endtodo\n").visible == "\nplain\n/endtodo\n"


@each_row(
    "line",
    [
        "/todo list",
        "/todo add another",
        "/agent coder go",
        "/parallel",
        "/endparallel",
        "```",
        "~~~",
        " /endtodo",
        "/endtodo now",
        "/endtodo/",
        "text /endtodo",
        "[END TODO]",
    ],
)
def test_inside_a_body_everything_is_body_except_the_terminator_alone_on_its_line(line: str) -> None:
    assert parse(f"/todo add look\nfirst\n{line}\n/endtodo\nafter") == ParsedText(
        "after", [Writ("todo", "add look", f"first\n{line}")]
    )


@each_row("fence", ["```", "~~~"])
def test_a_fence_in_a_body_ends_with_the_body(fence: str) -> None:
    assert parse(f"/todo add look\n{fence}\n/endtodo\n/todo list\n").writs == [
        Writ("todo", "add look", fence),
        Writ("todo", "list"),
    ]


@each_row("terminator", ["/endtodo", "/endtodo  ", "/endtodo\r"])
def test_an_empty_body_and_space_after_the_terminator_are_fine(terminator: str) -> None:
    assert parse(f"/todo add look\n{terminator}\nafter") == ParsedText("after", [Writ("todo", "add look", "")])


def test_a_body_with_line_ends_of_windows_has_plain_ones() -> None:
    assert writs("/todo add look\r\nfirst\r\nsecond\r\n/endtodo\r\n") == [Writ("todo", "add look", "first\nsecond")]


@each_row("ending", ["first\n", "first\nsecond", "first\n/endtod", "first\n/endtodo now", "first\n\n/todo list\n"])
def test_a_body_that_never_ends_is_not_complete_and_swallows_the_rest(ending: str) -> None:
    visible, (writ,) = parse(f"before\n/todo add look\n{ending}")

    assert visible == "before\n"
    assert (writ.rest, writ.complete) == ("add look", False)


def test_only_an_add_has_a_body() -> None:
    assert parse("/todo done 14\nbecause it works\n/todo address the issue\nplain\n") == ParsedText(
        "because it works\nplain\n", [Writ("todo", "done 14"), Writ("todo", "address the issue")]
    )


# Blocks of agents


def test_a_parallel_block_is_one_writ_with_its_lines() -> None:
    text = "before\n/parallel\n/agent coder fix\n/agent writer tell\n/endparallel\nafter"

    assert parse(text) == ParsedText("before\nafter", [Writ("parallel", "", "/agent coder fix\n/agent writer tell")])


def test_a_parallel_block_that_never_ends_is_not_complete() -> None:
    assert writs("/parallel\n/agent coder fix\n") == [Writ("parallel", "", "/agent coder fix", complete=False)]


# Fences


@each_row(
    "fenced",
    [
        "```\n/todo list\n```\n",
        "```sh\n/todo list\n```\n",
        "~~~\n/todo list\n~~~\n",
        "~~~ `sh`\n/todo list\n~~~\n",
        "   ```\n/todo list\n  ```\n",
        "````\n```\n/todo list\n```\n/todo list\n````\n",
        "```\n~~~\n/todo list\n```\n",
        "~~~\n```\n/todo list\n~~~\n",
        "```\n``` not the end\n/todo list\n```\n",
        "```\n/todo list\n`````\n",
        "```\r\n/todo list\r\n```\r\n",
        "```\n/todo add look\nbody\n/endtodo\n```\n",
    ],
)
def test_inside_a_fence_there_are_no_writs_and_after_it_there_are(fenced: str) -> None:
    assert parse(f"{fenced}/todo list\nafter") == ParsedText(f"{fenced}after", [Writ("todo", "list")])


@each_row("fence", ["```\n", "~~~python\n", "````\n```\n", "```\n~~~\n", "```\n    ```\n"])
def test_a_fence_that_is_not_closed_suppresses_the_rest(fence: str) -> None:
    text = f"{fence}/todo list\n/agent coder go\n"

    assert parse(text) == ParsedText(text, [])


@each_row("line", ["``", "~~", "```like this```", "``` a`b", "    ```", "text ```", "~~ ~"])
def test_a_line_that_only_resembles_a_fence_hides_no_writ(line: str) -> None:
    assert parse(f"{line}\n/todo list\n") == ParsedText(f"{line}\n", [Writ("todo", "list")])


# Streaming


def test_text_is_shown_as_it_arrives_and_a_writ_never_in_part() -> None:
    parser = WritParser()
    visible = [
        parser.feed(piece).visible
        for piece in ("Hel", "lo\n", "/", "to", "do ", "add x", "\n", "\n", "/to", "morrow", " is ", "fine")
    ]

    assert visible == ["Hel", "lo\n", "", "", "", "", "", "\n", "", "/tomorrow", " is ", "fine"]
    assert parser.finish() == ParsedText("", [])


def test_a_writ_is_given_out_as_soon_as_it_is_certain() -> None:
    parser = WritParser()

    assert parser.feed("/todo list").writs == []
    assert parser.feed("\n").writs == [Writ("todo", "list")]
    assert parser.feed("/todo add look\n").writs == []
    assert parser.feed("\n").writs == [Writ("todo", "add look")]


# Fragments that combine into hard cases.
PIECES = st.sampled_from(
    [
        "/todo ",
        "/todo",
        "add look",
        "/todo add look\n",
        "/todo list\n",
        "/endtodo",
        "/endtodo\n",
        "/agent coder go\n",
        "/parallel\n",
        "/endparallel\n",
        "/schedule list\n",
        "```",
        "````",
        "~~~",
        "```sh\n",
        "\n",
        "\r\n",
        "\r",
        " ",
        "/",
        "text",
        "é🦉",
        "\u2028",
    ]
)
TEXTS = st.lists(PIECES, max_size=25).map("".join)


def split_at(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@settings(deadline=None)
@given(TEXTS, st.lists(st.integers(min_value=0), max_size=8))
@example("/todo add look\nbody\n/endtodo\nafter", [3, 15, 20, 28])
@example("/todo list\r\n/to\rdo", [10, 11, 14, 15])
def test_where_a_text_is_cut_makes_no_difference(text: str, places: list[int]) -> None:
    whole = parse(text)

    assert parse_pieces(split_at(text, places)) == whole
    assert parse_pieces(list(text)) == whole


def prefixes(text: str) -> list[str]:
    """Return the visible text after each character."""
    parser = WritParser()
    visible = [""]
    for character in text:
        visible.append(visible[-1] + parser.feed(character).visible)
    return [*visible, visible[-1] + parser.finish().visible]


@settings(deadline=None)
@given(TEXTS)
def test_shown_text_is_never_withdrawn_and_never_part_of_a_writ(text: str) -> None:
    final = parse(text).visible

    for prefix in prefixes(text):
        assert final.startswith(prefix)


@settings(deadline=None)
@given(TEXTS)
def test_shown_lines_are_in_order_and_contain_no_writ(text: str) -> None:
    visible = parse(text).visible

    lines = iter(text.split("\n"))
    assert all(line in lines for line in visible.removesuffix("\n").split("\n") if line)
    assert parse(visible) == ParsedText(visible, [])


@settings(deadline=None)
@given(st.text(alphabet="ab /\n`~", max_size=60).filter(lambda text: not any(word in text for word in ("/todo", "/agent"))))
def test_a_text_without_writs_is_shown_whole(text: str) -> None:
    assert parse(text) == ParsedText(text, [])
