"""Hostile texts: the work on a text grows with its length, not faster, whatever its author repeats in it."""

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from headway.agents.loop import assessor, broken_answers
from headway.agents.models import connections, failures, text_calls
from headway.agents.models.rehearsal import judging, reading
from headway.agents.transcripts import transcript
from headway.ledger import framing, text
from headway.ledger.parsing import checklist, writ_parser
from headway.ledger.parsing.writ_parser import ReadWrits, WritParser
from tests.proofs import Proof
from tests.torture.arc_coverage import ArcCounter

PIECES = (
    *("a", "a1B2", "-", ".", ". ", ".!", " ", "\n", "a\n", "\t", "1.", "1. ", ", and then ", "[", "[E", "[END TOD", "[\u200b", "["),
    *("{", '{"', "{}", "{{", "}", "[]", "[],", '{"a":', '{"name":"write_file","arguments":{}}', "\\u", "\\u002f", "&#47;", "&amp;"),
    *(
        "`",
        "```\n",
        "``` ",
        "~~~\n",
        "/",
        "/\n",
        "/todo ",
        "/todo add x\n",
        "/parallel\n",
        "/agent a b\n",
        "<b",
        "</a>",
        "<tool_call>",
    ),
    *(
        "<function=a>",
        "[TOOL_CALLS]",
        "a[ARGS]",
        "<|python_tag|>",
        "“",
        "\u200b",
        "\u0300",
        "\u2028",
        "\x00",
        "İ",
        "sk-",
        "Bearer ",
    ),
    *(
        "input token count",
        "put a to ",
        "https://",
        "- [ ] x\n",
        "  - [ ] x\n",
        "check: {",
        "> ",
        "the result of ",
        "x is not done ",
    ),
)
NAMES = frozenset(("write_file", "calculate"))
READ = ReadWrits()
READ.add("/todo add look")


class Work(NamedTuple):
    name: str
    module: ModuleType
    run: Callable[[str], Any]


def feed(sent: str) -> None:
    """Feed a text in small pieces, as a provider streams it."""
    parser = WritParser()
    for at in range(0, len(sent), 4):
        parser.feed(sent[at : at + 4])
    parser.finish()


WORK = (
    Work("hide keys", failures, lambda sent: failures.hide_keys(sent[:10_000])),
    Work("find calls", text_calls, lambda sent: text_calls.split_calls(f"{sent} write_file {{<", NAMES)),
    Work("find cut-off calls", text_calls, lambda sent: text_calls.parse_calls(sent, NAMES, is_cut_off=True)),
    Work("judgement", assessor, assessor.parse_judgement),
    Work("join JSON", broken_answers, lambda sent: broken_answers.join_json("{", sent)),
    Work("dialects", connections, lambda sent: (connections.TOO_LONG.search(sent), connections.LACKS_TOOLS.search(sent))),
    Work("escape frames", framing, framing.escape_frames),
    Work("one line", framing, framing.format_inline),
    Work("lines", text, text.to_lines),
    Work("writs", writ_parser, writ_parser.parse),
    Work("streamed writs", writ_parser, feed),
    Work("read writs", writ_parser, lambda sent: ReadWrits().add(f"/todo \\u {sent}")),
    Work("quoted writs", writ_parser, lambda sent: f"/todo {sent}" in READ),
    Work("checklist", checklist, checklist.parse),
    Work("tokens", transcript, transcript.estimate_text),
    Work("storable", text, text.to_storable),
    Work("requests", reading, reading.split_request),
    Work("steps", reading, lambda sent: reading.find_call(f"write {sent}", reading.RecentResults("1", "a.txt"))),
    Work("summary", judging, judging.summarise),
)


def repeat(piece: str, length: int) -> str:
    return (piece * (length // len(piece) + 1))[:length] + "!\u2028x"


def count_steps(work: Work, sent: str) -> int:
    with ArcCounter(work.module) as counter:
        work.run(sent)
    return sum(counter.taken.values())


@pytest.mark.proof
def test_the_steps_of_our_parsers_grow_with_the_text(proof: Proof) -> None:
    length, pieces = (5_000, PIECES) if proof.whole else (100, PIECES[::5])
    proof.tried("hostile texts: steps of the parsers", len(WORK) * len(pieces))
    steep = {}
    for work in WORK:
        for piece in pieces:
            few, many = (count_steps(work, repeat(piece, n)) for n in (length, 4 * length))
            if many > 5 * few + 200:
                steep[work.name, piece] = few, many
    assert steep == {}


@pytest.mark.torture
def test_no_hostile_text_of_a_million_characters_takes_quadratic_time(proof: Proof) -> None:
    """Four times the text takes about four times the processor time; quadratic work would take sixteen times."""
    proof.tried("hostile texts: a million characters", len(WORK) * len(PIECES))
    steep = {}
    for work in WORK:
        for piece in PIECES:
            few, many = (measure_seconds(work, repeat(piece, n)) for n in (250_000, 1_000_000))
            if many > 0.1 and many > 9 * few:
                steep[work.name, piece] = few, many
    assert steep == {}


def measure_seconds(work: Work, sent: str) -> float:
    began = time.process_time()
    work.run(sent)
    return time.process_time() - began
