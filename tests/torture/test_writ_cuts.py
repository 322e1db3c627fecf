"""Writs in text that arrives in pieces: the result does not depend on where the text is cut, even inside a character, and an
incomplete writ does nothing."""

import codecs
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from headway.agents import writs
from headway.agents.instructions.roles import Roles
from headway.ledger.errors import Invalid
from headway.ledger.parsing import writ_parser
from headway.ledger.parsing.writ_parser import ParsedText, WritParser, parse
from headway.ledger.scope import Scope
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.proofs import Proof
from tests.torture.arc_coverage import ArcCounter, generate_inputs

# Nearly every text made of these is a trap for the parser.
PIECES = (
    *(
        "/todo ",
        "/todo",
        "add look",
        "/todo add look\n",
        "/todo add look\r\n",
        "/todo list\n",
        "/todo done 1",
        "/endtodo",
        "/endtodo\n",
    ),
    *("/endtodo \r\n", "/agent coder go\n", "/parallel\n", "/agent a b\n", "/endparallel\n", "/endparallel", "/schedule list\n"),
    *("```", "````", "~~~", "```sh\n", "~~~ `x`\n", "\n", "\n\n", "\r\n", "\r", " ", "/", "text", "body\n", "  indented\n"),
    *("é🦉", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\u00a0", "日本\n", "/tödo\n", "🦉\r\n"),
)


def script(seed: int) -> str:
    chance = random.Random(seed)
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(3, 14)))


def decode_pieces(sent: bytes, edges: Sequence[int]) -> Iterator[str]:
    """Decode as a stream reader does: an incomplete character waits for its remaining bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start, end in pairwise((0, *edges, len(sent))):
        yield decoder.decode(sent[start:end])
    yield decoder.decode(b"", final=True)


def feed(pieces: Iterator[str] | Sequence[str]) -> tuple[list[ParsedText], ParsedText]:
    """The output of each piece, and that of the end."""
    parser = WritParser()
    return [parser.feed(piece) for piece in pieces], parser.finish()


def check_same(whole: ParsedText, pieces: Iterator[str] | Sequence[str]) -> None:
    """Check that the pieces add up to the whole, that visible text is final, and that only complete writs are released early."""
    steps, end = feed(pieces)
    early = [writ for step in steps for writ in step.writs]
    visible = "".join(step.visible for step in steps)
    assert ParsedText(visible + end.visible, early + end.writs) == whole
    assert all(writ.complete for writ in early)
    assert all(writ.complete for writ in end.writs[:-1])


@pytest.mark.proof
def test_a_script_cut_at_every_byte_is_the_same_script(proof: Proof) -> None:
    for seed in proof.seeds("writs: scripts cut at every byte", share=50, whole=200):
        sent = script(seed).encode()
        whole = parse(sent.decode())
        for at in range(len(sent) + 1):
            check_same(whole, decode_pieces(sent, (at,)))
        check_same(whole, decode_pieces(sent, range(1, len(sent))))


ADDS = (
    "Plan é:\r\n/todo add one\r\nwhat 🦉\n\n/endtodo\n/todo add two\n\u2028/endtodo\n/endtodo \nso\n"
    "/parallel\n/agent a b\n/endparallel\n"
)


def list_added_todos(desk: TenantHarness, text: str) -> list[tuple[str, str]]:
    """(subject, description) of the todos that the writs of a text add. The transaction is rolled back."""
    added: list[tuple[str, str]] = []
    role = Roles().find("index")

    def work(tx: Transaction) -> None:
        writs.run_text(tx, Scope(desk.tenant.id), role, text)
        rows = tx.all("SELECT subject, description FROM todos WHERE tenant_id = ? ORDER BY id", desk.tenant.id)
        added.extend((str(subject), str(description)) for subject, description in rows)
        raise Invalid("look only")

    with pytest.raises(Invalid, match="look only"):
        desk.database.write(work)
    return added


def test_a_body_that_has_not_arrived_whole_is_not_written_down(sqlite_url: str) -> None:
    sent = ADDS.encode()
    ends = [sent.index(b"/endtodo\n") + 8, sent.index(b"/endtodo \n") + 8]
    with DirectDatabase(sqlite_url) as database:
        desk = TenantHarness(database)
        whole = list_added_todos(desk, ADDS)
        assert whole == [("one", "what 🦉"), ("two", "\u2028/endtodo")]
        for at in range(len(sent) + 1):
            described = [row for row in list_added_todos(desk, sent[:at].decode(errors="ignore")) if row[1]]
            assert described == whole[: sum(end <= at for end in ends)], at


@pytest.mark.proof
def test_texts_bred_for_the_ways_they_take_through_the_parser_are_the_same_however_they_are_cut(proof: Proof) -> None:
    chance = random.Random(proof.whole)
    counter = ArcCounter(writ_parser)
    seen: set[object] = set()

    def is_known(text: str) -> bool:
        with counter:
            feed([text])
        fresh = counter.features() - seen
        seen.update(fresh)
        return not fresh

    inputs = generate_inputs([script(seed) for seed in range(20)], PIECES, chance, is_known)
    for number, text in zip(proof.seeds("writs: texts bred for coverage", share=600, whole=350_000), inputs, strict=False):
        whole = parse(text)
        try:
            check_text(text, whole, chance)
        except AssertionError as error:
            raise AssertionError(f"text {number}: {text!r}") from error


def check_text(text: str, whole: ParsedText, chance: random.Random) -> None:
    sent = text.encode()
    edges = sorted(chance.randint(0, len(sent)) for _ in range(chance.randint(1, 6)))
    check_same(whole, decode_pieces(sent, edges))
    check_same(whole, list(text))
    assert parse(whole.visible) == ParsedText(whole.visible, [])
    lines = iter(text.split("\n"))
    assert all(line in lines for line in whole.visible.removesuffix("\n").split("\n") if line)
    block = [writ for writ in whole.writs if not writ.complete]
    assert block == whole.writs[-len(block) :] if block else True
