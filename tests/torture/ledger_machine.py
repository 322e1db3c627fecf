"""Two tenants run random operations in random order, and the ledger's answers are compared with the model's."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from headway.actions.todos import claims, conversations, todo_lists, todos
from headway.ledger.errors import HeadwayError
from headway.ledger.scope import Selection
from headway.ledger.todo import Change, Draft, Todo
from headway.storage.direct import DirectDatabase
from headway.storage.stores import events as event_store
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.torture.ledger_model import Item, Lease, LedgerModel, Refused

TENANT = st.integers(0, 1)
ONE = st.integers(0, 11)  # index from the newest todo, of either tenant
SOME = st.lists(ONE, max_size=3)
PLACE = st.integers(0, 6)
STATUS = st.sampled_from(("pending", "in_progress", "completed", "canceled"))
WITH = st.sampled_from(("nothing", "nothing", "token", "stale token", "force"))


class LedgerMachine(RuleBasedStateMachine):
    """One random sequence of operations. The database is reused; each sequence gets new tenants."""

    database: DirectDatabase
    clock: FixedClock

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[int] = []
        self.desks = [TenantHarness(self.database, uuid4().hex) for _ in range(2)]
        self.models = [self.build_model(desk) for desk in self.desks]

    def build_model(self, desk: TenantHarness) -> LedgerModel:
        conversation = desk.conversation().id
        return LedgerModel(conversation, desk.write(conversations.open_turn, conversation).id)

    # Operations

    @rule(tenant=TENANT, where=st.integers(0, 2), waits_for=SOME, place=st.none() | PLACE, status=st.just("pending") | STATUS)
    def add(self, tenant: int, where: int, waits_for: list[int], place: int | None, status: Any) -> None:
        conversation, turn = self.models[tenant].conversation, self.models[tenant].turn
        conversation_id, turn_id = [(0, None), (conversation, None), (conversation, turn)][where]
        depends_on = tuple(self.choose_id(one) for one in waits_for)
        draft = Draft(f"number {len(self.ids)}", "", "", None, "index", conversation_id, turn_id, status, place, None, depends_on)

        def expected(model: LedgerModel, todo: Todo | None) -> Item:
            dependencies = model.check_exist(depends_on)
            assert todo is not None, "nothing was written down"
            item = Item(todo.id, (conversation_id, turn_id), draft.subject, status, 0, dependencies)
            return model.add(item, self.clock.now, place)

        added = self.compare(tenant, expected, lambda tx, tenant_id: todos.add_todo(tx, tenant_id, draft), turn_id)
        if added is not None:
            self.ids.append(added.id)

    @rule(tenant=TENANT, one=ONE, status=STATUS, how=WITH)
    def move(self, tenant: int, one: int, status: Any, how: str) -> None:
        self.change(tenant, one, how, status=status)

    @rule(tenant=TENANT, one=ONE, place=PLACE)
    def place(self, tenant: int, one: int, place: int) -> None:
        self.change(tenant, one, "force", position=place)

    @rule(tenant=TENANT, one=ONE, waits_for=SOME, status=st.none() | STATUS)
    def depend(self, tenant: int, one: int, waits_for: list[int], status: Any) -> None:
        more = {"status": status} if status else {}
        self.change(tenant, one, "force", depends_on=tuple(self.choose_id(other) for other in waits_for), **more)

    @rule(tenant=TENANT, one=ONE, status=st.sampled_from(("completed", "canceled")), how=WITH)
    def end(self, tenant: int, one: int, status: Any, how: str) -> None:
        todo_id, (token, force) = self.choose_id(one), self.choose_credentials(tenant, one, how)

        def expected(model: LedgerModel, _todo: Todo | None) -> Item:
            item = model.get(todo_id)
            if item.status == status:
                raise Refused("already_ended")
            model.check_lease(item, token, self.clock.now, force=force)
            return model.change(item, self.clock.now, {"status": status, "outcome": "so it went"})

        self.compare(
            tenant,
            expected,
            lambda tx, tenant_id: todos.end_todo(tx, tenant_id, todo_id, status, "so it went", token, force=force),
            self.find_turn(tenant, todo_id),
        )

    @rule(tenant=TENANT, one=ONE, how=WITH)
    def remove(self, tenant: int, one: int, how: str) -> None:
        todo_id, (token, force) = self.choose_id(one), self.choose_credentials(tenant, one, how)

        def expected(model: LedgerModel, _todo: Todo | None) -> None:
            waiting = [item for item in model.items.values() if todo_id in item.depends_on]
            model.remove(model.get(todo_id), token, self.clock.now, force=force)
            if any(item.list[1] for item in waiting):
                model.log_queue()

        self.compare(tenant, expected, lambda tx, tenant_id: todos.remove_todo(tx, tenant_id, todo_id, token, force=force))

    @rule(tenant=TENANT, where=st.integers(0, 2), seconds=st.sampled_from((1, 30, 60)))
    def claim(self, tenant: int, where: int, seconds: int) -> None:
        model, desk = self.models[tenant], self.desks[tenant]
        conversation = (None, 0, model.conversation)[where]
        claimed = desk.write(claims.claim, "ada", conversation, seconds)
        expected = model.find_claimable(conversation, self.clock.now)
        assert (claimed.todo.id if claimed else None) == (expected.id if expected else None)
        if claimed and expected:
            lease = Lease("ada", claimed.lease.token, self.clock.now + seconds * 1000)
            assert to_json(claimed.todo) == model.claim(expected, "ada", self.clock.now, lease).to_json()
            assert claimed.lease.expires_at == lease.expires_at

    @rule(tenant=TENANT, one=ONE, how=WITH)
    def heartbeat(self, tenant: int, one: int, how: str) -> None:
        todo_id, token = self.choose_id(one), self.choose_credentials(tenant, one, how)[0] or "none"

        def expected(model: LedgerModel, _todo: Todo | None) -> Item:
            item = model.get(todo_id)
            model.check_lease(item, token, self.clock.now, force=False)
            model.leases[todo_id].expires_at = self.clock.now + 60_000
            return item

        self.compare(tenant, expected, lambda tx, tenant_id: claims.heartbeat(tx, tenant_id, todo_id, token, 60).todo)

    @rule(seconds=st.sampled_from((1, 29, 61)))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    # Views

    @rule(tenant=TENANT)
    def look(self, tenant: int) -> None:
        self.desks[tenant].database.read(lambda tx: self.check_views(tx, tenant))

    def check_views(self, tx: Transaction, tenant: int) -> None:
        model, tenant_id = self.models[tenant], self.desks[tenant].tenant.id
        for conversation, turn in ((None, None), (0, None), (model.conversation, None), (None, model.turn)):
            page = todo_lists.get_todo_list(tx, tenant_id, Selection(conversation, turn), 500)
            assert [todo.id for todo in page.todos] == model.list_ids(conversation, turn)
            assert [to_json(todo) for todo in page.todos] == [model.items[todo.id].to_json() for todo in page.todos]
            assert page.counts == model.counts(conversation, turn)
        for conversation in (None, model.conversation):
            lists = (conversation, 0) if conversation else (None,)
            ready = [item.id for list_id in lists for item in model.ready() if list_id in (None, item.list[0])]
            assert [todo.id for todo in todo_lists.list_ready_todos(tx, tenant_id, conversation)] == ready

    def teardown(self) -> None:
        for tenant, (desk, model) in enumerate(zip(self.desks, self.models, strict=True)):
            self.look(tenant)
            log = desk.read(event_store.list_after, 0, 100_000)
            assert [(event.kind, json.loads(event.data)) for event in log] == model.events
            assert [event.seq for event in log] == sorted({event.seq for event in log})

    # Comparison

    def choose_id(self, one: int) -> int:
        return self.ids[-1 - one % len(self.ids)] if self.ids else 404

    def choose_credentials(self, tenant: int, one: int, how: str) -> tuple[str | None, bool]:
        """The credentials of a caller: the lease's token, a stale token, or `force`."""
        lease = self.models[tenant].leases.get(self.choose_id(one))
        return {"token": lease.token if lease else "none", "stale token": "stale"}.get(how), how == "force"

    def find_turn(self, tenant: int, todo_id: int) -> str | None:
        item = self.models[tenant].items.get(todo_id)
        return item.list[1] if item else None

    def change(self, tenant: int, one: int, how: str, **changes: Any) -> None:
        todo_id, (token, force) = self.choose_id(one), self.choose_credentials(tenant, one, how)

        def expected(model: LedgerModel, _todo: Todo | None) -> Item:
            item = model.get(todo_id)
            model.check_lease(item, token, self.clock.now, force=force)
            return model.change(item, self.clock.now, changes)

        self.compare(
            tenant,
            expected,
            lambda tx, tenant_id: todos.change_todo(tx, tenant_id, todo_id, Change(**changes), token, force=force),
            self.find_turn(tenant, todo_id),
        )

    def compare(
        self,
        tenant: int,
        expected: Callable[[LedgerModel, Todo | None], Item | None],
        action: Callable[[Transaction, int], Todo],
        turn: str | None = None,
    ) -> Todo | None:
        """Check that ledger and model give the same answer or the same refusal, and that a refusal changes nothing."""
        model = self.models[tenant]  # it refuses before it changes anything
        logged = len(model.events)
        done, answer = None, ""
        try:
            done = self.desks[tenant].write(action)
        except HeadwayError as error:
            answer = error.code
        item, refusal = None, ""
        try:
            item = expected(model, done)
        except Refused as refused:
            refusal = str(refused)
        assert answer == refusal
        if refusal:
            return None
        if item is not None and done is not None:
            assert to_json(done) == item.to_json()
        if turn and len(model.events) > logged:
            model.log_queue()
        return done


def to_json(todo: Todo) -> dict[str, Any]:
    return {**todo.as_json(), "depends_on": list(todo.depends_on)}
