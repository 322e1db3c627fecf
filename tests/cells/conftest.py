"""Databases for two cells."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from headway.storage.direct import DirectDatabase
from tests.cells.move_harness import Cells, CellUrls, open_cells
from tests.conftest import new_database
from tests.postgres_roles import build_owner_url, ensure_ordinary_role, replace_database

FENCES = "SELECT tgname, tgrelid::regclass FROM pg_trigger WHERE tgfoid = to_regproc('headway_refuse_changes')"


@pytest.fixture(scope="session")
def empty_cell(postgres_server: str) -> Iterator[str]:
    """The name of a migrated database without rows. Copying it takes a tenth of the time of creating one."""
    with new_database(postgres_server) as url:
        DirectDatabase(url).close()
        yield str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


@pytest.fixture
def cell_pair(postgres_server: str, cell_urls: list[str]) -> Iterator[CellUrls]:
    """Two databases without rows and without fences."""
    yield CellUrls(*cell_urls[:2])
    for url in cell_urls[:2]:
        with psycopg.connect(postgres_server, dbname=psycopg.conninfo.conninfo_to_dict(url)["dbname"], autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            for name, table in admin.execute(FENCES).fetchall():
                admin.execute(f'DROP TRIGGER "{name}" ON {table}'.encode())


@pytest.fixture
def cells(cell_pair: CellUrls, tmp_path: Path) -> Iterator[Cells]:
    with open_cells(cell_pair, tmp_path) as cells:
        yield cells


@pytest.fixture
def new_cell_pair(postgres_server: str, empty_cell: str) -> Iterator[CellUrls]:
    """Two databases for a test that changes their schema. Creating and dropping them takes longer than the test."""
    names = [f"headway_cell_{uuid4().hex}" for _ in range(2)]
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        owner = ensure_ordinary_role(admin)
        for name in names:
            admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{empty_cell}" OWNER "{owner}"'.encode())
        yield CellUrls(*(build_owner_url(replace_database(postgres_server, name), owner) for name in names))
        for name in names:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def new_cells(new_cell_pair: CellUrls, tmp_path: Path) -> Iterator[Cells]:
    with open_cells(new_cell_pair, tmp_path) as cells:
        yield cells
