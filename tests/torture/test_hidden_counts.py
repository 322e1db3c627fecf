"""Two tenants store rows in a random order. Neither can tell from its ids how many rows the other has stored."""

import itertools
from random import Random

import pytest

from headway.storage.logged_transaction import RANGE_SIZE
from headway.testing import TenantHarness
from tests.proofs import Proof


@pytest.mark.proof
def test_ids_depend_on_the_rows_of_their_tenant_only(desk: TenantHarness, proof: Proof) -> None:
    rival = TenantHarness(desk.database, "rival")
    random = Random(1)
    ids: dict[str, list[int]] = {"acme": [], "rival": []}
    for _ in range(proof.trials("ids: rows of two tenants in a random order", share=60, whole=20_000)):
        tenant = random.choice((desk, rival)) if random.random() < 0.5 else rival
        ids[tenant.tenant.name].append(tenant.add().id)

    for own in ids.values():
        ranges = [number // RANGE_SIZE for number in own]
        assert all(later == earlier + 1 for earlier, later in itertools.pairwise(own) if (earlier + 1) % RANGE_SIZE)
        assert ranges == sorted(ranges)
    assert not set(ids["acme"]) & set(ids["rival"])
