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

    def shown(self) -> dict[str, Any]:
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
    told: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

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
        return self.tell(item, "created")

    def change(self, item: Item, now: int, wanted: dict[str, Any]) -> Item:
        new = self.moved(item, wanted.get("status", item.status), now)
        if "subject" in wanted:
            new = replace(new, subject=wanted["subject"])
        if "outcome" in wanted:
            new = replace(new, outcome=wanted["outcome"])
        if "depends_on" in wanted:
            new = replace(new, depends_on=self.acyclic(item.id, wanted["depends_on"]))
        if wanted.get("position", item.position) != item.position:
            new = self.place(new, wanted["position"], now)
        elif new.status == "pending" != item.status:
            new = self.place(new, new.position, now)
        if new == item:
            return item
        new = self.items[item.id] = replace(new, updated_at=now)
        if new.status != "in_progress":
            self.leases.pop(item.id, None)
        return self.tell(new, "updated")

    def remove(self, item: Item, token: str | None, now: int, *, force: bool) -> None:
        if item.list[1]:
            raise Refused("turn_rows_stay")
        self.check_lease(item, token, now, force=force)
        del self.items[item.id]
        self.leases.pop(item.id, None)
        self.tell(item, "deleted")
        for other in sorted(self.items.values(), key=lambda one: one.id):
            if item.id in other.depends_on:
                self.items[other.id] = replace(other, depends_on=other.depends_on - {item.id})
                self.tell(self.items[other.id], "updated")

    def claimable(self, conversation: int | None, now: int) -> Item | None:
        lists: Iterable[int | None] = (conversation, 0) if conversation else (conversation,)
        late = [item for item in self.in_place("in_progress") if item.id in self.leases and self.leases[item.id].expires_at <= now]
        for found in (late, self.ready()):
            for one in lists:
                if fitting := [item for item in found if one in (None, item.list[0])]:
                    return fitting[0]
        return None

    def claim(self, item: Item, agent: str, now: int, lease: Lease) -> Item:
        new = replace(self.moved(item, "in_progress", now), agent=agent, updated_at=now)
        self.items[item.id] = new
        self.leases[item.id] = lease
        return self.tell(new, "updated", watched=False)

    # Rules

    def get(self, todo_id: int) -> Item:
        if todo_id not in self.items:
            raise Refused("not_found")
        return self.items[todo_id]

    def existing(self, todo_ids: Iterable[int]) -> frozenset[int]:
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

    def moved(self, item: Item, to: str, now: int) -> Item:
        if to == item.status:
            return item
        if to not in LEGAL[item.status]:
            raise Refused("illegal_transition")
        if item.ended:
            return replace(item, status=to, started_at=now if to == "in_progress" else 0, completed_at=0, outcome=None)
        started = (item.started_at or now) if to == "in_progress" else item.started_at
        return replace(item, status=to, started_at=started, completed_at=now if to in ENDED else 0)

    def acyclic(self, todo_id: int, depends_on: Iterable[int]) -> frozenset[int]:
        wanted = self.existing(depends_on)
        reached, ahead = set[int](), list(wanted)
        while ahead:
            one = ahead.pop()
            if one == todo_id:
                raise Refused("dependency_cycle")
            if one not in reached:
                reached.add(one)
                ahead += self.items[one].depends_on
        return wanted

    def place(self, item: Item, position: int, now: int) -> Item:
        """Put the item at a position. Pending items there move up by one, as far as the next gap. An ended item moves no others."""
        if item.ended:
            self.items[item.id] = replace(self.items[item.id], position=position)
            return replace(item, position=position)
        wanted = position
        others = [one for one in self.in_place("pending") if one.list == item.list and one.id != item.id]
        for other in others:
            if other.position >= position and other.position <= wanted:
                wanted += 1
                self.items[other.id] = replace(other, position=wanted, updated_at=now)
                self.tell(self.items[other.id], "updated", watched=False)
        self.next_places[item.list] = max(self.next_places[item.list], wanted + 1)
        self.items[item.id] = replace(self.items[item.id], position=position)
        return replace(item, position=position)

    # Views

    def in_place(self, status: str) -> list[Item]:
        return sorted((item for item in self.items.values() if item.status == status), key=lambda item: (item.position, item.id))

    def ready(self) -> list[Item]:
        waits = {item.id: any(not self.items[one].ended for one in item.depends_on) for item in self.items.values()}
        return [item for item in self.in_place("pending") if item.list[1] is None and not waits[item.id]]

    def listed(self, conversation: int | None, turn: str | None = None) -> list[int]:
        """In progress, pending, ended. A conversation's todos come before the tenant's."""
        ended = sorted((item for item in self.items.values() if item.ended), key=lambda item: (-item.completed_at, -item.id))
        if turn:
            return [item.id for item in (*self.in_place("in_progress"), *self.in_place("pending"), *ended) if item.list[1] == turn]
        lists: tuple[int | None, ...] = (conversation, 0) if conversation else (conversation,)
        going = [
            item
            for status in ("in_progress", "pending")
            for one in lists
            for item in self.in_place(status)
            if one in (None, item.list[0])
        ]
        return [item.id for item in (*going, *(item for item in ended if lists[0] is None or item.list[0] in lists))]

    def counts(self, conversation: int | None, turn: str | None = None) -> dict[str, int]:
        found = [self.items[todo_id].status for todo_id in self.listed(conversation, turn)]
        return {status: found.count(status) for status in LEGAL}

    def tell(self, item: Item, change: str, *, watched: bool = True) -> Item:
        self.told.append(("todo_changed", {"change": change, "todo": item.shown()}))
        return item

    def tell_queue(self) -> None:
        """Log the queue events that follow a change to the turn's list."""
        rows = [item for item in self.items.values() if item.list[1] == self.turn and item.status != "canceled"]
        rows.sort(key=lambda item: (item.position, item.id))
        going = [item for status in ("in_progress", "pending") for item in rows if item.status == status]
        current = going[0] if going else None

        def entry(item: Item) -> dict[str, Any]:
            status = "done" if item.ended else "current" if item is current else "pending"
            return {"id": item.id, "description": item.subject, "status": status}

        short = {"current": entry(current) if current else None, "remaining": len(going), "total": len(rows)}
        self.told.append(("todos_updated", {**short, "items": [entry(item) for item in rows]}))
        self.told.append(("todos_current", short))
