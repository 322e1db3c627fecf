"""`why`: the events and decisions that led to the present state, from the log, each with its number."""

from functools import partial
from pathlib import Path

import pytest

from headway.actions.engine import run_ends
from headway.actions.inspection import why
from headway.actions.inspection.why import WhyKind
from headway.actions.installation import halts, tenants
from headway.actions.todos import proof, todos
from headway.actions.turns import turns
from headway.ledger.check import CheckResult, ReceiptDraft
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.todo import Change, Draft
from headway.storage.transaction import Transaction, act_as
from headway.testing import TenantHarness
from tests.agents.person_harness import decide_and_finish, list_approvals, write_policy
from tests.agents.turn_harness import Talk, complete_next, in_order, open_talk, plan_call
from tests.model_server import Reply, Request, calls, error, text

HOSTILE = "<b>x</b>\x1b[31m\nnext\u202e"


def explain(talk: Talk, kind: WhyKind, reference: object, limit: int = 100) -> list[str]:
    """Return the sentences. Every event that they name exists."""
    explanation = talk.database.read(lambda tx: why.explain(tx, talk.tenant_id, kind, str(reference), limit))
    stored = {seq for (seq,) in talk.database.read(lambda tx: tx.all("SELECT seq FROM events"))}
    assert {line.seq for line in explanation.lines if line.seq is not None} <= stored
    return [line.text for line in explanation.lines]


def test_a_refused_answer_explains_the_turn_and_the_item_that_stayed_open(database_url: str, tmp_path: Path) -> None:
    script = in_order(plan_call("Bake", "Frost"), complete_next, *[text("Done!")] * 3)
    with open_talk(database_url, tmp_path, script) as talk:
        turn = talk.say("Bake a cake.")
        baked, frosted = talk.plan()
        lines = explain(talk, "turn", turn["id"])
        refused = "The answer was refused and returned to the model: 1 item is still open."

        assert lines[:2] == [f"The turn was started in conversation {talk.conversation_id}.", "It answers: “Bake a cake.”"]
        run = talk.run_row().id
        assert lines[2:] == [
            f"“Bake” became item #{baked.id} of the plan by agent index with create_todo (run {run}).",
            f"“Frost” became item #{frosted.id} of the plan by agent index with create_todo (run {run}).",
            f"Item #{baked.id} was completed by agent index with complete_todo (run {run}): done",
            *[refused] * 3,
            "The turn finished with the outcome incomplete; 1 item stays open.",
            "The turn finished incomplete: its agent kept answering without a change to the plan. "
            f"Open items: #{frosted.id} “Frost”. Continue the turn, or end them yourself.",
        ]
        assert explain(talk, "todo", baked.id) == [
            f"“Bake” was created by agent index with create_todo (run {run}) in the plan of turn {turn['id']}.",
            f"It was completed by agent index with complete_todo (run {run}): done",
            f"Todo #{baked.id} is completed. Set it back to pending to reopen it: `headway todo reopen {baked.id}`.",
        ]
        assert explain(talk, "todo", frosted.id)[1:] == [
            *[refused] * 3,
            "The turn finished with the outcome incomplete; 1 item stays open.",
            f"Todo #{frosted.id} is pending. The turn that planned it has ended, so no agent works on it. Complete it, cancel it, "
            "or ask for it in a new message.",
        ]


def test_a_person_who_rejects_a_call_is_named(sqlite_url: str, tmp_path: Path) -> None:
    write_policy(tmp_path, 'tool = "calculate"\ndecision = "ask"')
    script = in_order(calls(("calculate", {"expression": "6*7"})), text("I could not."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        turn = talk.say()
        (approval,) = list_approvals(talk)
        number = approval["id"]
        waiting = explain(talk, "turn", turn["id"])[-1]
        decide_and_finish(talk, number, "reject", reason="Not on Mondays.")
        lines = explain(talk, "turn", turn["id"])

        assert waiting == (
            f"The turn waits for approval #{number}. Decide with `headway inbox approve {number}` or "
            f"`headway inbox reject {number}`, or cancel the turn."
        )
        assert lines[2:] == [
            f'Agent index asked for approval #{number} of calculate {{"expression": "6*7"}} ({approval["why"]}).',
            f"Approval #{number} of calculate was rejected by bob: Not on Mondays.",
            "The call of calculate failed: A person rejected this call: Not on Mondays. It was not made.",
            "The turn finished with the outcome answered.",
            "The turn finished with an answer.",
        ]


def test_a_todo_that_a_writ_completed_names_the_writ_and_the_run(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(text("/todo done buy flour"), text("Bought."))) as talk:
        todo = talk.database.write(lambda tx: todos.add_todo(tx, talk.tenant_id, Draft("buy flour")))
        talk.say()

        assert explain(talk, "todo", todo.id) == [
            "“buy flour” was created without a named author in the tenant's list.",
            f"It was completed by agent index with a writ (run {talk.run_row().id}).",
            f"Todo #{todo.id} is completed. Set it back to pending to reopen it: `headway todo reopen {todo.id}`.",
        ]


def test_a_dead_letter_tells_what_failed_and_what_to_do(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, error(400)) as talk:
        turn = talk.say()
        job = talk.job()
        lines = explain(talk, "job", job.id)
        reason = job.as_json()["error"]

        assert lines[0] == f"The job was created: it answers turn {turn['id']}."
        assert f"The job {job.id} became a dead letter after 1 failure: {reason}" in lines
        assert f"The turn failed: {reason}" in lines
        assert lines[-1] == (
            f"The job is a dead letter: {reason} Retry it with `headway admin job retry {job.id}`, or delete it with "
            f"`headway admin job rm {job.id}`."
        )
        advice = f"Retry it with `headway admin job retry {job.id}`."
        assert explain(talk, "turn", turn["id"])[-1] == f"The turn failed: {reason} {advice}"


def test_a_turn_that_was_taken_over_after_a_crash_says_so(sqlite_url: str, tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        if len(talk.server.requests) == 1:
            talk.server.hold()
        return text("Hello.")

    async def crash() -> None:
        task = await talk.begin()
        await talk.wait_for_requests(1)
        await talk.crash(task)

    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.wait(crash())
        talk.server.script = lambda _request: text("Hello.")
        talk.server.release()
        turn = talk.resume_turn()
        lines = explain(talk, "turn", turn["id"])

        assert lines[2:4] == [
            "Its process died or was cut off. Another process took the job over and resumed it.",
            "The turn finished with the outcome answered.",
        ]


def test_a_canceled_turn_names_who_canceled_it_and_the_halt_before(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        run = talk.database.write(lambda tx: turns.start_turn(tx, talk.tenant_id, talk.conversation_id, turns.TurnRequest("Go.")))
        assert run.turn_id

        def stop(tx: Transaction) -> None:
            halts.halt(tx, "maintenance")
            with act_as(tx, f"the operator {HOSTILE}"):
                run_ends.cancel_turn(tx, talk.tenant_id, run.turn_id or "")

        talk.database.write(stop)
        lines = explain(talk, "turn", run.turn_id)
        talk.database.write(halts.unhalt)

        assert "All work was halted: maintenance" in lines
        assert "The turn was canceled by the operator <b>x</b>\N{REPLACEMENT CHARACTER}[31m next\N{REPLACEMENT CHARACTER}." in lines
        assert lines[-1] == "The turn was canceled. Finished work was kept. Send a new message to continue."


# Todos of people


def explain_todo(desk: TenantHarness, todo_id: int, limit: int = 100) -> why.Explanation:
    return desk.read(why.explain, "todo", str(todo_id), limit)


def test_a_blocked_todo_names_what_it_waits_for_and_what_ended(desk: TenantHarness) -> None:
    first, second = (desk.write(todos.add_todo, Draft(subject)) for subject in ("dig", "buy\x1b[31m plants"))
    blocked = desk.write(todos.add_todo, Draft("plant", depends_on=(first.id, second.id)))
    desk.write(todos.end_todo, first.id, "completed")
    lines = [line.text for line in explain_todo(desk, blocked.id).lines]

    assert lines == [
        f"“plant” was created without a named author in the tenant's list, waits for #{first.id}, #{second.id}.",
        f"Dependency #{first.id} “dig” was completed.",
        f"Todo #{blocked.id} is pending and blocked: it waits for #{second.id} “buy\N{REPLACEMENT CHARACTER}[31m plants” "
        "(pending). End these, or remove the dependency.",
    ]
    desk.write(todos.end_todo, second.id, "canceled")
    assert (
        explain_todo(desk, blocked.id).lines[-1].text
        == f"Todo #{blocked.id} is pending and ready: it can be started or claimed now."
    )


def test_reopening_is_told_and_details_are_left_out_first(desk: TenantHarness) -> None:
    todo = desk.write(todos.add_todo, Draft("dig"))
    desk.write(todos.end_todo, todo.id, "completed", "a hole")
    desk.write(todos.change_todo, todo.id, Change(status="in_progress"))
    for number in range(40):
        desk.write(todos.change_todo, todo.id, Change(description=f"deeper {number}"))
    short = explain_todo(desk, todo.id, 25)
    all_lines = [line.text for line in explain_todo(desk, todo.id).lines]

    assert (len(short.lines), short.left_out) == (25, 19)
    assert [line.text for line in short.lines[:3]] == all_lines[:3]
    assert all_lines[:4] == [
        "“dig” was created without a named author in the tenant's list.",
        "It was completed: a hole",
        "It was reopened: from completed to in_progress.",
        "Its description changed.",
    ]
    assert all_lines[-1].startswith(f"Todo #{todo.id} is in progress, by agent index.")


def test_an_item_says_which_turn_took_it_over(desk: TenantHarness) -> None:
    conversation = desk.conversation().id
    first = desk.write(turns.start_turn, conversation, turns.TurnRequest("go")).turn_id or ""
    item = desk.write(todos.add_todo, Draft("dig", conversation_id=conversation, turn_id=first))
    desk.write(run_ends.cancel_turn, first)
    second = desk.write(turns.start_turn, conversation, turns.TurnRequest("go on", continues=first)).turn_id
    assert f"It moved to turn {second}, which continues turn {first}." in [line.text for line in explain_todo(desk, item.id).lines]


def test_ids_of_other_tenants_are_not_found_and_bare_numbers_are_ambiguous(desk: TenantHarness) -> None:
    todo = desk.write(todos.add_todo, Draft("dig"))
    turn = desk.write(turns.start_turn, desk.conversation().id, turns.TurnRequest("go")).turn_id
    stranger = desk.database.write(lambda tx: tenants.add_tenant(tx, "stranger")).id

    references: list[tuple[WhyKind, str]] = [("todo", str(todo.id)), ("turn", str(turn)), ("goal", "1"), ("job", "nothing")]
    for kind, reference in references:
        with pytest.raises(NotFound):
            desk.database.read(partial(why.explain, tenant_id=stranger, kind=kind, reference=reference))
    assert desk.read(why.find_reference, f"todo:{todo.id}") == ("todo", str(todo.id))
    assert desk.read(why.find_reference, turn) == ("turn", turn)
    assert desk.read(why.find_reference, "job:nothing") == ("job", "nothing")
    with pytest.raises(Invalid, match="Write todo:12 or goal:12"):
        desk.read(why.find_reference, "12")
    with pytest.raises(Invalid, match="not the id of a todo"):
        desk.read(why.explain, "todo", "twelve")


def test_explanations_read_the_log_through_its_indexes(desk: TenantHarness) -> None:
    def fill(tx: Transaction, tenant_id: int) -> None:
        """Add rows on Postgres, where every index costs the same in an empty table."""
        if tx.dialect.name == "postgresql":
            sql = """INSERT INTO events (seq, tenant_id, turn_id, subject, kind, data, at)
                     SELECT 1000000 + n, ?, n::text, n::text, 'x', '', 1 FROM generate_series(1, 2000) n"""
            tx.run(sql, tenant_id)
            tx.run("ANALYZE events")

    def plan(tx: Transaction, tenant_id: int, about: str) -> str:
        sql = f"SELECT seq FROM events WHERE tenant_id = {tenant_id} AND {about} = 'x' AND seq >= 0 ORDER BY seq"
        return str(tx.all(f"EXPLAIN {'QUERY PLAN ' if tx.dialect.name == 'sqlite' else ''}{sql}"))

    desk.write(fill)
    assert "events_of_turn" in desk.write(plan, "turn_id")
    assert "events_of_subject" in desk.write(plan, "subject")


def test_checks_that_failed_and_an_override_are_told(desk: TenantHarness) -> None:
    todo = desk.add("dig")
    result = CheckResult({"kind": "file", "path": "hole.txt", "by": "person"}, ok=False, detail="hole.txt does not exist.")
    desk.write(proof.store_receipts, [ReceiptDraft("todo", todo.id, (result,), {}, "cli")])
    desk.write(proof.override, todo, "I saw it.", "bob")
    lines = [line.text for line in explain_todo(desk, todo.id).lines]

    assert lines[1:-1] == [
        f"A check of todo #{todo.id} failed: hole.txt does not exist.",
        f"The checks of todo #{todo.id} were overridden: I saw it.",
    ]
