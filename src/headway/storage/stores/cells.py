"""SQL for cells, for where tenants are, and for moves of tenants between cells."""

from headway.ledger.cells import Cell, Move, MoveState
from headway.storage.transaction import Row, Transaction

CELL_COLUMNS = "name, url, public_url, home, first_tenant_id, is_self, added_at"
MOVE_COLUMNS = "id, tenant, tenant_name, source, target, state, started_at, updated_at"


def load_cell(row: Row) -> Cell:
    return Cell._make(row)._replace(is_self=bool(row[5]))


def list_cells(tx: Transaction) -> list[Cell]:
    return [load_cell(row) for row in tx.all(f"SELECT {CELL_COLUMNS} FROM cells ORDER BY name")]


def find_cell(tx: Transaction, name: str) -> Cell | None:
    row = tx.one(f"SELECT {CELL_COLUMNS} FROM cells WHERE name = ?", name)
    return load_cell(row) if row else None


def find_self(tx: Transaction) -> Cell | None:
    """Return the cell that this database is, or None if it is not a cell."""
    row = tx.one(f"SELECT {CELL_COLUMNS} FROM cells WHERE is_self = 1")
    return load_cell(row) if row else None


def put_cell(tx: Transaction, cell: Cell) -> None:
    """Insert a cell, or replace what is known about it."""
    tx.run(
        f"""INSERT INTO cells ({CELL_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (name) DO UPDATE SET url = excluded.url, public_url = excluded.public_url, home = excluded.home""",
        *cell._replace(is_self=int(cell.is_self)),
    )


def delete_cell(tx: Transaction, name: str) -> None:
    tx.run("DELETE FROM cells WHERE name = ?", name)


# Where tenants are


def find_placement(tx: Transaction, tenant_name: str) -> str | None:
    row = tx.one("SELECT cell FROM placements WHERE tenant_name = ?", tenant_name)
    return str(row[0]) if row else None


def insert_placement(tx: Transaction, tenant_name: str, cell: str) -> bool:
    """Reserve a tenant's name. Returns False if it is taken."""
    sql = "INSERT INTO placements (tenant_name, cell, placed_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING cell"
    return tx.one(sql, tenant_name, cell, tx.now) is not None


def put_placement(tx: Transaction, tenant_name: str, cell: str) -> None:
    tx.run(
        """INSERT INTO placements (tenant_name, cell, placed_at) VALUES (?, ?, ?)
           ON CONFLICT (tenant_name) DO UPDATE SET cell = excluded.cell, placed_at = excluded.placed_at""",
        tenant_name,
        cell,
        tx.now,
    )


def delete_placement(tx: Transaction, tenant_name: str) -> None:
    tx.run("DELETE FROM placements WHERE tenant_name = ?", tenant_name)


def list_placements(tx: Transaction, cell: str | None = None) -> list[tuple[str, str]]:
    """List (tenant's name, cell), of one cell or of all."""
    condition, parameters = ("WHERE cell = ?", (cell,)) if cell else ("", ())
    rows = tx.all(f"SELECT tenant_name, cell FROM placements {condition} ORDER BY cell, tenant_name", *parameters)
    return [(str(name), str(place)) for name, place in rows]


# Moves


def find_move(tx: Transaction, move_id: str) -> Move | None:
    row = tx.one(f"SELECT {MOVE_COLUMNS} FROM moves WHERE id = ?", move_id)
    return Move._make(row) if row else None


def find_last_move(tx: Transaction, tenant_name: str) -> Move | None:
    """Return the last move of a tenant that this database has taken part in."""
    row = tx.one(f"SELECT {MOVE_COLUMNS} FROM moves WHERE tenant_name = ? ORDER BY started_at DESC LIMIT 1", tenant_name)
    return Move._make(row) if row else None


def insert_move(tx: Transaction, move: Move) -> bool:
    """Insert a move. Returns False if there is one with this id. Waits for a transaction that is about to insert it."""
    sql = f"INSERT INTO moves ({MOVE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id"
    return tx.one(sql, *move) is not None


def set_move_state(tx: Transaction, move_id: str, state: MoveState) -> None:
    tx.run("UPDATE moves SET state = ?, updated_at = ? WHERE id = ?", state, tx.now, move_id)


def find_departed(tx: Transaction, digest: str) -> str | None:
    """Return the cell to which the tenant of a token has moved."""
    row = tx.one("SELECT cell FROM departed_tokens WHERE hash = ?", digest)
    return str(row[0]) if row else None
