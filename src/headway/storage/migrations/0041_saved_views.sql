-- Named sets of the board's filters, which everybody of the tenant sees. `folded_name` is the name in one case, so that two names differ in
-- more than that. `filters` is a JSON object of those that are set. `person` is the label of the token that saved it last.
CREATE TABLE saved_views (
    id BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    folded_name TEXT NOT NULL,
    filters TEXT NOT NULL,
    person TEXT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, folded_name)
);
INSERT INTO id_blocks VALUES ('saved_views', 0, 1, 0);
