"""Databases for two cells, copied from one that has the schema."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from headway.storage.direct import DirectDatabase
from tests.cells.move_harness import Cells, CellUrls, open_cells
from tests.conftest import new_database
from tests.postgres_roles import build_owner_url, ensure_ordinary_role, replace_database


@pytest.fixture(scope="session")
def empty_cell(postgres_server: str) -> Iterator[str]:
    """The name of a migrated database without rows. Copying it takes a tenth of the time of creating one."""
    with new_database(postgres_server) as url:
        DirectDatabase(url).close()
        yield str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


@pytest.fixture
def cell_pair(postgres_server: str, empty_cell: str) -> Iterator[CellUrls]:
    names = [f"headway_cell_{uuid4().hex}" for _ in range(2)]
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        owner = ensure_ordinary_role(admin)
        for name in names:
            admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{empty_cell}" OWNER "{owner}"'.encode())
        yield CellUrls(*(build_owner_url(replace_database(postgres_server, name), owner) for name in names))
        for name in names:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def cells(cell_pair: CellUrls, tmp_path: Path) -> Iterator[Cells]:
    with open_cells(cell_pair, tmp_path) as cells:
        yield cells
