"""`headway inbox`, `approval` and `question`: decisions are stored at once, and a process continues the agent."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import inbox
from headway.actions.turns import turns
from headway.ledger.run import Effect
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.model_server import ModelServer
from tests.surfaces.conversation_client import wait_for_turn
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.shell import Shell, get_error_line
from tests.surfaces.waiting_turns import SUM, add_rule, ask_then_answer, begin_waiting_turn, call_then_answer, list_results

NO_PROCESS = "No process is running: the agent continues when `headway serve` or `headway worker` starts.\n"
ECHO = {"command": ["echo", "hello"]}


class Asked(NamedTuple):
    approval: str
    question: str


@pytest.fixture
def asked(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """An approval and a question of a run in the tenant acme. No process is running."""
    monkeypatch.setenv("HEADWAY_COMMANDS", "echo")
    monkeypatch.setenv("HEADWAY_WORKSPACE", str(headway.folder))
    headway.ok("tenant", "list")
    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        desk = TenantHarness(database)
        run = desk.write(turns.start_turn, desk.conversation().id, turns.TurnRequest("go"))

        def ask(tx: Transaction) -> Asked:
            effect = Effect(1, 0, "a call", "run_command", json.dumps(ECHO), "proposed")
            approval = inbox.propose_call(tx, run, effect, "run_command needs approval", tx.now + 60_000)
            question = inbox.ask(tx, run, "Which colour?\x1b[31m", ("red", "blue"))
            return Asked(str(approval.id), str(question.id))

        yield database.write(ask)


def test_the_inbox_decides_about_a_paused_goal(headway: Shell) -> None:
    headway.ok("tenant", "list")
    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        goal = TenantHarness(database).write(goals.propose, NewGoal("A tidy shed."), "A hunch.")
    place = ("--tenant", "acme")

    (row,) = headway.ok("inbox", "list", "--kind", "decision", *place).splitlines()
    number = row[: row.index("\t")].removeprefix("#")
    assert row.startswith(f"#{number}\tdecision\topen\tindex\tAn agent proposes goal #{goal.id}: “A tidy shed.”.")
    assert row.endswith("[continue | replan | abandon]")
    assert "Answer with one of: continue, replan, abandon." in get_error_line(headway("inbox", "answer", number, "yes", *place), 2)
    answered = headway.json("inbox", "answer", number, "abandon", "--note", "It is tidy.", *place)["request"]
    assert (answered["answer"], answered["reason"], answered["decided_by"]) == ("abandon", "It is tidy.", "cli")
    assert headway.json("goal", "show", str(goal.id), *place)["goal"]["status"] == "abandoned"
    assert headway.ok("inbox", "list", *place) == "nothing waits\n"


def test_the_inbox_lists_and_answers_requests_of_both_kinds(headway: Shell, asked: Asked) -> None:
    place = ("--tenant", "acme")

    question, approval = headway.ok("inbox", "list", *place).splitlines()
    assert question.startswith(f"#{asked.question}\tquestion\topen\tindex\tWhich colour?")
    assert question.endswith("[red | blue]")
    assert approval == f'#{asked.approval}\tapproval\topen\tindex\trun_command {{"command": ["echo", "hello"]}}'
    assert headway.ok("inbox", "list", "--kind", "approval", *place).count("\n") == 1
    assert "question        Which colour?" in headway.ok("inbox", "show", asked.question, *place)
    assert get_error_line(headway("inbox", "approve", asked.question, *place), 3) == f"headway: No approval #{asked.question}."
    assert headway.json("inbox", "answer", asked.question, "red", *place)["request"]["answer"] == "red"
    assert headway.json("inbox", "reject", asked.approval, "--reason", "no", *place)["request"]["reason"] == "no"
    assert headway.ok("inbox", "list", *place) == "nothing waits\n"
    listed = headway.json("inbox", "list", "--state", "all", *place)["requests"]
    assert [(request["kind"], request["state"]) for request in listed] == [("question", "answered"), ("approval", "rejected")]
    assert get_error_line(headway("inbox", "show", "7"), 3) == "headway: No request #7."
    assert "approval" not in headway.ok("--help").replace("approvals", "")


def test_approvals_are_listed_and_shown(headway: Shell, asked: Asked) -> None:
    line = f'#{asked.approval}\tproposed\tindex\trun_command\t{{"command": ["echo", "hello"]}}\n'

    assert headway.ok("approvals", "list", "--tenant", "acme") == line
    assert headway.ok("approvals", "list", "--tenant", "acme", "--state", "approved") == "no approvals\n"
    assert headway.ok("approvals", "list") == "no approvals\n"  # the local tenant has none
    shown = headway.ok("approvals", "show", asked.approval, "--tenant", "acme")
    assert 'arguments       {"command": ["echo", "hello"]}\n' in shown
    assert "why             run_command needs approval\n" in shown
    assert len({len(line) - len(line.split(None, 1)[1]) for line in shown.splitlines()}) == 1  # all values begin in one column
    assert "digest" not in shown
    (document,) = headway.json("approvals", "list", "--tenant", "acme", "--state", "all")["approvals"]
    assert document == headway.json("approvals", "show", f"#{asked.approval}", "--tenant", "acme")["approval"]


def test_a_decision_is_stored_while_no_process_runs(headway: Shell, asked: Asked) -> None:
    ran = headway("approvals", "approve", asked.approval, "--reason", "fine", "--tenant", "acme")
    again = headway("approvals", "approve", asked.approval, "--tenant", "acme")
    other = headway("approvals", "reject", asked.approval, "--tenant", "acme")
    shown = headway.json("approvals", "show", asked.approval, "--tenant", "acme")["approval"]

    assert (ran.code, ran.err) == (again.code, again.err) == (0, NO_PROCESS)
    assert ran.out == again.out == f'#{asked.approval}\tapproved\tindex\trun_command\t{{"command": ["echo", "hello"]}}\n'
    assert get_error_line(other, 4) == f"headway: Approval #{asked.approval} is already approved by cli."
    assert (shown["state"], shown["decided_by"], shown["reason"]) == ("approved", "cli", "fine")


def test_a_rejection_keeps_its_reason(headway: Shell, asked: Asked) -> None:
    document = headway.json("approvals", "reject", asked.approval, "--reason", "too loud", "--tenant", "acme")["approval"]
    assert (document["state"], document["reason"]) == ("rejected", "too loud")


def test_edited_arguments_are_checked_against_the_tool(headway: Shell, asked: Asked) -> None:
    approve = ("approvals", "approve", asked.approval, "--tenant", "acme")
    assert get_error_line(headway(*approve, "--args", "[1]"), 2) == "headway: --args must be one JSON object."
    assert "command" in get_error_line(headway(*approve, "--args", '{"commands": ["echo"]}'), 2)
    edited = headway.json(*approve, "--args", '{"command": ["echo", "bye"]}')["approval"]

    assert (edited["state"], edited["arguments"]) == ("approved", {"command": ["echo", "bye"]})


def test_always_writes_a_rule_for_this_tenant(headway: Shell, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    always = ("approvals", "approve", asked.approval, "--always", "--tenant", "acme")
    monkeypatch.setenv("HEADWAY_SANDBOX", "off")
    assert get_error_line(headway(*always), 4) == (
        "headway: run_command cannot be allowed always, because there is no sandbox here: HEADWAY_SANDBOX is off. "
        "Without one, each call needs approval. Install bubblewrap, or write a rule into policy.toml yourself."
    )
    monkeypatch.setenv("HEADWAY_SANDBOX", "required")
    headway.ok(*always)

    policy = (headway.folder / ".headway" / "policy.toml").read_text()
    assert policy.splitlines() == [
        f"[[rule]]  # always, by approval {asked.approval}",
        'tool = "run_command"',
        'role = "index"',
        'tenant = "acme"',
        'arguments = {"command" = "echo hello"}',
        'decision = "allow"',
    ]


def test_questions_are_listed_and_answered(headway: Shell, asked: Asked) -> None:
    listed = headway.ok("questions", "list", "--tenant", "acme")
    wrong = headway("questions", "answer", asked.question, "green", "--tenant", "acme")
    ran = headway("questions", "answer", asked.question, "blue", "--tenant", "acme")
    document = headway.json("questions", "show", asked.question, "--tenant", "acme")["question"]

    assert listed.startswith(f"#{asked.question}\topen\tindex\tWhich colour?")
    assert listed.endswith("[red | blue]\n")
    assert "\x1b" not in listed
    assert get_error_line(wrong, 2) == "headway: Answer with one of: red, blue."
    assert (ran.code, ran.err) == (0, NO_PROCESS)
    assert (document["answer"], document["answered_by"], document["state"]) == ("blue", "cli", "answered")
    assert headway.ok("questions", "list", "--tenant", "acme") == "no questions\n"


def test_unknown_ids_and_bad_ids_are_refused(headway: Shell) -> None:
    assert get_error_line(headway("approvals", "approve", "7"), 3) == "headway: No approval #7."
    assert get_error_line(headway("questions", "answer", "7", "x"), 3) == "headway: No question #7."
    assert "'x' is not an approval id; ids look like 14" in get_error_line(headway("approvals", "show", "x"), 2)


def test_a_running_server_continues_what_the_command_line_approved(
    chatter: Client, chat_service: Service, model: ModelServer, headway: Shell
) -> None:
    add_rule(chat_service, "calculate", chatter.desk.tenant.name)
    model.script = call_then_answer("calculate", SUM)
    turn = begin_waiting_turn(chatter, chatter.conversation())
    place = ("--tenant", chatter.desk.tenant.name, "--database-url", chat_service.database_url)
    with chat_service.beside("somebody"):  # the server's own heartbeat may be late
        ran = headway("approvals", "approve", str(turn["waiting_for"]["id"]), *place)
    ended = wait_for_turn(chatter, turn["id"])

    assert (ran.code, ran.err) == (0, "")
    assert ended["status"] == "finished"
    assert list_results(chatter) == [("calculate", {"result": 42}, False)]


def test_a_running_server_continues_what_the_command_line_answered(
    sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer, headway: Shell
) -> None:
    model.script = ask_then_answer("Which colour?")
    turn = begin_waiting_turn(sqlite_chatter, sqlite_chatter.conversation())
    place = ("--tenant", sqlite_chatter.desk.tenant.name, "--database-url", sqlite_chat_service.database_url)
    headway.ok("questions", "answer", str(turn["waiting_for"]["id"]), "green", *place)

    assert wait_for_turn(sqlite_chatter, turn["id"])["status"] == "finished"
    assert '"answered_by": "cli"' in model.requests[-1].tool_results[-1].content


def test_a_policy_that_cannot_be_read_stops_always_and_names_the_line(headway: Shell, asked: Asked) -> None:
    policy = Path(headway.folder, ".headway", "policy.toml")
    policy.write_text('[[rule]]\ntool = "x"\ndecision = "perhaps"\n')
    headway.trust()
    ran = headway("approvals", "approve", asked.approval, "--always", "--tenant", "acme")

    assert get_error_line(ran, 2).startswith(f"headway: {policy}, line 1: decision must be allow, ask or deny")
    assert headway.json("approvals", "show", asked.approval, "--tenant", "acme")["approval"]["state"] == "proposed"
