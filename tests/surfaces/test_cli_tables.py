"""Lists: aligned columns without broken words on a terminal, lines with tabs and whole texts in a pipe."""

import json
import re

import pytest
from rich.cells import cell_len

from headway.actions.access import local_tenant
from headway.actions.runs import inbox, jobs, runs
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.ledger.run import Effect
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.surfaces.cli.tables import count_columns, cut_at_word
from tests.surfaces.shell import Shell
from tests.tables import each_row

LONG = (
    "Collect the quarterly numbers of every shop, compare them with the plan 日本語 and write a report for the board of directors. "
)
TEXT = (LONG * 4).strip()
HEADINGS = ("message", "turn", "who", "content")  # of the messages, which are not in the first line
AGE = re.compile(r"now|\d+[mhd]")  # of a todo
LISTS = (
    ["jobs", "list"],
    ["agents", "list"],
    ["conversation", "list"],
    ["conversation", "show", "1"],
    ["token", "list"],
    ["tenant", "list"],
    ["schedule", "list"],
    ["memory", "list"],
    ["approvals", "list"],
    ["questions", "list"],
    ["goal", "list"],
    ["todo", "list"],
    ["audit"],
)


@pytest.fixture
def filled(headway: Shell) -> Shell:
    """A ledger with a long text in every list."""
    headway.ok("token", "new", "--label", LONG, "--expires", "90d")
    headway.ok("schedule", "put", "nightly", "--every", "24h", "--goal", TEXT)
    headway.ok("memory", "add", TEXT)
    headway.ok("todo", "add", TEXT)
    headway.ok("goal", "add", TEXT, "--no-wait")
    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        database.write(add_waiting_turn)
    return headway


def add_waiting_turn(tx: Transaction) -> None:
    tenant_id = local_tenant.ensure_local(tx).id
    run = turns.start_turn(tx, tenant_id, conversations.add_conversation(tx, tenant_id, TEXT[:200]).id, turns.TurnRequest(TEXT))
    runs.begin_child(tx, run, "researcher", TEXT, 10)
    effect = Effect(1, 0, "a call", "run_command", json.dumps({"text": TEXT}, ensure_ascii=False), "proposed")
    inbox.propose_call(tx, run, effect, "run_command needs approval", tx.now + 60_000)
    inbox.ask(tx, run, TEXT, ("red", "blue"))
    jobs.fail_permanently(tx, jobs.create_job(tx, tenant_id, "tool", {"tool": {"name": "now", "arguments": {}}}), TEXT)


def read_screen(headway: Shell, command: list[str], width: int) -> list[str]:
    output = headway.terminal(*command, width=width).out
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in output.splitlines()]


def test_no_line_is_too_long_and_no_word_is_broken(filled: Shell) -> None:
    for command in LISTS:
        piped = filled.ok(*command)
        words = {word.removesuffix("…") for word in piped.split()}
        for width in (80, 120) if command in LISTS[:3] else (80,):
            first, *lines = read_screen(filled, command, width)
            assert all(cell_len(line) <= width for line in (first, *lines)), (command, width, lines)
            shown = {word.removesuffix("…") for line in lines for word in line.split() if not AGE.fullmatch(word)}
            shown -= {"", "○", "#1", *HEADINGS}
            assert shown <= words, (command, width, shown - words)


def test_a_pipe_gets_whole_texts_with_tabs_between_the_columns(filled: Shell) -> None:
    for command, columns in ((["jobs", "list", "--dead"], 5), (["memory", "list"], 4), (["questions", "list"], 4)):
        (line,) = filled.ok(*command).splitlines()
        assert line.count("\t") == columns - 1
        assert TEXT in line


def test_columns_are_aligned_under_their_headings(headway: Shell) -> None:
    for label in ("ci", "日本語", "a much longer label"):
        headway.ok("token", "new", "--label", label, "--operator")
    heading, *rows = read_screen(headway, ["token", "list"], 100)

    start = heading.index("scope")
    assert len(rows) == 3
    assert all(cell_len(row[: row.index("operator")]) == start for row in rows)


def test_a_narrow_terminal_gets_what_does_not_fit_below_the_row(filled: Shell) -> None:
    lines = read_screen(filled, ["agents", "list"], 60)
    run_ids = [agent["id"] for agent in filled.json("agents", "list")["agents"]]

    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["run", *run_ids]
    assert sum(line.strip().startswith("0  $0.0000  Collect") for line in lines) == len(run_ids)
    assert all(cell_len(line) <= 24 for line in read_screen(filled, ["agents", "list"], 24))  # so narrow that ids are broken


@each_row(
    ("text", "width", "shown"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 12, "one two…"),
        ("日本 語語 三三", 10, "日本 語語…"),
        ('{"path":"' + "x" * 100, 20, '{"path":"xxxxxxxxxx…'),
        ("call " + "x" * 100, 20, "call " + "x" * 14 + "…"),
    ],
)
def test_a_cut_text_ends_after_a_word_that_fits(text: str, width: int, shown: str) -> None:
    assert cut_at_word(text, width) == shown
    assert count_columns(shown) <= width
