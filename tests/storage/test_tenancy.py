"""A tenant sees only its own rows. Another tenant's rows are indistinguishable from rows that do not exist."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from headway.actions.access import tokens
from headway.actions.engine import dead_letters, run_ends, schedules
from headway.actions.engine.schedules import Timing
from headway.actions.goals import goals, views
from headway.actions.installation import tenants
from headway.actions.runs import inbox, jobs, runs, sub_goals
from headway.actions.runs.inbox import ApprovalDecision
from headway.actions.runs.runs import RunFilter
from headway.actions.todos import claims, conversations, finding, proof, todo_checks, todo_lists, todos
from headway.actions.turns import memory, plan, turns
from headway.actions.turns.memory import MemoryChange, NewMemory
from headway.ledger.errors import HeadwayError
from headway.ledger.goal import GoalFilter
from headway.ledger.limits import Limits
from headway.ledger.scope import MemorySelection, Selection
from headway.ledger.text import MAX_INTEGER
from headway.ledger.todo import Change, Draft
from headway.storage.direct import DirectDatabase
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import goals as goal_store
from headway.testing import TenantHarness
from tests.tables import each_row
from tests.tenant_rows import UNKNOWN_IDS, Ids, fill_tenant, message_work, read_tenant_rows

CHANGE = Change(subject="meddled")

# Every action and view that takes an id, by name. One tenant calls each with another tenant's ids.
ATTEMPTS: dict[str, Callable[[TenantHarness, Ids], Any]] = {
    "todos.get_todo": lambda desk, ids: desk.read(todos.get_todo, ids.todo),
    "todos.get_locked_todo": lambda desk, ids: desk.write(todos.get_locked_todo, ids.todo),
    "todos.get_for_change": lambda desk, ids: desk.write(todos.get_for_change, ids.todo),
    "todos.change_todo": lambda desk, ids: desk.write(todos.change_todo, ids.todo, CHANGE),
    "todos.change_todo with its token": lambda desk, ids: desk.write(todos.change_todo, ids.todo, CHANGE, ids.lease),
    "todos.change_todo by force": lambda desk, ids: desk.write(todos.change_todo, ids.todo, CHANGE, force=True),
    "todos.change_todo of dependencies": lambda desk, ids: desk.write(
        todos.change_todo, desk.add().id, Change(depends_on=(ids.todo,))
    ),
    "todos.start_todo": lambda desk, ids: desk.write(todos.start_todo, ids.todo, force=True),
    "todos.end_todo": lambda desk, ids: desk.write(todos.end_todo, ids.todo, "completed", "meddled", force=True),
    "todos.list_neighbours": lambda desk, ids: desk.read(todos.list_neighbours, ids.todo),
    "todos.place_beside": lambda desk, ids: desk.write(todos.place_beside, desk.add().id, Change(), before=ids.todo),
    "todos.remove_todo": lambda desk, ids: desk.write(todos.remove_todo, ids.todo),
    "todos.add_todo to a conversation": lambda desk, ids: desk.write(todos.add_todo, Draft("x", conversation_id=ids.conversation)),
    "todos.add_todo to a turn": lambda desk, ids: desk.write(todos.add_todo, Draft("x", turn_id=ids.turn)),
    "todos.add_todo to a turn and its conversation": lambda desk, ids: desk.write(
        todos.add_todo, Draft("x", conversation_id=ids.conversation, turn_id=ids.turn)
    ),
    "todos.add_todo with a dependency": lambda desk, ids: desk.write(todos.add_todo, Draft("x", depends_on=(ids.todo,))),
    "todos.add_many": lambda desk, ids: desk.write(todos.add_many, [Draft("x"), Draft("x", depends_on=(ids.todo,))]),
    "claims.claim": lambda desk, ids: desk.write(claims.claim, "ada", ids.conversation),
    "claims.heartbeat": lambda desk, ids: desk.write(claims.heartbeat, ids.todo, ids.lease),
    "finding.get_conversation": lambda desk, ids: desk.read(finding.get_conversation, ids.conversation),
    "conversations.show_conversation": lambda desk, ids: desk.read(conversations.show_conversation, ids.conversation),
    "conversations.rename_conversation": lambda desk, ids: desk.write(
        conversations.rename_conversation, ids.conversation, "meddled"
    ),
    "conversations.remove_conversation": lambda desk, ids: desk.write(conversations.remove_conversation, ids.conversation),
    "conversations.restore": lambda desk, ids: desk.write(conversations.restore, ids.conversation),
    "finding.resolve by id": lambda desk, ids: desk.read(finding.resolve, str(ids.conversation)),
    "finding.resolve by key": lambda desk, ids: desk.read(finding.resolve, ids.key),
    "plan.continue_or_open": lambda desk, ids: desk.write(plan.continue_or_open, ids.conversation),
    "plan.begin_open_plan": lambda desk, ids: desk.write(plan.begin_open_plan, ids.conversation),
    "conversations.resolve_or_create": lambda desk, ids: desk.write(conversations.resolve_or_create, str(ids.conversation)),
    "conversations.ensure": lambda desk, ids: desk.write(conversations.ensure, ids.conversation),
    "finding.get_turn": lambda desk, ids: desk.read(finding.get_turn, ids.turn),
    "finding.lock_turn": lambda desk, ids: desk.write(finding.lock_turn, ids.turn),
    "conversations.open_turn": lambda desk, ids: desk.write(conversations.open_turn, ids.conversation),
    "tokens.rotate": lambda desk, ids: desk.write(tokens.rotate, ids.token),
    "tokens.revoke": lambda desk, ids: desk.write(tokens.revoke, ids.token),
    "todo_lists.list_todos of a conversation": lambda desk, ids: desk.read(todo_lists.list_todos, Selection(ids.conversation)),
    "todo_lists.list_todos of a turn": lambda desk, ids: desk.read(todo_lists.list_todos, Selection(turn_id=ids.turn)),
    "todo_lists.get_todo_list of a conversation": lambda desk, ids: desk.read(
        todo_lists.get_todo_list, Selection(ids.conversation), 50
    ),
    "todo_lists.get_todo_list of a turn": lambda desk, ids: desk.read(todo_lists.get_todo_list, Selection(turn_id=ids.turn), 50),
    "todo_lists.search_todos": lambda desk, ids: desk.read(todo_lists.search_todos, Selection(ids.conversation), "look"),
    "todo_lists.count_todos": lambda desk, ids: desk.read(todo_lists.count_todos, Selection(ids.conversation)),
    "turns.start_turn": lambda desk, ids: desk.write(turns.start_turn, ids.conversation, turns.TurnRequest("meddle")),
    "turns.start_with_job": lambda desk, ids: desk.write(turns.start_with_job, ids.conversation, turns.TurnRequest("meddle")),
    "run_ends.cancel_turn": lambda desk, ids: desk.write(run_ends.cancel_turn, ids.turn),
    "turns.get_continued": lambda desk, ids: desk.read(turns.get_continued, ids.conversation, ids.turn),
    "turns.get_unfinished": lambda desk, ids: desk.read(turns.get_unfinished, ids.conversation),
    "jobs.get_job": lambda desk, ids: desk.read(jobs.get_job, ids.job),
    "jobs.get_locked_job": lambda desk, ids: desk.write(jobs.get_locked_job, ids.job),
    "jobs.cancel_job": lambda desk, ids: desk.write(jobs.cancel_job, ids.job),
    "jobs.drop": lambda desk, ids: desk.write(jobs.drop, ids.job),
    "dead_letters.change_jobs": lambda desk, ids: desk.write(dead_letters.change_jobs, "retry", ids.job),
    "dead_letters.show_job": lambda desk, ids: desk.read(dead_letters.show_job, ids.job),
    "dead_letters.retry": lambda desk, ids: desk.write(dead_letters.retry, ids.job),
    "runs.get_run": lambda desk, ids: desk.read(runs.get_run, ids.job),
    "runs.cancel_run": lambda desk, ids: desk.write(runs.cancel_run, ids.job),
    "schedules.put": lambda desk, ids: desk.write(schedules.put, "mine", Timing(every_ms=60_000), message_work(ids.conversation)),
    "schedules.get_schedule": lambda desk, ids: desk.read(schedules.get_schedule, ids.schedule),
    "schedules.get_locked_schedule": lambda desk, ids: desk.write(schedules.get_locked_schedule, ids.schedule),
    "schedules.remove_schedule": lambda desk, ids: desk.write(schedules.remove_schedule, ids.schedule),
    "schedules.pause": lambda desk, ids: desk.write(schedules.pause, ids.schedule),
    "schedules.resume": lambda desk, ids: desk.write(schedules.resume, ids.schedule),
    "schedules.run_now": lambda desk, ids: desk.write(schedules.run_now, ids.schedule),
    "turns.show_turn": lambda desk, ids: desk.read(turns.show_turn, ids.turn, Limits()),
    "turns.find_start": lambda desk, ids: desk.read(turns.find_start, ids.turn),
    "turns.find_turn_position": lambda desk, ids: desk.read(turns.find_turn_position, ids.turn),
    "turns.get_run": lambda desk, ids: desk.read(turns.get_run, ids.turn),
    "turns.get_attachment": lambda desk, ids: desk.read(turns.get_attachment, ids.turn, 1),
    "turns.list_messages": lambda desk, ids: desk.read(turns.list_messages, ids.conversation, 50),
    "todo_lists.list_ready_todos": lambda desk, ids: desk.read(todo_lists.list_ready_todos, ids.conversation),
    "inbox.get": lambda desk, ids: desk.read(inbox.get, ids.approval),
    "inbox.decide": lambda desk, ids: desk.write(inbox.decide, ids.approval, ApprovalDecision("approve", "ada")),
    "inbox.answer": lambda desk, ids: desk.write(inbox.answer, ids.question, "blue", "ada"),
    "memory.add_note": lambda desk, ids: desk.write(memory.add_note, NewMemory("x", conversation_id=ids.conversation), "ada"),
    "memory.change_note": lambda desk, ids: desk.write(memory.change_note, ids.memory, MemoryChange("x"), "ada"),
    "memory.get_note": lambda desk, ids: desk.read(memory.get_note, ids.memory),
    "memory.list_notes": lambda desk, ids: desk.read(memory.list_notes, MemorySelection(ids.conversation)),
    "memory.remove_note": lambda desk, ids: desk.write(memory.remove_note, ids.memory),
    "proof.get_checked": lambda desk, ids: desk.read(proof.get_checked, ids.todo),
    "proof.verify": lambda desk, ids: desk.write(proof.verify, ids.todo),
    "todo_checks.verify_and_notify": lambda desk, ids: desk.write(todo_checks.verify_and_notify, ids.todo),
    "todo_checks.set_checks": lambda desk, ids: desk.write(todo_checks.set_checks, ids.todo, Change(), [], "person"),
    "goals.get_goal": lambda desk, ids: desk.read(goals.get_goal, ids.goal),
    "goals.get_locked_goal": lambda desk, ids: desk.write(goals.get_locked_goal, ids.goal),
    "goals.pause": lambda desk, ids: desk.write(goals.pause, ids.goal),
    "goals.resume": lambda desk, ids: desk.write(goals.resume, ids.goal),
    "goals.decide_goal": lambda desk, ids: desk.write(goals.decide_goal, ids.goal, "abandon", "meddled"),
    "goals.answer_decision": lambda desk, ids: desk.write(goals.answer_decision, ids.decision, "abandon", "meddled"),
    "goals.abandon": lambda desk, ids: desk.write(goals.abandon, ids.goal),
    "goals.build_repeat": lambda desk, ids: desk.read(goals.build_repeat, ids.goal),
    "goals.edit_goal": lambda desk, ids: desk.write(goals.edit_goal, ids.goal, goals.GoalEdit(description="meddled")),
    "views.list_plans": lambda desk, ids: desk.read(views.list_plans, ids.goal, 50),
    "views.list_runs": lambda desk, ids: desk.read(views.list_runs, ids.goal),
    "views.show_goal": lambda desk, ids: desk.read(views.show_goal, ids.goal),
    "views.build_graph": lambda desk, ids: desk.read(views.build_graph, ids.goal),
    "views.list_entries": lambda desk, ids: desk.read(views.list_entries, ids.goal, 50),
    "views.explain": lambda desk, ids: desk.read(views.explain, ids.goal),
    "views.explain of a sub-goal": lambda desk, ids: desk.read(views.explain, ids.goal, ids.sub_goal),
    "views.explain of another's sub-goal": lambda desk, ids: desk.read(views.explain, ensure_goal(desk), ids.sub_goal),
}
STEPS = {
    "dead_letters.change_dead_jobs",  # names another tenant's jobs among those that cannot be changed
    "dead_letters.choose_ids",
    "plan.take_over",
    "claims.find_lease",
    "claims.find_next_todo",
    "conversations.emit_conversation_changed",
    "goals.pause_for_budget",
    "goals.resume_after_budget",
    "jobs.close",
    "jobs.find_job",
    "jobs.find_owned",
    "jobs.create_job",
    "jobs.wake_job",
    "sub_goals.emit_goal_at_commit",
    "sub_goals.append",
    "sub_goals.emit_entry",
    "sub_goals.emit_goal",
    "memory.check_selection",
    "memory.insert_note_row",
    "plan.find_open_plan",  # returns None for another tenant's conversation
    "plan.is_drained",
    "proof.list_checked_todos",  # returns an empty list for another tenant's conversation
    "proof.list_newest_of_goal",  # returns an empty list for another tenant's goal
    "proof.store",
    "runs.list_runs",  # returns an empty page for another tenant's turn or goal
    "turns.find_obstacle",
    "turns.get_usage",  # returns zeros for another tenant's turn
    "turns.find_id_by_run",
    "turns.find_running",
    "turns.list_incomplete",
    "todo_lists.check_selection",
    "todo_lists.is_contradictory",
}  # building blocks of the functions above, called by nothing else


def ensure_goal(desk: TenantHarness) -> int:
    """Return the tenant's goal, and create it first if there is none."""
    page = desk.read(goal_store.list_goal_page, GoalFilter(), 1, (MAX_INTEGER, MAX_INTEGER))
    return (page[0] if page else desk.write(goals.add_goal, goals.NewGoal("of our own"))).id


def get_refusal(attempt: Callable[[TenantHarness, Ids], Any], desk: TenantHarness, ids: Ids) -> tuple[type[HeadwayError], str]:
    """Return the error of a refused call, with the caller's own values removed from the message."""
    with pytest.raises(HeadwayError) as refused:
        attempt(desk, ids)
    words = (ids.turn, ids.schedule, ids.key, ids.job)
    message = re.sub("|".join(map(re.escape, words)), "…", str(refused.value))
    return type(refused.value), re.sub("[0-9]+", "…", message)


@pytest.fixture
def rival(database: DirectDatabase) -> TenantHarness:
    return TenantHarness(database, "rival")


@pytest.fixture
def foreign(rival: TenantHarness) -> Ids:
    """The ids of the rows of the rival, which has some in every table."""
    return fill_tenant(rival)


@each_row(("name", "attempt"), ATTEMPTS.items())
def test_ids_of_another_tenant_are_refused_exactly_like_unknown_ids(
    desk: TenantHarness, rival: TenantHarness, foreign: Ids, name: str, attempt: Callable[[TenantHarness, Ids], Any]
) -> None:
    before = read_tenant_rows(rival)

    assert get_refusal(attempt, desk, foreign) == get_refusal(attempt, desk, UNKNOWN_IDS), name
    assert read_tenant_rows(rival) == before, name


def test_nothing_that_takes_an_id_is_missing_from_the_attempts() -> None:
    """A new action that takes an id must be added to the list above."""

    def list_functions(module: ModuleType) -> set[str]:
        name = module.__name__.rpartition(".")[2]
        return {
            f"{name}.{function.__name__}"
            for function in vars(module).values()
            if inspect.isfunction(function) and function.__module__ == module.__name__ and takes_an_id(function)
        }

    def takes_an_id(function: Callable[..., Any]) -> bool:
        names = set(inspect.signature(function).parameters)
        of_work = {"todo_id", "conversation_id", "turn_id", "job_id", "run_id", "goal_id"}
        of_people = {"token_id", "request_id", "entry_id"}
        return "tenant_id" in names and bool(names & {*of_work, *of_people, "reference", "selection"})

    functions = set().union(
        *(
            list_functions(module)
            for module in (
                claims,
                conversations,
                finding,
                todo_checks,
                todo_lists,
                dead_letters,
                todos,
                views,
                goals,
                inbox,
                jobs,
                sub_goals,
                memory,
                plan,
                proof,
                run_ends,
                runs,
                tenants,
                tokens,
                todos,
                turns,
            )
        )
    )
    assert functions - {name.partition(" ")[0] for name in ATTEMPTS} == STEPS


def test_lists_counts_claims_and_the_log_contain_only_the_tenants_rows(database: DirectDatabase, desk: TenantHarness) -> None:
    foreign = fill_tenant(TenantHarness(database, "rival"))
    desk.add("ours")

    todo_list = desk.read(todo_lists.get_todo_list, Selection(), 50)
    assert [todo.subject for todo in todo_list.todos] == ["ours"]
    assert todo_list.counts == {"pending": 1, "in_progress": 0, "completed": 0, "canceled": 0}
    assert [todo.subject for todo in desk.read(todo_lists.list_ready_todos)] == ["ours"]
    assert desk.read(conversations.list_conversations) == []
    assert desk.read(jobs.list_jobs, None, 50) == ([], None)
    for run_filter in (RunFilter(), RunFilter(foreign.turn), RunFilter(goal_id=foreign.goal)):
        assert desk.read(runs.list_agents, run_filter, 50) == ([], None, {})
    assert desk.read(claims.find_lease, foreign.todo) is None
    assert desk.read(jobs.find_job, foreign.job) is None
    assert desk.read(turns.find_id_by_run, foreign.job) is None
    assert desk.read(turns.find_running, foreign.conversation) is None
    assert desk.read(plan.find_open_plan, foreign.conversation) is None
    assert len(desk.read(event_store.list_after, 0, 100)) == 1
    claimed = [desk.write(claims.claim, "ada") for _ in range(2)]
    assert [result.todo.subject if result else None for result in claimed] == ["ours", None]


def test_a_deleted_tenant_takes_all_its_rows_with_it_and_none_of_anothers(database: DirectDatabase, desk: TenantHarness) -> None:
    rival = TenantHarness(database, "rival")
    fill_tenant(desk)
    fill_tenant(rival)
    before = read_tenant_rows(rival)
    assert [table for table, rows in before.items() if not rows] == [], "furnish() must put a row into every table"

    files = desk.read(conversation_store.file_names)
    assert database.write(partial(tenants.remove_tenant, name="acme")) == files != []

    assert not any(read_tenant_rows(desk).values())
    assert read_tenant_rows(rival) == before
    with pytest.raises(HeadwayError, match="No tenant named 'acme'"):
        database.read(partial(tenants.get_by_name, name="acme"))


def test_a_new_tenant_with_the_name_of_a_deleted_one_inherits_nothing(database: DirectDatabase, desk: TenantHarness) -> None:
    fill_tenant(desk)
    database.write(partial(tenants.remove_tenant, name="acme"))
    recreated = TenantHarness(database, "acme")

    assert recreated.tenant.id != desk.tenant.id
    assert not any(rows for table, rows in read_tenant_rows(recreated).items() if table != "id_ranges")
