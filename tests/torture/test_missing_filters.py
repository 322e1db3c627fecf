"""Every action runs without the tenant filters of its statements: row-level security alone keeps the tenants apart on Postgres."""

import re
from typing import Any

import pytest

from headway.storage.direct import DirectDatabase
from headway.storage.postgres.transaction import PostgresTransaction
from headway.storage.transaction import Query, Row, Transaction
from headway.testing import TenantHarness
from tests.proofs import Proof
from tests.storage.test_tenancy import ATTEMPTS, get_refusal
from tests.tenant_rows import UNKNOWN_IDS, fill_tenant, read_tenant_rows

FILTER = re.compile(r"(\w+\.)?tenant_id = \?")
SHARE = 8  # every eighth in `make test`


class UnfilteredTransaction(PostgresTransaction):
    """A transaction whose statements apply to all tenants, as if each filter had been forgotten."""

    __slots__ = ()
    removed = 0

    def run(self, sql: str, *parameters: Any) -> None:
        super().run(self.remove(sql), *parameters)

    def fetch(self, *queries: Query) -> list[list[Row]]:
        return super().fetch(*(query._replace(sql=self.remove(query.sql)) for query in queries))

    def remove(self, sql: str) -> str:
        unfiltered, count = FILTER.subn(r"(\g<0>) IS NOT NULL", sql)
        UnfilteredTransaction.removed += count
        return unfiltered


class CarelessHarness(TenantHarness):
    """A tenant whose statements have no filters."""

    def write(self, action: Any, *args: Any, **options: Any) -> Any:
        return super().write(remove_filters(action), *args, **options)

    def read(self, view: Any, *args: Any, **options: Any) -> Any:
        return super().read(remove_filters(view), *args, **options)


def remove_filters(action: Any) -> Any:
    def run(tx: Transaction, tenant_id: int, *args: Any, **options: Any) -> Any:
        assert isinstance(tx, PostgresTransaction)
        tx.__class__ = UnfilteredTransaction
        return action(tx, tenant_id, *args, **options)

    return run


@pytest.mark.proof
def test_statements_without_their_filters_still_refuse_ids_of_another_tenant(postgres_url: str, proof: Proof) -> None:
    with DirectDatabase(postgres_url) as database:
        careless, rival = CarelessHarness(database), TenantHarness(database, "rival")
        foreign = fill_tenant(rival)
        before = read_tenant_rows(rival)
        names = list(ATTEMPTS)[:: 1 if proof.whole else SHARE]
        proof.tried("an action without tenant filters gets ids of another tenant", len(names))
        for name in names:
            assert get_refusal(ATTEMPTS[name], careless, foreign) == get_refusal(ATTEMPTS[name], careless, UNKNOWN_IDS), name

        assert read_tenant_rows(rival) == before
    assert UnfilteredTransaction.removed > len(names)
