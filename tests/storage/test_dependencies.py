"""Dependencies between todos: which todos are ready, and which dependencies are refused."""

import pytest

from headway.actions.todos import conversations, todo_lists, todos
from headway.ledger.errors import DependencyCycle, NotFound
from headway.ledger.todo import Change, Status
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness


def ready(desk: TenantHarness, conversation_id: int | None = None) -> list[str]:
    return [todo.subject for todo in desk.read(todo_lists.list_ready_todos, conversation_id)]


def test_a_todo_is_ready_when_everything_it_waits_for_has_ended(desk: TenantHarness) -> None:
    flour, eggs = desk.add("flour"), desk.add("eggs")
    desk.add("cake", depends_on=(flour.id, eggs.id))
    assert ready(desk) == ["flour", "eggs"]

    desk.change(flour, status="completed")
    assert ready(desk) == ["eggs"]

    desk.change(eggs, status="completed")
    assert ready(desk) == ["cake"]


@pytest.mark.parametrize("end", ["completed", "canceled"])
def test_any_end_of_a_dependency_unblocks(desk: TenantHarness, end: Status) -> None:
    dependency = desk.add("dependency")
    desk.add("dependant", depends_on=(dependency.id,))
    desk.change(dependency, status=end)

    assert ready(desk) == ["dependant"]


def test_work_in_progress_is_neither_ready_nor_does_it_unblock(desk: TenantHarness) -> None:
    dependency = desk.add("dependency")
    desk.add("dependant", depends_on=(dependency.id,))
    desk.change(dependency, status="in_progress")

    assert ready(desk) == []


def test_reopening_a_dependency_blocks_again(desk: TenantHarness) -> None:
    dependency = desk.add("dependency", status="completed")
    desk.add("dependant", depends_on=(dependency.id,))
    assert ready(desk) == ["dependant"]

    desk.change(dependency, status="pending")
    assert ready(desk) == ["dependency"]


def test_removing_a_dependency_unblocks_the_dependant_and_emits_its_change(desk: TenantHarness) -> None:
    dependency, other = desk.add("dependency"), desk.add("other", status="completed")
    dependant = desk.add("dependant", depends_on=(dependency.id, other.id))
    desk.write(todos.remove_todo, dependency.id)

    assert ready(desk) == ["dependant"]
    assert desk.get(dependant).depends_on == (other.id,)
    assert [(change, todo["subject"], todo["depends_on"]) for change, todo in desk.changes()[-2:]] == [
        ("deleted", "dependency", []),
        ("updated", "dependant", [other.id]),
    ]


def test_removing_an_ended_dependency_leaves_the_rest_of_the_wait_as_it_is(desk: TenantHarness) -> None:
    ended, open_todo = desk.add("done", status="completed"), desk.add("open")
    desk.add("dependant", depends_on=(ended.id, open_todo.id))
    desk.write(todos.remove_todo, ended.id)

    assert ready(desk) == ["open"]


def test_removing_a_dependant_leaves_its_dependency_free_to_end_and_reopen(desk: TenantHarness) -> None:
    dependency = desk.add("dependency")
    dependant = desk.add("dependant", depends_on=(dependency.id,))
    desk.write(todos.remove_todo, dependant.id)
    desk.change(dependency, status="completed")
    desk.change(dependency, status="pending")

    assert ready(desk) == ["dependency"]


def test_dependencies_can_be_replaced_and_taken_away(desk: TenantHarness) -> None:
    first, second, dependant = desk.add("first"), desk.add("second", status="completed"), desk.add("dependant")
    assert desk.change(dependant, depends_on=(second.id, first.id, second.id)).depends_on == (first.id, second.id)
    assert ready(desk) == ["first"]

    desk.change(dependant, depends_on=(second.id,))
    assert ready(desk) == ["first", "dependant"]

    desk.change(dependant, depends_on=())
    assert desk.get(dependant).depends_on == ()


def test_ready_is_a_conversations_own_work_then_the_tenant_wide_and_never_a_turns_plan(desk: TenantHarness) -> None:
    own, other = desk.conversation(), desk.conversation()
    turn = desk.write(conversations.open_turn, own.id).id
    desk.add("wide")
    desk.add("ours", conversation_id=own.id)
    desk.add("planned", conversation_id=own.id, turn_id=turn)
    desk.add("theirs", conversation_id=other.id)

    assert ready(desk, own.id) == ["ours", "wide"]
    assert ready(desk, 0) == ["wide"]
    assert sorted(ready(desk)) == ["ours", "theirs", "wide"]


def test_dependencies_may_cross_lists(desk: TenantHarness) -> None:
    dependency = desk.add("wide")
    conversation = desk.conversation()
    desk.add("ours", conversation_id=conversation.id, depends_on=(dependency.id,))
    assert ready(desk, conversation.id) == ["wide"]

    desk.change(dependency, status="completed")
    assert ready(desk, conversation.id) == ["ours"]


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_cycle_is_refused_and_nothing_changes(desk: TenantHarness, length: int) -> None:
    chain = [desk.add("0")]
    for number in range(1, length):
        chain.append(desk.add(str(number), depends_on=(chain[-1].id,)))
    events_before = desk.events()

    with pytest.raises(DependencyCycle, match=f"#{chain[-1].id}"):
        desk.change(chain[0], depends_on=(chain[-1].id,), subject="closes the circle")

    assert [desk.get(todo) for todo in chain] == chain
    assert desk.events() == events_before
    assert ready(desk) == ["0"]


def test_a_cycle_through_ended_todos_is_refused_too_because_they_may_reopen(desk: TenantHarness) -> None:
    first = desk.add(status="completed")
    second = desk.add(status="completed", depends_on=(first.id,))

    with pytest.raises(DependencyCycle):
        desk.change(first, depends_on=(second.id,))


def test_turning_a_dependency_round_in_one_change_is_no_cycle(desk: TenantHarness) -> None:
    first = desk.add("first")
    second = desk.add("second", depends_on=(first.id,))
    third = desk.add("third", depends_on=(second.id,))
    desk.change(second, depends_on=())
    desk.change(first, depends_on=(third.id,))

    assert ready(desk) == ["second"]


def test_an_unknown_and_a_foreign_dependency_are_refused_in_the_same_words(database: DirectDatabase, desk: TenantHarness) -> None:
    foreign = TenantHarness(database, "rival").add()
    todo = desk.add()

    for stranger in (foreign.id, 404):
        with pytest.raises(NotFound) as on_add:
            desk.add(depends_on=(todo.id, stranger))
        with pytest.raises(NotFound) as on_change:
            desk.write(todos.change_todo, todo.id, Change(depends_on=(stranger,)))
        assert str(on_add.value) == str(on_change.value) == f"No todo {stranger}."
    assert desk.get(todo) == todo
