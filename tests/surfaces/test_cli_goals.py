"""`headway goal …`: add, list, show, watch, pause, and decide."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import pytest

from headway.actions.access import local_tenant
from headway.actions.goals import goals, views
from headway.actions.goals.goals import NewGoal, apply_plan
from headway.actions.installation import halts
from headway.actions.runs import inbox, runs
from headway.ledger.goal import Goal, PlannedStep
from headway.storage.direct import DirectDatabase
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction
from headway.testing import FixedClock
from tests.goal_plans import add_begun_goal, add_plan, end, evaluate, start
from tests.surfaces.shell import Shell, get_error_line, render_screen
from tests.tables import each_row
from tests.warm_start import Program

T = TypeVar("T")

LONG = "measure the first queue on the reference machine with the standard load, ten times over"
STEPS = {
    "collect the sources": [],
    LONG: ["collect the sources"],
    "measure the second": ["collect the sources"],
    "measure the third": ["collect the sources"],
    "compare": [LONG, "measure the second", "measure the third"],
    "find a picture": [],
}


def open_ledger(headway: Shell, clock: Callable[[], int] | None = None) -> DirectDatabase:
    headway.ok("todo", "list")  # creates the database
    return DirectDatabase(f"sqlite:///{headway.ledger}", clock) if clock else DirectDatabase(f"sqlite:///{headway.ledger}")


def write(headway: Shell, work: Callable[[Transaction, int], T]) -> T:
    with open_ledger(headway) as database:
        return database.write(lambda tx: work(tx, local_tenant.ensure_local(tx).id))


def add_paused(headway: Shell, description: str = "reach it", **fields: Any) -> Goal:
    return write(headway, lambda tx, tenant_id: goals.pause(tx, tenant_id, add_begun_goal(tx, tenant_id, description, **fields).id))


def add_half_done(tx: Transaction, tenant_id: int) -> Goal:
    """Add a paused goal whose sub-goals are completed, completed with a minor divergence, failed, in progress and pending."""
    goal = goals.add_goal(tx, tenant_id, NewGoal("Compare three queues", "Each has numbers", budget=2_000_000_000))
    first, second, third, fourth, *_ = add_plan(tx, goal, STEPS).values()
    end(tx, goal, first, "Found 12 sources.")
    evaluate(tx, goal, first)
    end(tx, goal, second, "Ten thousand a second.")
    evaluate(tx, goal, second, "minor", "Slower than hoped.")
    end(tx, goal, third, error="The broker did not start.")
    start(tx, goal, fourth)
    return goals.pause(tx, tenant_id, goal.id)


def simulate_other_process(headway: Shell) -> None:
    """Record a heartbeat of another process that stays valid for an hour."""
    with open_ledger(headway, FixedClock(int((time.time() + 3_600) * 1000))) as database:
        database.write(partial(worker_leases.record_heartbeat, owner="somebody"))


def strip_times(output: str) -> list[str]:
    output = re.sub(r"\(\d+ s,", "(0 s,", output)
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\b\d\d:\d\d:\d\d\b", "…", output).splitlines()


# Adding


def test_a_goal_is_written_down_for_others_to_pursue(headway: Shell) -> None:
    ran = headway("goal", "add", " Tidy up. ", "--criteria", "Nothing lies about.", "--no-wait")
    assert (ran.code, ran.out) == (0, "▶ #1 [active] Tidy up.  no plan  $0.0000\n")
    assert ran.err == "No process is running: start `headway serve`. `headway goal watch 1` shows its progress.\n"
    simulate_other_process(headway)
    ran = headway("goal", "add", "Tidy up again.")
    assert (ran.code, ran.out) == (0, "▶ #2 [active] Tidy up again.  no plan  $0.0000\n")
    assert ran.err == "Another process pursues it. `headway goal watch 2` shows its progress.\n"


def test_everything_can_be_said_at_once(headway: Shell) -> None:
    flags = ["--criteria", "Nothing lies about.", "--priority", "0", "--budget", "$0.25", "--deadline", "2h", "--no-wait"]
    before = time.time()
    goal = headway.json("goal", "add", "Tidy up.", *flags)["goal"]
    assert (goal["success_criteria"], goal["priority"], goal["budget_usd"]) == ("Nothing lies about.", 0, 0.25)
    assert before + 7_199 <= goal["deadline"] <= time.time() + 7_200
    assert headway.json("goal", "show", "1")["goal"] == goal


@each_row(
    ("arguments", "code", "told"),
    [
        (["add"], 2, "Missing argument"),
        (["add", " "], 2, "description must not be blank. Say what the goal should achieve."),
        (["add", "x" * 10_001], 2, "description has 10,001 characters"),
        (["add", "x", "--priority", "-1"], 2, "--priority"),
        (["add", "x", "--priority", "1001"], 2, "--priority"),
        (["add", "x", "--budget", "nan"], 2, "'nan' is not an amount of money; they look like 2 or 0.25."),
        (["add", "x", "--budget", "0"], 2, "'0' is not an amount of money"),
        (["add", "x", "--budget", "-1"], 2, "'-1' is not an amount of money"),
        (["add", "x", "--deadline", "tomorrow"], 2, "'tomorrow' is not a duration"),
        (["add", "x", "--deadline", "0s"], 2, "deadline must be in the future."),
        (["list", "--status", "done"], 2, "--status"),
        (["show", "first"], 2, "'first' is not a goal id; ids look like 14 or #14."),
        (["show", "404"], 3, "No goal #404."),
        (["watch", "404"], 3, "No goal #404."),
        (["pause", "404"], 3, "No goal #404."),
        (["resume", "404"], 3, "No goal #404."),
        (["abandon", "404"], 3, "No goal #404."),
        (["decide", "404", "continue"], 3, "No goal #404."),
        (["decide", "404", "retry"], 2, "'retry' is not one of 'continue', 'replan', 'abandon'"),
        (["why", "404"], 3, "No goal #404."),
        (["why", "404", "--sub-goal", "x"], 2, "'x' is not a sub-goal id"),
    ],
)
def test_invalid_arguments_are_reported_in_one_sentence(headway: Shell, arguments: list[str], code: int, told: str) -> None:
    assert told in get_error_line(headway("goal", *arguments), code)
    assert headway.json("goal", "list") == {"goals": [], "next_cursor": None}


def test_nothing_starts_while_everything_is_halted(headway: Shell) -> None:
    goal = add_paused(headway)
    write(headway, lambda tx, _tenant_id: halts.halt(tx, "lunch"))
    for arguments in (["add", "x"], ["resume", "1"], ["decide", "1", "continue"]):
        assert "lunch" in get_error_line(headway("goal", *arguments), 5)
    assert headway.json("goal", "abandon", str(goal.id))["goal"]["status"] == "abandoned"


# Listing and showing


def test_a_list_is_a_line_a_goal(headway: Shell) -> None:
    assert headway.ok("goal", "list") == "no goals\n"
    add_paused(headway, "first")
    headway.ok("goal", "add", "second", "--no-wait")
    headway.ok("goal", "abandon", "1")
    assert headway.ok("goal", "list") == "▶ #2 [active] second  no plan  $0.0000\n✕ #1 [abandoned] first  0/2  $0.0000\n"
    assert headway.ok("goal", "list", "--status", "active") == "▶ #2 [active] second  no plan  $0.0000\n"
    assert [goal["id"] for goal in headway.json("goal", "list", "--limit", "1")["goals"]] == [2]
    assert headway.json("goal", "list", "--limit", "1")["next_cursor"] == views.CURSORS.encode((2,))


def test_a_goal_is_drawn_with_its_plan_and_latest_events(headway: Shell) -> None:
    write(headway, add_half_done)
    assert strip_times(headway.ok("goal", "show", "1")) == [
        "‖ goal #1 Compare three queues",
        "  paused  ██████░░░░░░░░░░░░░░ 2 of 6 done, 1 failed  $0.0000 of $2.00  replans 0/5",
        "  done when Each has numbers",
        "  priority  50",
        "  set       …",
        "  because   Paused by the operator.",
        "  next      Resume it with `headway goal resume 1`.",
        "",
        "plan 1",
        "✔ #1 collect the sources  worker  $0.0000",
        "├─✔ #2 measure the first queue on the reference machine with the…  worker  $0.0000",
        "│     minor divergence: Slower than hoped.",
        "├─✕ #3 measure the second  worker  $0.0000",
        "│     failed: The broker did not start.",
        "└─▶ #4 measure the third  now  worker",
        "  └─○ #5 compare  also after #2, #3  worker",
        "○ #6 find a picture  worker",
        "",
        "… #2 “measure the first queue on the reference machine with the…” diverged slightly: Slower than hoped.",
        "… #3 “measure the second” started, by a worker.",
        "… #3 “measure the second” failed (0 s, $0.0000): The broker did not start.",
        "… #4 “measure the third” started, by a worker.",
        "… Paused by the operator.",
    ]


def test_a_goal_is_changed_run_again_and_shows_its_plans(headway: Shell) -> None:
    def add_replanned(tx: Transaction, tenant_id: int) -> None:
        goal = goals.add_goal(tx, tenant_id, NewGoal("reach it"))
        step = PlannedStep("go", "go there", "there", "work", "inline", "index", 5, 0.5, 0, (), title="Go")
        goal = apply_plan(tx, goal, [step], "")
        end(tx, goal, 1, error="The road is closed.")
        goal = apply_plan(tx, goal, [step._replace(description="fly there", title="Fly")], "The road is closed.")
        goals.pause(tx, tenant_id, goal.id)

    write(headway, add_replanned)
    edited = headway.json("goal", "edit", "1", "--priority", "3", "--budget", "1.5", "--deadline", "2h", "--criteria", "there")[
        "goal"
    ]
    assert (edited["priority"], edited["budget_usd"], edited["success_criteria"]) == (3, 1.5, "there")
    assert edited["deadline"] > time.time() + 7_000
    cleared = headway.json("goal", "edit", "1", "--no-budget", "--no-deadline", "--text", "be there")["goal"]
    assert (cleared["budget_usd"], cleared["deadline"], cleared["description"]) == (None, 0, "be there")
    for wrong in ([], ["--budget", "1", "--no-budget"], ["--priority", "-1"], ["--deadline", "soon"]):
        assert headway("goal", "edit", "1", *wrong).code == 2
    assert strip_times(headway.ok("goal", "plans", "1")) == [
        "plan 2, in force  0 of 1 done  …",
        "  because   The road is closed.",
        "  + #2 Fly",
        "  − #1 Go",
        "plan 1  0 of 1 done  …",
        "  + #1 Go",
    ]
    assert "replaced by a later plan\n✕ #1 Go" in headway.ok("goal", "show", "1")
    assert get_error_line(headway("goal", "again", "1", "--no-wait"), 4).endswith("It can be run again when it has ended.")
    headway.ok("goal", "abandon", "1")
    again = headway.json("goal", "again", "1", "--no-wait")["goal"]
    assert (again["id"], again["repeat_of"], again["description"], again["priority"]) == (2, 1, "be there", 3)


def test_a_chain_of_many_steps_stays_readable(headway: Shell) -> None:
    names = [f"step {number}" for number in range(30)]
    chain = {name: names[place - 1 : place] if place else [] for place, name in enumerate(names)}

    def work(tx: Transaction, tenant_id: int) -> None:
        goal = goals.add_goal(tx, tenant_id, NewGoal("go far"))
        add_plan(tx, goal, chain)

    write(headway, work)
    ran = headway.terminal("goal", "show", "1", width=80)
    rows = [line for line in render_screen(ran.out) if "step " in line]
    assert len(rows) == 30
    assert all(len(line) <= 80 and line.endswith("worker") for line in rows)


def test_on_a_terminal_a_goal_fits_and_does_not_rely_on_colour(headway: Shell) -> None:
    write(headway, add_half_done)
    ran = headway.terminal("goal", "show", "1", width=80)
    lines = render_screen(ran.out)
    assert all(len(line) <= 80 for line in lines)
    assert [line.strip()[-len("worker  $0.0000") :] for line in lines if "✔ #" in line] == ["worker  $0.0000"] * 2
    assert any(line.startswith("├─✔ #2 measure the first queue") and "…" in line for line in lines)
    assert any(line.startswith("└─▶ #4 measure the third") for line in lines)
    assert any(line.startswith("  └─○ #5 compare") and "also after #2, #3" in line for line in lines)
    assert "\x1b[" in ran.out


def test_in_a_pipe_everything_is_plain(headway: Shell) -> None:
    write(headway, add_half_done)
    for command in (["show", "1"], ["list"], ["why", "1"], ["watch", "1"]):
        out = headway.process("goal", *command, env={"TERM": "xterm-256color"}).out
        assert "\x1b" not in out
        assert all(line == line.rstrip() for line in out.splitlines())


def test_json_output_equals_the_http_document(headway: Shell) -> None:
    write(headway, add_half_done)
    goal = headway.json("goal", "show", "1")["goal"]
    assert {"replan_limit", "sub_goals", "experience", "progress"} <= set(goal)
    assert [sub_goal["status"] for sub_goal in goal["sub_goals"]] == [
        "completed",
        "completed",
        "failed",
        "in-progress",
        "pending",
        "pending",
    ]
    assert headway.terminal("goal", "show", "1", "--json").out.replace("\r\n", "\n") == headway.ok("goal", "show", "1", "--json")
    assert headway.json("goal", "why", "1")["why"].startswith("Goal #1 is paused")


def test_why(headway: Shell) -> None:
    write(headway, add_half_done)
    assert headway.ok("goal", "why", "#1") == (
        "Goal #1 is paused by the operator. It continues when it is resumed. So far 2 of 6 sub-goals are done.\n"
    )
    assert headway.ok("goal", "why", "1", "--sub-goal", "#5").startswith(
        "#5 “compare” waits: for #3 “measure the second”, which is failed"
    )
    assert headway.ok("why", "goal:1", "--sub-goal", "5") == headway.ok("goal", "why", "1", "--sub-goal", "5")
    assert headway.ok("goal", "why", "1", "--sub-goal", "1").endswith(
        "is completed: Found 12 sources. Evaluation: no divergence. As expected.\n"
    )
    assert headway.ok("goal", "why", "1", "--sub-goal", "2").endswith(" Evaluation: minor divergence. Slower than hoped.\n")
    headway.ok("goal", "decide", "1", "abandon", "--note", "too slow")
    assert headway.ok("goal", "why", "1") == "Goal #1 was abandoned: too slow. 2 of 6 sub-goals were done.\n"
    headway.ok("goal", "add", "another", "--no-wait")
    headway.ok("goal", "pause", "2")
    assert headway.ok("goal", "why", "2").endswith(" It has no plan yet.\n")
    headway.ok("goal", "abandon", "2")
    assert headway.ok("goal", "why", "2") == "Goal #2 was abandoned: The operator abandoned it. It had no plan.\n"
    assert "Goal #1 has no sub-goal #404." in get_error_line(headway("goal", "why", "1", "--sub-goal", "404"), 3)


def test_why_names_a_missing_worker(headway: Shell) -> None:
    headway.ok("goal", "add", "--no-wait", "A garden.")
    assert headway.ok("goal", "why", "1") == (
        "Goal #1 is active and has no plan yet. No process is running jobs. Start a server or a worker.\n"
    )


def test_the_limit_of_replans_is_the_installations(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    add_paused(headway)
    monkeypatch.setenv("HEADWAY_REPLAN_LIMIT", "9")
    assert "replans 0/9" in headway.ok("goal", "show", "1")
    assert headway.json("goal", "show", "1")["goal"]["replan_limit"] == 9


# Deciding


def test_paused_resumed_and_abandoned(headway: Shell) -> None:
    headway.ok("goal", "add", "reach it", "--no-wait")
    assert headway.ok("goal", "pause", "1") == "‖ #1 [paused] reach it  no plan  $0.0000\n"
    assert "Goal #1 is paused; only an active goal can be paused." in get_error_line(headway("goal", "pause", "1"), 4)
    resumed = headway("goal", "resume", "1")
    assert (resumed.code, resumed.out) == (0, "▶ #1 [active] reach it  no plan  $0.0000\n")
    assert "`headway goal watch 1`" in resumed.err
    assert "only a paused goal needs a decision" in get_error_line(headway("goal", "decide", "1", "continue"), 4)
    assert headway.ok("goal", "abandon", "1") == "✕ #1 [abandoned] reach it  no plan  $0.0000\n"
    assert "has already ended: abandoned" in get_error_line(headway("goal", "abandon", "1"), 4)


def test_a_decision_with_a_note(headway: Shell) -> None:
    add_paused(headway)
    decided = headway.json("goal", "decide", "1", "replan", "--note", "try the back door")["goal"]
    assert decided["status"] == "active"
    assert "The operator decided to replan: try the back door" in headway.ok("goal", "show", "1")
    headway.ok("goal", "pause", "1")
    assert headway.json("goal", "decide", "1", "abandon", "--note", "not worth it")["goal"]["pause_reason"] == "not worth it"


@pytest.mark.parametrize(("answer", "status", "code"), [("n\n", "paused", 1), ("\x04", "paused", 1), ("y\n", "abandoned", 0)])
def test_on_a_terminal_to_abandon_is_asked_for(headway: Shell, answer: str, status: str, code: int) -> None:
    add_paused(headway, "dear to me")
    ran = headway.terminal("goal", "abandon", "1", question="[y/N]", answer=answer)
    assert ran.code == code
    assert "Abandon goal #1 'dear to me' for good? [y/N]" in ran.out
    assert headway.json("goal", "show", "1")["goal"]["status"] == status


def test_yes_skips_the_confirmation(headway: Shell) -> None:
    add_paused(headway)
    ran = headway.terminal("goal", "abandon", "1", "--yes")
    assert (ran.code, "[y/N]" in ran.out) == (0, False)


# Watching


def test_a_goal_that_rests_is_shown_and_left(headway: Shell) -> None:
    add_paused(headway)
    ran = headway("goal", "watch", "1")
    assert ran.code == 1
    assert strip_times(ran.out) == [
        "‖ #1 [paused] reach it  0/2  $0.0000",
        "… The goal was set.",
        "… #1 “go” started, by a worker.",
        "… Paused by the operator.",
        "‖ #1 [paused] reach it  0/2  $0.0000",
        "  because   Paused by the operator.",
        "  next      Resume it with `headway goal resume 1`.",
    ]
    assert headway("goal", "watch", "1", "--json").code == 1


def test_a_reached_goal_exits_with_success(headway: Shell) -> None:
    def work(tx: Transaction, tenant_id: int) -> None:
        goals.complete_goal(tx, add_begun_goal(tx, tenant_id), "We are there.")

    write(headway, work)
    ran = headway("goal", "watch", "1")
    assert (ran.code, strip_times(ran.out)[-2:]) == (0, ["… Completed: We are there.", "✔ #1 [completed] reach it  0/2  $0.0000"])


def test_watch_prints_events_as_they_happen(headway: Shell) -> None:
    goal = write(headway, add_begun_goal)
    simulate_other_process(headway)
    with Program(["goal", "watch", "1"], headway.folder) as watcher:
        try:
            assert watcher.stdout is not None
            assert strip_times("".join(watcher.stdout.readline() for _ in range(3))) == [
                "▶ #1 [active] reach it  0/2  $0.0000",
                "… The goal was set.",
                "… #1 “go” started, by a worker.",
            ]
            for work in (
                lambda tx, _: end(tx, goal, 1, "We went."),
                lambda tx, _: evaluate(tx, goal, 1, "major", "The wrong way."),
                lambda tx, tenant_id: add_begun_goal(tx, tenant_id, "something else"),
                lambda tx, tenant_id: goals.pause(tx, tenant_id, 1),
            ):
                write(headway, work)
            output, errors = watcher.communicate(timeout=60)
        finally:
            watcher.kill()
    assert (watcher.returncode, errors) == (1, "")
    assert strip_times(output) == [
        "… #1 “go” completed (0 s, $0.0000): We went.",
        "… #1 “go” diverged: The wrong way.",
        "… Paused by the operator.",
        "‖ #1 [paused] reach it  0/2  $0.0000",
        "  because   Paused by the operator.",
        "  next      Resume it with `headway goal resume 1`.",
    ]


def ask_for_goal(tx: Transaction, tenant_id: int) -> int:
    """Have the main agent of goal 1 ask a question."""
    run_id = goals.get_goal(tx, tenant_id, 1).run_id
    assert run_id is not None
    return inbox.ask(tx, runs.get_run(tx, tenant_id, run_id), "Which way?").id


def test_a_goal_that_waits_for_a_person_says_so(headway: Shell) -> None:
    write(headway, add_begun_goal)
    simulate_other_process(headway)
    with Program(["goal", "watch", "1"], headway.folder) as watcher:
        try:
            assert watcher.stdout is not None
            assert watcher.stderr is not None
            assert watcher.stdout.readline().startswith("▶ #1 [active] reach it")
            write(headway, ask_for_goal)
            noted = watcher.stderr.readline()
            listed, shown = headway.ok("goal", "list"), headway.ok("goal", "show", "1")
            headway.ok("questions", "answer", "1", "left")
            write(headway, lambda tx, tenant_id: goals.pause(tx, tenant_id, 1))
            watcher.communicate(timeout=60)
        finally:
            watcher.kill()

    assert noted == "headway: An agent waits for question #1. Answer with `headway inbox answer 1 TEXT`.\n"
    assert listed.startswith("▶ #1 [active, waits for question #1] reach it")
    assert "  active, waits for question #1  " in shown
    assert "  next      Answer with `headway inbox answer 1 TEXT`.\n" in shown
    assert "waits for" not in headway.ok("goal", "list")


def test_with_json_only_the_end_is_printed(headway: Shell) -> None:
    write(headway, add_begun_goal)
    simulate_other_process(headway)
    with Program(["goal", "watch", "1", "--json"], headway.folder) as watcher:
        try:
            write(headway, lambda tx, tenant_id: goals.complete_goal(tx, goals.get_locked_goal(tx, tenant_id, 1), "We are there."))
            output, _ = watcher.communicate(timeout=60)
        finally:
            watcher.kill()
    assert watcher.returncode == 0
    assert output == headway.ok("goal", "show", "1", "--json")


def test_on_a_terminal_the_plan_is_seen_to_change_and_left_with_ctrl_c(headway: Shell) -> None:
    goal = write(headway, add_begun_goal)
    simulate_other_process(headway)
    with headway.seated("goal", "watch", "1", width=80) as terminal:
        for text in ("The goal was set.", "goal #1", "0 of 2 done", "▶ #1", "○ #2"):
            assert terminal.sees(text), text

        def work(tx: Transaction, _tenant_id: int) -> None:
            end(tx, goal, 1, "We went.")
            evaluate(tx, goal, 1)

        write(headway, work)
        for text in ("came out as expected.", "1 of 2 done", "✔ #1"):
            assert terminal.sees(text), text
        terminal.type("\x03")
        ran = terminal.leave()
    screen = render_screen(ran.out)
    assert ran.code == 0
    assert screen[-2] == "Goal #1 continues with `headway serve` or `headway goal watch 1`."
    assert all(len(line) <= 80 for line in screen)
    assert sum("1 of 2 done" in line for line in screen) == 1
    assert headway.json("goal", "show", "1")["goal"]["status"] == "active"


def test_goal_watch_shows_a_halt_and_waits(headway: Shell) -> None:
    write(headway, add_begun_goal)
    simulate_other_process(headway)
    with headway.seated("goal", "watch", "1") as terminal:
        assert terminal.sees("0 of 2 done")
        headway.ok("halt", "--why", "lunch")
        assert terminal.sees("Everything is halted.")
        headway.ok("unhalt")
        assert terminal.sees("The halt is lifted.")
        write(headway, lambda tx, tenant_id: goals.abandon(tx, tenant_id, 1))
        assert terminal.leave().code == 1


# Schedules and agents


def test_a_schedule_of_a_goal(headway: Shell) -> None:
    schedule = headway.json("schedule", "put", "tidy", "--every", "6h", "--goal", "Tidy up.")["schedule"]
    assert schedule["goal"] == {"description": "Tidy up.", "success_criteria": "", "priority": 50}
    assert headway.ok("schedule", "list").endswith("\tgoal: Tidy up.\n")
    headway.ok("schedule", "run", "tidy")
    assert "[active] Tidy up." in headway.ok("goal", "list")
    assert "has not ended yet" in get_error_line(headway("schedule", "run", "tidy"), 4)
    assert "Set one of goal, message and tool." in get_error_line(headway("schedule", "put", "x", "--every", "6h"), 2)
    both = ["--goal", "x", "--tool", "now"]
    assert "Set one of goal, message and tool." in get_error_line(headway("schedule", "put", "x", "--every", "6h", *both), 2)


def test_agents_of_a_goal(headway: Shell) -> None:
    first, second = add_paused(headway), add_paused(headway)
    assert [agent["id"] for agent in headway.json("agents", "list", "--goal", "1")["agents"]] == [first.run_id]
    assert len(headway.json("agents", "list")["agents"]) == 2
    assert str(second.run_id) in headway.ok("agents", "list", "--goal", "#2")


# Tenants


def test_another_tenants_goal_is_unknown(headway: Shell) -> None:
    add_paused(headway)
    headway.ok("tenant", "add", "rival")
    for command in (["show"], ["watch"], ["pause"], ["resume"], ["abandon"], ["decide", "abandon"], ["why"]):
        verb, *options = command
        assert get_error_line(headway("goal", verb, "1", *options, "--tenant", "rival"), 3).endswith("No goal #1.")
    assert headway.ok("goal", "list", "--tenant", "rival") == "no goals\n"


LOADED = """
import sys
from headway.surfaces.cli.main import main
try:
    main()
except SystemExit:
    print("asyncio" in sys.modules)
"""


def test_looking_at_goals_loads_no_event_loop(headway: Shell) -> None:
    add_paused(headway)
    for command in (["show", "1"], ["list"], ["why", "1"]):
        ran = subprocess.run([sys.executable, "-c", LOADED, "goal", *command], cwd=headway.folder, capture_output=True, text=True)
        assert ran.stdout.splitlines()[-1] == "False"
