"""A reference model of the ledger: plain values in memory, with no derived state that could become wrong."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

ENDED = ("completed", "canceled")
LEGAL = {
    "pending": ("in_progress", *ENDED),
    "in_progress": ("pending", *ENDED),
    "completed": ("pending", "in_progress"),
    "canceled": ("pending", "in_progress"),
}
List = tuple[int, str | None]  # a conversation id, or 0, and a turn id


class Refused(Exception):
    """The operation was refused, with this error code."""


@dataclass(frozen=True)
class Item:
    id: int
    list: List
    subject: str
    status: str
    position: int
    depends_on: frozenset[int]
    agent: str = "index"
    outcome: str | None = None
    started_at: int = 0
    completed_at: int = 0
    created_at: int = 0
    updated_at: int = 0

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def to_json(self) -> dict[str, Any]:
        """The JSON that the ledger returns for this todo."""
        return {
            "id": self.id,
            "conversation_id": self.list[0],
            "turn_id": self.list[1],
            "agent_id": self.agent,
            "subject": self.subject,
            "description": "",
            "completion_criteria": "",
            "agent_type": None,
            "status": self.status,
            "position": self.position,
            "outcome": self.outcome,
            "checks": [],
            "proof": "none",
            "completed_by": "person" if self.status == "completed" else None,
            "priority": "normal",
            "due": None,
            "labels": [],
            "depends_on": sorted(self.depends_on),
            "created_at": self.created_at // 1000,
            "updated_at": self.updated_at // 1000,
            "started_at": self.started_at // 1000,
            "completed_at": self.completed_at // 1000,
        }


@dataclass
class Lease:
    agent: str
    token: str
    expires_at: int


@dataclass
class LedgerModel:
    """The ledger of one tenant."""

    conversation: int
    turn: str
    items: dict[int, Item] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    next_places: dict[List, int] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    # Operations. Each returns what the ledger would, or raises Refused.

    def add(self, item: Item, now: int, position: int | None) -> Item:
        """Add an item. The ledger chooses its id."""
        last = self.next_places.setdefault(item.list, 0 if item.list[1] else 1)
        self.next_places[item.list] += 0 if item.ended else 1
        item = replace(
            item,
            position=last,
            created_at=now,
            updated_at=now,
            started_at=now if item.status == "in_progress" else 0,
            completed_at=now if item.ended else 0,
        )
        self.items[item.id] = item
        if position is not None:
            item = self.place(item, position, now)
        return self.log_change(item, "created")

    def change(self, item: Item, now: int, changes: dict[str, Any]) -> Item:
        new = self.with_status(item, changes.get("status", item.status), now)
        if "subject" in changes:
            new = replace(new, subject=changes["subject"])
        if "outcome" in changes:
            new = replace(new, outcome=changes["outcome"])
        if "depends_on" in changes:
            new = replace(new, depends_on=self.check_acyclic(item.id, changes["depends_on"]))
        if changes.get("position", item.position) != item.position:
            new = self.place(new, changes["position"], now)
        elif new.status == "pending" != item.status:
            new = self.place(new, new.position, now)
        if new == item:
            return item
        new = self.items[item.id] = replace(new, updated_at=now)
        if new.status != "in_progress":
            self.leases.pop(item.id, None)
        return self.log_change(new, "updated")

    def remove(self, item: Item, token: str | None, now: int, *, force: bool) -> None:
        if item.list[1]:
            raise Refused("turn_rows_stay")
        self.check_lease(item, token, now, force=force)
        del self.items[item.id]
        self.leases.pop(item.id, None)
        self.log_change(item, "deleted")
        for other in sorted(self.items.values(), key=lambda todo: todo.id):
            if item.id in other.depends_on:
                self.items[other.id] = replace(other, depends_on=other.depends_on - {item.id})
                self.log_change(self.items[other.id], "updated")

    def find_claimable(self, conversation: int | None, now: int) -> Item | None:
        lists: Iterable[int | None] = (conversation, 0) if conversation else (conversation,)
        late = [
            item
            for item in self.list_by_position("in_progress")
            if item.id in self.leases and self.leases[item.id].expires_at <= now
        ]
        for candidates in (late, self.ready()):
            for list_id in lists:
                if fitting := [item for item in candidates if list_id in (None, item.list[0])]:
                    return fitting[0]
        return None

    def claim(self, item: Item, agent: str, now: int, lease: Lease) -> Item:
        new = replace(self.with_status(item, "in_progress", now), agent=agent, updated_at=now)
        self.items[item.id] = new
        self.leases[item.id] = lease
        return self.log_change(new, "updated", watched=False)

    # Rules

    def get(self, todo_id: int) -> Item:
        if todo_id not in self.items:
            raise Refused("not_found")
        return self.items[todo_id]

    def check_exist(self, todo_ids: Iterable[int]) -> frozenset[int]:
        if set(todo_ids) - self.items.keys():
            raise Refused("not_found")
        return frozenset(todo_ids)

    def check_lease(self, item: Item, token: str | None, now: int, *, force: bool) -> None:
        lease = self.leases.get(item.id)
        if force:
            return
        if token is not None and (lease is None or lease.token != token):
            raise Refused("lease_lost")
        if token is None and lease is not None and lease.expires_at > now:
            raise Refused("leased")

    def with_status(self, item: Item, to: str, now: int) -> Item:
        if to == item.status:
            return item
        if to not in LEGAL[item.status]:
            raise Refused("illegal_transition")
        if item.ended:
            return replace(item, status=to, started_at=now if to == "in_progress" else 0, completed_at=0, outcome=None)
        started = (item.started_at or now) if to == "in_progress" else item.started_at
        return replace(item, status=to, started_at=started, completed_at=now if to in ENDED else 0)

    def check_acyclic(self, todo_id: int, depends_on: Iterable[int]) -> frozenset[int]:
        dependencies = self.check_exist(depends_on)
        reached, ahead = set[int](), list(dependencies)
        while ahead:
            todo = ahead.pop()
            if todo == todo_id:
                raise Refused("dependency_cycle")
            if todo not in reached:
                reached.add(todo)
                ahead += self.items[todo].depends_on
        return dependencies

    def place(self, item: Item, position: int, now: int) -> Item:
        """Put the item at a position. Pending items there move up by one, as far as the next gap. An ended item moves no others."""
        if item.ended:
            self.items[item.id] = replace(self.items[item.id], position=position)
            return replace(item, position=position)
        last = position
        moved: dict[str, int] = {}
        others = [pending for pending in self.list_by_position("pending") if pending.list == item.list and pending.id != item.id]
        for other in others:
            if other.position >= position and other.position <= last:
                last += 1
                self.items[other.id] = replace(other, position=last, updated_at=now)
                moved[str(other.id)] = last
        if moved:
            conversation, turn = item.list
            place = {"conversation_id": conversation, "turn_id": turn}
            self.events.append(("todos_moved", {**place, "positions": moved, "updated_at": now // 1000}))
        self.next_places[item.list] = max(self.next_places[item.list], last + 1)
        self.items[item.id] = replace(self.items[item.id], position=position)
        return replace(item, position=position)

    # Views

    def list_by_position(self, status: str) -> list[Item]:
        return sorted((item for item in self.items.values() if item.status == status), key=lambda item: (item.position, item.id))

    def ready(self) -> list[Item]:
        waits = {item.id: any(not self.items[dependency].ended for dependency in item.depends_on) for item in self.items.values()}
        return [item for item in self.list_by_position("pending") if item.list[1] is None and not waits[item.id]]

    def list_ids(self, conversation: int | None, turn: str | None = None) -> list[int]:
        """In progress, pending, ended. A conversation's todos come before the tenant's."""
        ended = sorted((item for item in self.items.values() if item.ended), key=lambda item: (-item.completed_at, -item.id))
        if turn:
            return [
                item.id
                for item in (*self.list_by_position("in_progress"), *self.list_by_position("pending"), *ended)
                if item.list[1] == turn
            ]
        lists: tuple[int | None, ...] = (conversation, 0) if conversation else (conversation,)
        going = [
            item
            for status in ("in_progress", "pending")
            for list_id in lists
            for item in self.list_by_position(status)
            if list_id in (None, item.list[0])
        ]
        return [item.id for item in (*going, *(item for item in ended if lists[0] is None or item.list[0] in lists))]

    def counts(self, conversation: int | None, turn: str | None = None) -> dict[str, int]:
        statuses = [self.items[todo_id].status for todo_id in self.list_ids(conversation, turn)]
        return {status: statuses.count(status) for status in LEGAL}

    def log_change(self, item: Item, change: str, *, watched: bool = True) -> Item:
        self.events.append(("todo_changed", {"change": change, "todo": item.to_json()}))
        return item

    def log_queue(self) -> None:
        """Log the queue events that follow a change to the turn's list."""
        rows = [item for item in self.items.values() if item.list[1] == self.turn and item.status != "canceled"]
        rows.sort(key=lambda item: (item.position, item.id))
        going = [item for status in ("in_progress", "pending") for item in rows if item.status == status]
        current = going[0] if going else None

        def entry(item: Item) -> dict[str, Any]:
            status = "done" if item.ended else "current" if item is current else "pending"
            return {"id": item.id, "description": item.subject, "status": status}

        short = {"current": entry(current) if current else None, "remaining": len(going), "total": len(rows)}
        self.events.append(("todos_updated", {**short, "items": [entry(item) for item in rows]}))
        self.events.append(("todos_current", short))
