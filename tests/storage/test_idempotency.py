"""Idempotency keys: how long a response is stored, and which responses are not."""

import psycopg
import pytest

from headway.actions.access import idempotency
from headway.actions.access.idempotency import Answer, IdempotentRequest
from headway.actions.todos import todos
from headway.ledger.errors import DatabaseBusy, Invalid, KeyBusy, KeyReused
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase
from headway.storage.stores import idempotency as idempotency_store
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.tables import each_row

DAY_S = 24 * 3600
ASKED = IdempotentRequest("/v1/todos", "key", "hash of the body")


def add_once(desk: TenantHarness, request: IdempotentRequest = ASKED) -> Answer:
    def work(tx: Transaction) -> Answer:
        todo = todos.add_todo(tx, desk.tenant.id, Draft("once"))
        return Answer(201, str(todo.id))

    return desk.write(idempotency.run_once, request, work)


def test_an_answer_is_given_again_for_a_day_and_then_forgotten(desk: TenantHarness, clock: FixedClock) -> None:
    first = add_once(desk)
    clock.advance(DAY_S - 1)
    assert add_once(desk) == first
    clock.advance(2)
    assert add_once(desk) != first

    assert len(desk.subjects()) == 2
    assert desk.count("idempotency_keys") == 1


def test_a_day_counts_from_the_first_time(desk: TenantHarness, clock: FixedClock) -> None:
    first = add_once(desk)
    for _ in range(3):
        clock.advance(DAY_S / 3)
        assert add_once(desk) == first
    clock.advance(1)

    assert add_once(desk) != first


def test_after_a_day_the_key_may_be_used_for_something_else(desk: TenantHarness, clock: FixedClock) -> None:
    add_once(desk)
    with pytest.raises(KeyReused):
        add_once(desk, ASKED._replace(body_hash="another"))
    clock.advance(DAY_S + 1)

    assert add_once(desk, ASKED._replace(body_hash="another")).status == 201


def test_an_internal_error_is_not_stored_for_its_key(desk: TenantHarness) -> None:
    def fail(_tx: Transaction) -> Answer:
        raise DatabaseBusy

    with pytest.raises(DatabaseBusy):
        desk.write(idempotency.run_once, ASKED, fail)

    assert desk.count("idempotency_keys") == 0
    assert add_once(desk).status == 201


@each_row("key", ["", "x" * 256, "tab\t", "new\nline", "ü", "\0"])
def test_a_key_is_short_printable_ascii(desk: TenantHarness, key: str) -> None:
    with pytest.raises(Invalid, match="Idempotency-Key"):
        add_once(desk, ASKED._replace(key=key))


def test_any_other_key_will_do(desk: TenantHarness) -> None:
    for key in ("x", "x" * 255, "8e03978e-40d5-43dd-bc93-6894a57f9324", "with space;'\"%?"):
        first = add_once(desk, ASKED._replace(key=key))
        assert add_once(desk, ASKED._replace(key=key)) == first
    assert len(desk.subjects()) == 4


def test_on_postgres_a_request_does_not_wait_for_ever_for_another_with_its_key(postgres_url: str) -> None:
    with DirectDatabase(postgres_url) as database, psycopg.connect(postgres_url, options="-c headway.tenant=all") as other:
        desk = TenantHarness(database)
        other.execute(
            "INSERT INTO idempotency_keys (tenant_id, route, key, body_hash, at) VALUES (%s, '/v1/todos', 'key', '', 0)",
            (desk.tenant.id,),
        )
        with pytest.raises(KeyBusy):
            desk.write(idempotency_store.reserve, "/v1/todos", "key", "hash of the body", wait_ms=50)
        other.rollback()

        assert desk.write(idempotency_store.reserve, "/v1/todos", "key", "hash of the body", wait_ms=50)
