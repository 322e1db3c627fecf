"""`order`: positions count from 1 for agents and from 0 in the ledger, and items end up at the requested position."""

import json
from collections.abc import Callable

from headway.actions.todos import todo_lists
from headway.ledger.scope import Selection
from tests.agents.agent_harness import Agent
from tests.tables import each_row

# Each process puts new items at the front and ends existing ones.
CROWD = """
import sys
from contextlib import suppress
from headway.actions.todos import todos
from headway.actions.turns import plan
from headway.actions.turns.plan import PlanItem
from headway.ledger.errors import AlreadyEnded
from headway.ledger.scope import Scope
from headway.storage.direct import DirectDatabase

url, tenant_id, turn_id, ids = sys.argv[1], int(sys.argv[2]), sys.argv[3], map(int, sys.argv[4:])
with DirectDatabase(url) as database:
    print("ready", flush=True)
    input()
    for todo_id in ids:
        database.write(lambda tx: plan.create_plan(tx, Scope(tenant_id), turn_id, [PlanItem("in front", order=1)]))
        with suppress(AlreadyEnded):
            database.write(lambda tx: todos.end_todo(tx, tenant_id, todo_id, "completed", "done"))
"""


def create(agent: Agent, *items: tuple[str, int | None]) -> list[int]:
    """Create items and return the positions they got."""
    arguments = [{"title": title} | ({} if order is None else {"order": order}) for title, order in items]
    return [item["order"] for item in agent("create_todo", items=arguments)["created"]]


@each_row(
    ("items", "titles"),
    [
        ([("new", None)], "a b c new"),
        ([("new", 1)], "new a b c"),
        ([("new", 2)], "a new b c"),
        ([("new", 4)], "a b c new"),
        ([("new", 99)], "a b c new"),
        ([("new", 10**18)], "a b c new"),
        ([("x", 1), ("y", 2)], "x y a b c"),
        ([("y", 2), ("x", 1)], "x y a b c"),
        ([("x", 1), ("y", 4)], "x a b y c"),
        ([("y", 4), ("x", 1)], "x a b y c"),
        ([("x", None), ("y", 1)], "y a b c x"),
        ([("y", 5), ("x", None)], "a b c x y"),
        ([("z", 6), ("y", 5), ("x", 4)], "a b c x y z"),
        ([("behind", 2), ("before", 2)], "a before behind b c"),
    ],
)
def test_explicit_places_are_respected_and_the_rest_shifts(agent: Agent, items: list[tuple[str, int | None]], titles: str) -> None:
    agent = agent.another()  # with an empty list
    agent.plan("a", "b", "c")
    places = create(agent, *items)

    assert agent.titles() == titles.split()
    assert places == [titles.split().index(title) + 1 for title, _ in items]
    assert [(row.subject, row.position) for row in agent.rows()] == [(title, n) for n, title in enumerate(titles.split())]


def test_a_whole_plan_comes_out_in_the_order_it_was_numbered_in(agent: Agent) -> None:
    assert create(agent, ("third", 3), ("second", 2), ("first", 1)) == [3, 2, 1]
    assert agent.titles() == ["first", "second", "third"]


def test_a_number_that_arrives_as_text_is_a_number(agent: Agent) -> None:
    agent.plan("a")
    agent("create_todo", items=[{"title": "before", "order": "1"}])

    assert agent.titles() == ["before", "a"]


def test_ended_items_keep_their_place_in_the_count(agent: Agent) -> None:
    first, *_ = agent.plan("a", "b")
    agent("complete_todo", todoId=first, outcome="done")

    assert create(agent, ("new", 2)) == [2]
    assert agent.titles() == ["a", "new", "b"]


def test_only_the_rows_that_moved_are_emitted(agent: Agent) -> None:
    agent.plan("a", "b", "c")
    before = len(agent.desk.changes())
    create(agent, ("new", 2))

    assert [(change, todo["subject"], todo["position"]) for change, todo in agent.desk.changes()[before:]] == [
        ("created", "new", 1)
    ]
    (moved,) = (json.loads(data)["positions"] for kind, data in agent.desk.events() if kind == "todos_moved")
    ids = {row.subject: str(row.id) for row in agent.rows()}
    assert moved == {ids["b"]: 2, ids["c"]: 3}


def test_making_room_keeps_concurrent_changes_to_the_plan(
    agent: Agent, database_url: str, at_once: Callable[..., list[str]]
) -> None:
    agent.plan(*(f"begun {n}" for n in range(10)))
    ids = [row.id for row in agent.rows()]
    at_once(CROWD, database_url, str(agent.desk.tenant.id), agent.turn_id, *map(str, ids), processes=4)

    rows = agent.rows()
    assert [row.position for row in rows] == list(range(10 + 4 * 10))
    assert {(row.status, row.outcome) for row in rows if row.id in ids} == {("completed", "done")}
    assert agent.desk.read(todo_lists.get_todo_list, Selection(turn_id=agent.turn_id), 1).counts == {
        "pending": 40,
        "in_progress": 0,
        "completed": 10,
        "canceled": 0,
    }
