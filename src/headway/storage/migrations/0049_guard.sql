-- Sessions of coding assistants. A session is a conversation with the name of its client and the client's own id of the session; its plan
-- is a turn. `client_agent` is the client's id of a sub-agent whose plan the turn is. `refusals` counts how often in a row the agent was
-- not allowed to stop, and `progress` the items that had ended at the last of them.
ALTER TABLE conversations ADD COLUMN client TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN client_session TEXT NOT NULL DEFAULT '';
CREATE INDEX conversations_of_clients ON conversations (tenant_id, folder, id) WHERE client <> '';
ALTER TABLE turns ADD COLUMN client_agent TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN refusals BIGINT NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN progress BIGINT NOT NULL DEFAULT 0;

-- What must hold before an assistant in a folder may stop. `checks` is JSON. `is_confirmed`: a person agreed that its commands run without
-- a sandbox.
CREATE TABLE guard_rules (
    id BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    folder TEXT NOT NULL,
    subject TEXT NOT NULL,
    checks TEXT NOT NULL,
    is_confirmed BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX guard_rules_of_folder ON guard_rules (tenant_id, folder, id);
INSERT INTO id_blocks VALUES ('guard_rules', 0, 1, 0);
