-- Cells: several Postgres databases, each with some of the tenants. One database, the directory, has the addresses of all cells and the
-- cell of each tenant. The others know the names and public addresses of all cells, and which of them they are.
CREATE TABLE cells (
    name TEXT PRIMARY KEY,
    url TEXT NOT NULL DEFAULT '',
    public_url TEXT NOT NULL DEFAULT '',
    home TEXT NOT NULL DEFAULT '',
    first_tenant_id BIGINT NOT NULL,
    is_self BIGINT NOT NULL DEFAULT 0,
    added_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX cells_self ON cells (is_self) WHERE is_self = 1;

-- In the directory: where each tenant is. A name is reserved here before the tenant is created.
CREATE TABLE placements (
    tenant_name TEXT PRIMARY KEY,
    cell TEXT NOT NULL,
    placed_at BIGINT NOT NULL
);
CREATE INDEX placements_of_cell ON placements (cell, tenant_name);

-- Moves of tenants. In the source: fenced, departed, done or undone. In the target: arrived or canceled, whichever was stored first, so
-- that a move is either carried out or undone. The columns are not named tenant_id, because these rows do not move with the tenant.
CREATE TABLE moves (
    id TEXT PRIMARY KEY,
    tenant BIGINT NOT NULL,
    tenant_name TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    state TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX moves_of_tenant ON moves (tenant_name, started_at);

-- Tokens of tenants that have left, so that their holders learn where to go.
CREATE TABLE departed_tokens (
    hash TEXT PRIMARY KEY,
    tenant BIGINT NOT NULL,
    cell TEXT NOT NULL
);
CREATE INDEX departed_tokens_of_tenant ON departed_tokens (tenant);

-- Jobs and schedules of a tenant that is being moved, as they were before. Meanwhile they are due never.
CREATE TABLE parked (
    tenant BIGINT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    due_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, kind, id)
);
