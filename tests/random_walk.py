"""Random legal changes to todos, and a check of the stored counters and positions against the rows."""

import random
from collections import Counter
from contextlib import suppress
from graphlib import TopologicalSorter

from headway.actions.todos import claims, conversations, todos
from headway.ledger.errors import Conflict, DependencyCycle, NotFound
from headway.ledger.todo import STATUSES, Change, Draft
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction, Work
from headway.testing import TenantHarness

# Correct refusals: the row is gone, or its state does not permit the change.
REFUSED = (NotFound, Conflict, DependencyCycle)


def list_contradictions(tx: Transaction, tenant_id: int) -> list[str]:
    """Every stored counter, position or flag that contradicts the rows."""
    rows = tx.all(
        "SELECT id, conversation_id, turn_id, status, position, completed_at, blocked_by FROM todos WHERE tenant_id = ?", tenant_id
    )
    edges = tx.all("SELECT todo_id, depends_on FROM todo_edges WHERE tenant_id = ?", tenant_id)
    lists = tx.all(
        """SELECT conversation_id, turn_id, next_position, pending, in_progress, completed, canceled
           FROM todo_lists WHERE tenant_id = ?""",
        tenant_id,
    )
    contradictions: list[str] = []
    actual = Counter((conversation, turn or "", status) for _, conversation, turn, status, *_ in rows)
    counters = {
        (conversation, turn, status): n
        for conversation, turn, _, *numbers in lists
        for status, n in zip(STATUSES, numbers, strict=True)
    }
    contradictions += [f"{key}: {actual[key]} rows, counter says {n}" for key, n in counters.items() if actual[key] != n]
    contradictions += [f"{key} has no counter" for key in actual if key not in counters]
    places = Counter(
        (conversation, turn or "", position) for _, conversation, turn, status, position, *_ in rows if status == "pending"
    )
    contradictions += [f"{n} pending todos stand at {place}" for place, n in places.items() if n > 1]
    ends = {(conversation, turn): next_position for conversation, turn, next_position, *_ in lists}
    contradictions += [f"the place {place} would be given out again" for place in places if place[2] >= ends.get(place[:2], 0)]
    open_ids = {row[0] for row in rows if row[3] in ("pending", "in_progress")}
    blocked = Counter(todo for todo, waits_for in edges if waits_for in open_ids)
    contradictions += [
        f"todo {row[0]} waits for {blocked[row[0]]}, blocked_by says {row[6]}" for row in rows if row[6] != blocked[row[0]]
    ]
    contradictions += [
        f"todo {row[0]} is {row[3]} with completed_at {row[5]}" for row in rows if (row[5] == 0) != (row[0] in open_ids)
    ]
    waits: dict[int, list[int]] = {}
    for todo, waits_for in edges:
        waits.setdefault(todo, []).append(waits_for)
    TopologicalSorter(waits).prepare()  # raises CycleError if there is a cycle
    return contradictions


class RandomWalk:
    """Runs random operations in random order. The seed determines the whole sequence."""

    def __init__(self, desk: TenantHarness, seed: int) -> None:
        self.tenant_id = desk.tenant.id
        self.chance = random.Random(seed)
        conversation = desk.conversation()
        turn = desk.write(conversations.open_turn, conversation.id)
        self.lists = [(0, None), (0, None), (conversation.id, None), (conversation.id, turn.id)]
        self.ids = [todo.id for todo in desk.write(todos.add_many, [Draft("x")] * 3)]

    def step(self, database: DirectDatabase) -> None:
        with suppress(*REFUSED):
            database.write(self.verb())

    def steps(self, tx: Transaction) -> None:
        """Run several operations in one transaction."""
        for _ in range(self.chance.randint(1, 4)):
            with suppress(*REFUSED):
                tx.attempt(self.verb())

    def verb(self) -> Work[None]:
        return self.chance.choice(
            [self.add, self.move, self.move, self.place, self.depend, self.change_all, self.remove, self.claim]
        )

    def any_id(self) -> int:
        return self.chance.choice(self.ids[-10:] or [404])

    def some_ids(self) -> tuple[int, ...]:
        return tuple(self.any_id() for _ in range(self.chance.randint(0, 2)))

    def add(self, tx: Transaction) -> None:
        conversation_id, turn_id = self.chance.choice(self.lists)
        draft = Draft(
            "x",
            conversation_id=conversation_id,
            turn_id=turn_id,
            status=self.chance.choice(STATUSES),
            position=self.chance.choice([None, 1, 2, 3]),
            depends_on=self.some_ids(),
        )
        self.ids.append(todos.add_todo(tx, self.tenant_id, draft).id)

    def move(self, tx: Transaction) -> None:
        todos.change_todo(tx, self.tenant_id, self.any_id(), Change(status=self.chance.choice(STATUSES)), force=True)

    def place(self, tx: Transaction) -> None:
        todos.change_todo(tx, self.tenant_id, self.any_id(), Change(position=self.chance.randint(1, 3)), force=True)

    def depend(self, tx: Transaction) -> None:
        todos.change_todo(tx, self.tenant_id, self.any_id(), Change(depends_on=self.some_ids()), force=True)

    def change_all(self, tx: Transaction) -> None:
        change = Change(
            status=self.chance.choice(STATUSES), position=self.chance.randint(1, 3), depends_on=self.some_ids(), subject="y"
        )
        todos.change_todo(tx, self.tenant_id, self.any_id(), change, force=True)

    def remove(self, tx: Transaction) -> None:
        self.ids.remove(todos.remove_todo(tx, self.tenant_id, self.any_id(), force=True).id)

    def claim(self, tx: Transaction) -> None:
        claims.claim(tx, self.tenant_id, "ada")
