"""Random sequences of operations on the ledger: its results, events and refusals match the ones of a model."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from headway.storage.direct import DirectDatabase
from headway.testing import FixedClock
from tests.proofs import Proof
from tests.torture.ledger_machine import LedgerMachine

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(params=["sqlite", "new_postgres"])
def volatile_database(request: pytest.FixtureRequest) -> Iterator[tuple[DirectDatabase, FixedClock]]:
    """A database that does not wait for the disk, because it need not survive a crash."""
    with TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as folder:
        url = f"sqlite:///{folder}/headway.db"
        if request.param == "new_postgres":
            url = request.getfixturevalue("new_postgres_url")
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute(f'ALTER DATABASE "{admin.info.dbname}" SET synchronous_commit = off'.encode())
        clock = FixedClock()
        with DirectDatabase(url, clock) as database:
            yield database, clock


@pytest.mark.proof
def test_the_ledger_is_what_its_model_is(
    request: pytest.FixtureRequest, volatile_database: tuple[DirectDatabase, FixedClock], proof: Proof
) -> None:
    database, clock = volatile_database
    share = 12 if "postgres" in request.node.name else 60  # a sequence on Postgres takes as long as five on SQLite
    examples = proof.trials("ledger against a model: tenancy, statuses, dependencies, claims", share, whole=10_000)
    profile = settings(
        max_examples=examples,
        stateful_step_count=100 if proof.whole else 50,
        derandomize=not proof.whole,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(type("Machine", (LedgerMachine,), {"database": database, "clock": clock}), settings=profile)
