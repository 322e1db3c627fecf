"""The event log: one numbered event per change, and readers see every event without gaps."""

import threading

from headway.actions.todos import todos
from headway.ledger.errors import NotFound
from headway.ledger.todo import Change, Draft
from headway.storage.direct import DirectDatabase
from headway.storage.stores import events as event_store
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness


def test_the_log_is_read_in_order_from_any_point(desk: TenantHarness, clock: FixedClock) -> None:
    for subject in ("first", "second", "third"):
        clock.advance(1)
        desk.add(subject)
    whole = desk.read(event_store.list_after, 0, 100)

    assert [event.at for event in whole] == [clock.now - 2000, clock.now - 1000, clock.now]
    assert desk.read(event_store.list_after, whole[0].seq, 100) == whole[1:]
    assert desk.read(event_store.list_after, 0, 2) == whole[:2]
    assert desk.read(event_store.list_after, whole[-1].seq, 100) == []
    assert desk.read(event_store.get_last_seq) == whole[-1].seq


def test_an_empty_log_ends_at_zero(desk: TenantHarness) -> None:
    assert desk.read(event_store.get_last_seq) == 0


def test_a_conversation_gets_its_own_and_tenant_wide_events_in_one_order(desk: TenantHarness) -> None:
    own, other = desk.conversation(), desk.conversation()
    for subject, conversation_id in (("ours", own.id), ("wide", 0), ("theirs", other.id), ("ours again", own.id)):
        desk.add(subject, conversation_id=conversation_id)

    events = desk.read(event_store.list_after_in_conversation, own.id, 0, 100)
    assert [event.conversation_id for event in events] == [own.id, 0, own.id]
    assert [event.seq for event in events] == sorted(event.seq for event in events)
    assert desk.read(event_store.list_after_in_conversation, own.id, events[0].seq, 1) == events[1:2]


def test_events_of_one_transaction_are_numbered_in_order(desk: TenantHarness) -> None:
    own = desk.conversation()
    subjects = [f"number {n}" for n in range(100)]

    def add_all(tx: Transaction, tenant_id: int) -> None:
        for n, subject in enumerate(subjects):
            todos.add_todo(tx, tenant_id, Draft(subject, conversation_id=own.id if n % 3 else 0))

    desk.write(add_all)

    assert [todo["subject"] for _, todo in desk.changes()] == subjects
    assert [event.conversation_id == own.id for event in desk.read(event_store.list_after, 0, 1000)] == [
        n % 3 > 0 for n in range(100)
    ]


def test_a_failed_attempt_withdraws_only_its_own_events(desk: TenantHarness) -> None:
    def catch_and_continue(tx: Transaction, tenant_id: int) -> None:
        todos.add_todo(tx, tenant_id, Draft("kept"))

        def stumble(inner: Transaction) -> None:
            todos.add_todo(inner, tenant_id, Draft("taken back"))
            todos.change_todo(inner, tenant_id, 987_654_321, Change(subject="x"))

        try:
            tx.attempt(stumble)
        except NotFound:
            todos.add_todo(tx, tenant_id, Draft("written instead"))

    desk.write(catch_and_continue)

    assert desk.subjects() == ["kept", "written instead"]
    assert [todo["subject"] for _, todo in desk.changes()] == ["kept", "written instead"]


def test_a_reader_of_the_log_misses_nothing_during_concurrent_writes(database_url: str, desk: TenantHarness) -> None:
    writers, each = 4, 60
    failures: list[Exception] = []

    def write(draft: Draft) -> None:
        try:
            with DirectDatabase(database_url) as own:
                for _ in range(each):
                    own.write(lambda tx: todos.add_todo(tx, desk.tenant.id, draft))
        except Exception as error:  # noqa: BLE001  a thread would swallow it
            failures.append(error)

    drafts = [Draft("x", conversation_id=desk.conversation().id) for _ in range(writers)]  # a list each: only the log is shared
    threads = [threading.Thread(target=write, args=(draft,)) for draft in drafts]
    for thread in threads:
        thread.start()
    seqs: list[int] = []
    while any(thread.is_alive() for thread in threads):
        seqs += [event.seq for event in desk.read(event_store.list_after, seqs[-1] if seqs else 0, 1000)]
    for thread in threads:
        thread.join()
    seqs += [event.seq for event in desk.read(event_store.list_after, seqs[-1] if seqs else 0, 1000)]

    assert failures == []
    assert seqs == [event.seq for event in desk.read(event_store.list_after, 0, 1000)]
    assert len(seqs) == writers * each
