"""Text with terminal control sequences is displayed, but never interpreted."""

import json
import re
import unicodedata

from headway.actions.access import local_tenant
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import sub_goals
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from tests.goal_plans import add_plan, end, evaluate, get_sub_goal
from tests.surfaces.shell import Shell, get_error_line, render_screen

# A window title, a colour, a cursor jump, a C1 control, a bell, bidirectional overrides, and every kind of line break.
HOSTILE = "a\x1b]0;owned\x07b\x1b[31mc\x1b[2Jd\x9b31me\x7ff\u202eg\u2066h\u2028i\u2029j\x85k\x0bl\rm\nn\to"
COMMANDS = [
    ["todo", "list", "--all"],
    ["todo", "list", "--all", "--json"],
    ["todo", "show", "1"],
    ["todo", "show", "1", "--json"],
    ["todo", "ready"],
    ["todo", "export"],
    ["todo", "export", "--format", "md"],
    ["todo", "done", "404"],
    ["conversation", "list"],
    ["conversation", "list", "--json"],
    ["token", "list"],
    ["token", "list", "--json"],
    ["memory", "list"],
    ["memory", "show", "1"],
    ["memory", "search", "owned", "--json"],
    ["doctor"],
]
GOALS = [
    ["goal", "list"],
    ["goal", "list", "--json"],
    ["goal", "show", "1"],
    ["goal", "show", "1", "--json"],
    ["goal", "why", "1"],
    ["goal", "why", "1", "--sub-goal", "1"],
    ["schedule", "list"],
    ["agents", "list"],
]


def assert_harmless(output: str, command: list[str] | None = None) -> None:
    """Check that there are no control characters except line feeds and the tabs between columns, and no bidirectional overrides."""
    bad = {character for character in output if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs")}
    assert bad <= {"\n", "\t"}, (command, ascii(output))
    assert "n\to" not in output, command


def fill(headway: Shell) -> None:
    headway.ok("conversation", "new", HOSTILE, "--key", "k")
    headway.ok("token", "new", "--label", HOSTILE)
    headway.ok("memory", "add", HOSTILE)
    texts = dict.fromkeys(("subject", "description", "completion_criteria", "outcome"), HOSTILE)
    rows = [texts, texts | {"id": 7, "depends_on": [8]}, texts | {"id": 8, "status": "in_progress"}, texts | {"status": "canceled"}]
    headway.ok("todo", "import", "-", "--conversation", "k", stdin=json.dumps(rows))
    headway.ok("schedule", "put", "daily", "--every", "24h", "--goal", HOSTILE)
    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        database.write(add_hostile_goal)


def add_hostile_goal(tx: Transaction) -> None:
    """Add a goal in which every text of the planner, the agents and the evaluator is hostile."""
    goal = goals.add_goal(
        tx, local_tenant.ensure_local(tx).id, NewGoal(HOSTILE, HOSTILE), source="agent-discovered", evidence=HOSTILE
    )
    first, second, third = add_plan(
        tx, goal, {HOSTILE: [], f"{HOSTILE}2": [HOSTILE], f"{HOSTILE}3": []}, role=HOSTILE, kind=HOSTILE
    ).values()
    end(tx, goal, first, HOSTILE)
    evaluate(tx, goal, first, "major", HOSTILE)
    end(tx, goal, second, error=HOSTILE)
    sub_goals.skip(tx, get_sub_goal(tx, goal, third), HOSTILE)
    goals.mark_paused(tx, goals.get_goal(tx, goal.tenant_id, goal.id), "escalation", HOSTILE)


def test_no_output_in_a_pipe_carries_it(headway: Shell) -> None:
    fill(headway)
    for command in (*COMMANDS, *GOALS, ["goal", "watch", "1"]):
        ran = headway(*command)
        assert_harmless(ran.out + ran.err, command)


def test_no_output_on_a_terminal_carries_it(headway: Shell) -> None:
    fill(headway)
    for command in (*COMMANDS[:7], *GOALS):
        output = headway.terminal(*command).out
        # Headway's own colours are allowed.
        assert_harmless(re.sub(r"\x1b\[(0|1|2|3|9|31|32|33|36|;)*m", "", output).replace("\r\n", "\n"), command)


def test_no_live_view_of_a_goal_carries_it(headway: Shell) -> None:
    fill(headway)
    output = headway.terminal("goal", "watch", "1").out
    # A live view moves the cursor only up, and only over its own lines.
    assert_harmless(re.sub(r"\x1b\[((\d|;)*m|2K|1A|\?25[lh])", "", output).replace("\r", ""))
    assert_harmless("\n".join(render_screen(output)))


def test_no_question_carries_it(headway: Shell) -> None:
    fill(headway)
    for command in (["todo", "rm", "1"], ["goal", "abandon", "1"], ["memory", "rm", "1"]):
        output = headway.terminal(*command, question="[y/N]", answer="n\n").out
        assert_harmless(output.replace("\r\n", "\n"))


def test_hostile_text_is_stored_word_for_word(headway: Shell) -> None:
    fill(headway)
    todo = headway.json("todo", "show", "1")["todo"]
    assert [todo[name] for name in ("subject", "description", "completion_criteria", "outcome")] == [HOSTILE] * 4


ERRORS: list[tuple[list[str], int]] = [
    ([HOSTILE], 2),
    (["todo", HOSTILE], 2),
    (["todo", "list", HOSTILE], 2),
    (["todo", "list", "--" + HOSTILE], 2),
    (["todo", "list", "--status", HOSTILE], 2),
    (["todo", "list", "--limit", HOSTILE], 2),
    (["todo", "list", "--turn", HOSTILE], 3),
    (["todo", "list", "--tenant", HOSTILE], 3),
    (["todo", "list", "--conversation", HOSTILE], 3),
    (["todo", "list", "--database-url", HOSTILE], 2),
    (["todo", "list", "--home", f"file/{HOSTILE}"], 1),
    (["todo", "show", HOSTILE], 2),
    (["todo", "claim", "--agent", HOSTILE], 2),
    (["todo", "claim", "--agent", "ada", "--lease", HOSTILE], 2),
    (["todo", "import", HOSTILE], 2),
    (["todo", "import", "-", "--format", HOSTILE], 2),
    (["todo", "export", f"no/{HOSTILE}"], 1),
    (["tenant", "add", HOSTILE], 2),
    (["tenant", "rm", HOSTILE], 3),
    (["token", "revoke", HOSTILE], 2),
    (["conversation", "new", "--key", HOSTILE], 2),
]


def test_an_error_that_quotes_it_is_one_harmless_line(headway: Shell) -> None:
    (headway.folder / "file").write_text("in the way")
    for arguments, code in ERRORS:
        assert_harmless(get_error_line(headway(*arguments), code), arguments)


def test_a_file_of_that_name_is_named_harmlessly(headway: Shell) -> None:
    ran = headway("todo", "export", HOSTILE)
    assert ran.code == 0
    assert (headway.folder / HOSTILE).is_file()
    assert_harmless(ran.err)


def test_text_that_people_really_write_is_shown_as_it_is(headway: Shell) -> None:
    subject = "naïve 日本語 עברית می‌خواهم 👩‍💻 🏳️‍🌈 — “quoted” ½"
    headway.ok("todo", "add", subject)

    assert headway.ok("todo", "list") == f"#1 [pending] {subject}\n"
    assert headway.ok("todo", "export", "--format", "md") == f"- [ ] {subject}\n"
    assert "日本語" in headway.ok("todo", "show", "1", "--json")
