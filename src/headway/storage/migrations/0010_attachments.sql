-- The files that came with a turn's message, numbered from 1. BYTEA is Postgres' type for bytes; SQLite stores bytes in a column of
-- any type.
CREATE TABLE attachments (
    turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    data BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (turn_id, n)
);
