"""What row-level security costs on Postgres: the same work by an ordinary role, and by a superuser, to whom no policy applies."""

from collections.abc import Callable
from functools import partial

from psycopg.conninfo import conninfo_to_dict

from bench import bare
from bench.harness import Measurements, Workshop, at_least, benchmark, in_turns, rate
from bench.postgres import new_database, new_tenant, server_url
from headway.actions.todos import todo_lists, todos
from headway.ledger.scope import Selection
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import within_tenant
from tests.postgres_roles import replace_database

ROUNDS = 9
CREATES, LISTS, LENGTH, BATCH, PAGE = 200, 400, 2_000, 100, 20

Round = Callable[[DirectDatabase, int], float]


@benchmark("pg.rls.create", "Postgres: a todo is created under row-level security", "by a superuser, without it", at_least(0.8))
def create(shop: Workshop) -> Measurements:
    return compare_roles(shop, create_todos)


@benchmark("pg.rls.list20", "Postgres: 20 of 2,000 todos, under row-level security", "by a superuser, without it", at_least(0.8))
def list20(shop: Workshop) -> Measurements:
    return compare_roles(shop, list_todos)


def compare_roles(shop: Workshop, one_round: Round) -> Measurements:
    url = new_database(shop)
    tenant_id = new_tenant(url)
    ours = shop.cleanup.enter_context(DirectDatabase(url))
    superuser_url = replace_database(shop.once(server_url), str(conninfo_to_dict(url)["dbname"]))
    reference = shop.cleanup.enter_context(DirectDatabase(superuser_url))
    for _ in range(LENGTH // BATCH):
        ours.write(partial(todos.add_many, tenant_id=tenant_id, drafts=[bare.DRAFT] * BATCH))
    ours.write(lambda tx: tx.run("ANALYZE"))
    return in_turns(partial(one_round, ours, tenant_id), partial(one_round, reference, tenant_id), ROUNDS)


def create_todos(database: DirectDatabase, tenant_id: int) -> float:
    add = within_tenant(tenant_id, partial(todos.add_todo, tenant_id=tenant_id, draft=bare.DRAFT))
    return rate(CREATES, lambda: [database.write(add) for _ in range(CREATES)])


def list_todos(database: DirectDatabase, tenant_id: int) -> float:
    page = within_tenant(tenant_id, partial(todo_lists.list_todos, tenant_id=tenant_id, selection=Selection(), limit=PAGE))
    return rate(LISTS, lambda: [database.read(page) for _ in range(LISTS)])
