"""The audit log: each change of access, limits or rules leaves who made it, with the old and the new value."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import pytest

from headway.actions.access import audit, spending, tokens
from headway.actions.engine import dead_letters
from headway.actions.installation import halts, tenants
from headway.actions.runs import jobs
from headway.actions.todos import claims, todo_checks, todos
from headway.actions.todos.todos import Override
from headway.ledger.errors import BadCursor, Conflict
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.parsing.checks import write_checks
from headway.ledger.tenancy import AuditFilter
from headway.ledger.todo import Change
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness

T = TypeVar("T")
Entry = tuple[str, str, str, Any, Any]


def act(desk: TenantHarness, work: Callable[[Transaction], T], actor: str = "ada", credential: str = "token 7") -> T:
    """Run work as an authenticated person."""

    def act_as(tx: Transaction) -> T:
        tx.actor, tx.credential = actor, credential
        return work(tx)

    return desk.database.write(act_as)


def list_entries(desk: TenantHarness, action: str = "") -> list[Entry]:
    """Return what the tenant's operator sees, oldest first: who, action, target, old and new value."""
    entries = desk.read(audit.list_audit_entries, AuditFilter(action), 100)["entries"]
    return [(entry["who"], entry["action"], entry["target"], entry["old"], entry["new"]) for entry in reversed(entries)]


def test_a_halt_names_who_halted_and_who_lifted_it(desk: TenantHarness, clock: FixedClock) -> None:
    since = clock.now // 1000
    for _ in range(2):  # the second changes nothing
        halt = act(desk, lambda tx: halts.halt(tx, "lunch"))
    act(desk, halts.unhalt, "bob", "token 8")
    act(desk, halts.unhalt)

    on = {"halted": True, "why": "lunch", "since": since, "by": "ada"}
    off = {"halted": False, "why": "", "since": 0, "by": ""}
    assert halts.as_json(halt) == on
    assert list_entries(desk, "halt") == [
        ("ada (token 7)", "halt.set", "installation", off, on),
        ("bob (token 8)", "halt.lift", "installation", on, off),
    ]
    assert desk.database.read(lambda tx: tx.all("SELECT halted_by, lifted_by FROM halts")) == [("ada", "bob")]


def test_a_cost_limit_leaves_an_entry_and_an_event(desk: TenantHarness) -> None:
    for dollars in (5, 50, 50):
        act(desk, partial(spending.set_limit, tenant_id=desk.tenant.id, nanos=dollars * NANOS_PER_DOLLAR))

    assert [(old, new) for *_, old, new in list_entries(desk, "limit.set")] == [
        ({"limit_usd": None}, {"limit_usd": 5}),
        ({"limit_usd": 5}, {"limit_usd": 50}),
    ]
    assert [json.loads(data) for kind, data in desk.events() if kind == "cost_limit_changed"] == [
        {"old_usd": None, "limit_usd": 5},
        {"old_usd": 5, "limit_usd": 50},
    ]


def test_overridden_and_edited_checks_are_recorded(desk: TenantHarness) -> None:
    checks = [{"kind": "file", "path": "a.txt"}]
    todo = desk.add(checks=write_checks(checks, "person"))
    stored = [{**checks[0], "by": "person"}]
    edited = act(desk, lambda tx: todo_checks.set_checks(tx, desk.tenant.id, todo.id, Change(), [], "operator"))
    assert edited.checks != todo.checks
    act(desk, lambda tx: todos.end_todo(tx, desk.tenant.id, todo.id, "completed", override=Override("It is there.", "ada")))

    ((_, _, target, old, new), override) = list_entries(desk, "check")
    assert (target, [{name: check[name] for name in stored[0]} for check in old], new) == (f"todo:{todo.id}", stored, [])
    assert override[1:] == (
        "check.override",
        f"todo:{todo.id}",
        {"status": "pending", "proof": "unproven"},
        {"status": "completed", "proof": "overridden", "reason": "It is there."},
    )


def test_a_forced_write_is_recorded_if_it_overrules_a_lease(desk: TenantHarness, clock: FixedClock) -> None:
    todo, free = desk.add("leased"), desk.add("free")
    claim = desk.write(claims.claim, "worker-1", lease_s=30)
    assert claim is not None
    assert claim.todo.id == todo.id
    lease = {"agent_id": "worker-1", "lease_expires_at": clock.now // 1000 + 30}

    act(desk, lambda tx: todos.change_todo(tx, desk.tenant.id, free.id, Change(subject="x"), force=True))
    act(desk, lambda tx: todos.change_todo(tx, desk.tenant.id, todo.id, Change(subject="y" * 1_000), force=True))
    act(desk, lambda tx: todos.change_todo(tx, desk.tenant.id, todo.id, Change(subject="y" * 1_000), force=True))
    act(desk, lambda tx: todos.change_todo(tx, desk.tenant.id, todo.id, Change(subject="z"), claim.lease.token, force=True))
    act(desk, lambda tx: todos.remove_todo(tx, desk.tenant.id, todo.id, force=True))

    changed, removed = list_entries(desk, "todo.force")
    assert changed == (
        "ada (token 7)",
        "todo.force",
        f"todo:{todo.id}",
        {"subject": "leased", "lease": lease},
        {"subject": "y" * 1_000},
    )
    assert (removed[3]["subject"], removed[3]["lease"], removed[4]) == ("z", lease, None)


def test_dead_letters_are_retried_and_dropped_under_a_name(desk: TenantHarness) -> None:
    job = desk.write(jobs.create_job, "tool", {})
    desk.database.write(lambda tx: jobs.fail_permanently(tx, job, "No such host."))
    act(desk, lambda tx: dead_letters.retry(tx, desk.tenant.id, job.id))
    with pytest.raises(Conflict):
        act(desk, lambda tx: jobs.drop(tx, desk.tenant.id, job.id))
    desk.database.write(lambda tx: jobs.fail_permanently(tx, jobs.get_locked_job(tx, desk.tenant.id, job.id), "Again."))
    act(desk, lambda tx: jobs.drop(tx, desk.tenant.id, job.id))

    dead = {"state": "dead", "kind": "tool", "attempts": 1}
    assert list_entries(desk, "job") == [
        ("ada (token 7)", "job.retry", f"job:{job.id}", {**dead, "errors": ["No such host."]}, {"state": "queued"}),
        ("ada (token 7)", "job.drop", f"job:{job.id}", {**dead, "errors": ["Again."]}, None),
    ]


def test_no_label_hides_which_token_was_used(desk: TenantHarness) -> None:
    """Whoever creates a token chooses its label. The number is Headway's."""
    forged = desk.write(tokens.create_token, "cli (root)", scope="admin")

    def halt(tx: Transaction) -> None:
        tx.actor = tokens.authenticate_for("manage_tokens")(tx, tokens.hash_secret(forged.secret)).label
        halts.halt(tx)

    desk.database.write(halt)
    act(desk, halts.unhalt, "token 7", "token 7")
    assert [entry[0] for entry in list_entries(desk, "halt")] == [f"cli (root) (token {forged.token.id})", "token 7"]
    assert forged.secret not in repr(desk.database.read(lambda tx: tx.all("SELECT * FROM audit")))


def test_a_tenant_sees_its_own_entries_and_the_installations(desk: TenantHarness) -> None:
    other = TenantHarness(desk.database, "other")
    for tenant in (desk, other):
        tenant.write(spending.set_limit, 1)
    desk.database.write(halts.halt)

    def list_tenants(page: dict[str, Any]) -> list[tuple[str, str | None]]:
        return [(entry["action"], entry["tenant"]) for entry in page["entries"]]

    installation = [("halt.set", None), ("tenant.add", None), ("tenant.add", None)]
    assert sorted(list_tenants(desk.read(audit.list_audit_entries)), key=str) == sorted(
        [*installation, ("limit.set", "acme")], key=str
    )
    everything = desk.database.read(lambda tx: audit.list_audit_entries(tx, None))
    assert list_tenants(everything) == [
        ("halt.set", None),
        ("limit.set", "other"),
        ("limit.set", "acme"),
        ("tenant.add", None),
        ("tenant.add", None),
    ]
    act(desk, lambda tx: tenants.remove_tenant(tx, "other"))
    assert [entry[1:] for entry in list_entries(desk, "tenant.remove")] == [
        ("tenant.remove", f"tenant:{other.tenant.id}", {"name": "other"}, None)
    ]
    assert ("limit.set", "other") not in list_tenants(desk.database.read(lambda tx: audit.list_audit_entries(tx, None)))


def test_pages_follow_each_other_and_filters_apply(desk: TenantHarness, clock: FixedClock) -> None:
    for number in range(1, 6):
        desk.write(spending.set_limit, number)
        clock.advance(60)
        desk.database.write(halts.halt if number % 2 else halts.unhalt)

    def read_all(limit: int, chosen: AuditFilter) -> list[int]:
        seqs: list[int] = []
        cursor = None
        while True:
            page = desk.read(audit.list_audit_entries, chosen, limit, cursor)
            seqs += [entry["seq"] for entry in page["entries"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return seqs

    everything = read_all(100, AuditFilter())
    assert len(everything) == 11
    assert everything == sorted(everything, reverse=True) == read_all(2, AuditFilter())
    after = desk.read(audit.list_after, AuditFilter(), everything[4], 3)
    assert [entry["seq"] for entry in after] == everything[3:0:-1]
    assert [len(read_all(2, AuditFilter(action))) for action in ("halt", "halt.set", "limit.set", "hal", "%", "")] == [
        5,
        3,
        5,
        0,
        0,
        11,
    ]
    assert len(read_all(2, AuditFilter("", clock.now))) == 1
    with pytest.raises(BadCursor):
        desk.read(audit.list_audit_entries, AuditFilter(), 2, "x")


def test_long_texts_are_shortened(desk: TenantHarness) -> None:
    value = {"arguments": "x" * 1_000_000, "list": [1, "y" * 2_000], "none": None}
    desk.write(audit.record_in_audit, "test.act", "test", None, value)
    ((*_, new),) = list_entries(desk, "test")
    assert new == {"arguments": "x" * 1_000 + "…", "list": [1, "y" * 1_000 + "…"], "none": None}


def test_processes_that_read_the_same_policy_record_it_once(database: DirectDatabase) -> None:
    for digest, count in (("a", 1), ("a", 1), ("b", 2), ("b", 2), ("", 0)):
        database.write(partial(audit.record_policy, digest=digest, rule_count=count))
    entries = database.read(lambda tx: audit.list_audit_entries(tx, None))["entries"]
    assert [(entry["who"], entry["old"]["sha256"], entry["new"]) for entry in reversed(entries)] == [
        ("headway", "", {"sha256": "a", "rules": 1}),
        ("headway", "a", {"sha256": "b", "rules": 2}),
        ("headway", "b", {"sha256": "", "rules": 0}),
    ]


def test_filters_find_entries_by_author_target_and_time(desk: TenantHarness, clock: FixedClock) -> None:
    first = act(desk, lambda tx: tokens.create_token(tx, desk.tenant.id, "ci"), "Zoë 100%", "token 3").token.id
    middle = clock.now
    clock.now += 5_000
    second = act(desk, lambda tx: tokens.create_token(tx, desk.tenant.id, "cd"), "bob_builder", "token 4").token.id

    def find(**chosen: Any) -> list[str]:
        return [entry["target"] for entry in desk.read(audit.list_audit_entries, AuditFilter("token", **chosen))["entries"]]

    assert find(who="zoë") == find(who="Zoë 100%") == find(until=middle + 1) == find(target=f"token:{first}") == [f"token:{first}"]
    assert find(who="BOB_B") == find(who="token 4") == find(since=middle + 1) == [f"token:{second}"]
    assert find(target="token") == find(since=middle, until=clock.now + 1) == [f"token:{second}", f"token:{first}"]
    assert find(who="bobXb") == find(target="tok") == find(until=middle) == []
    assert find(who="%") == [f"token:{first}"]


def test_a_page_with_a_filter_looks_at_a_bounded_number_of_entries(desk: TenantHarness) -> None:
    rare = act(desk, lambda tx: tokens.create_token(tx, desk.tenant.id, "rare")).token.id

    def fill(tx: Transaction) -> None:
        for number in range(audit.SCAN_LIMIT):
            audit.record_in_audit(tx, desk.tenant.id, "limit.set", "costs", number, number + 1)

    desk.database.write(fill)
    first = desk.read(audit.list_audit_entries, AuditFilter("token"), 10)
    second = desk.read(audit.list_audit_entries, AuditFilter("token"), 10, first["next_cursor"])
    at_once = desk.read(audit.list_newest_audit_entries, AuditFilter("token"), 10)

    assert first["entries"] == []
    assert [entry["target"] for entry in second["entries"]] == [f"token:{rare}"]
    assert second["next_cursor"] is None
    assert at_once == second
    assert len(desk.read(audit.list_audit_entries, AuditFilter("limit"), 10)["entries"]) == 10
