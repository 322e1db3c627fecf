-- The record of the files that agents wrote. The id of a file derives from its workspace and its path. `latest` is the number of the last
-- version that was recorded. `data` is the content of a version, or NULL if it was not kept. Names of what wrote a version are not
-- references: the version stays when a run's row is deleted because of its age.
CREATE TABLE files (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    path TEXT NOT NULL,
    latest BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX files_by_time ON files (tenant_id, updated_at, id);

CREATE TABLE file_versions (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    file_id TEXT NOT NULL,
    n BIGINT NOT NULL,
    change TEXT NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    media_type TEXT NOT NULL,
    renamed_from TEXT NOT NULL,
    at BIGINT NOT NULL,
    tool TEXT NOT NULL,
    role TEXT NOT NULL,
    run_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    goal_id BIGINT NOT NULL,
    sub_goal_id BIGINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    data BYTEA,
    PRIMARY KEY (tenant_id, file_id, n),
    FOREIGN KEY (tenant_id, file_id) REFERENCES files (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX file_versions_of_turn ON file_versions (tenant_id, turn_id) WHERE turn_id <> '';
CREATE INDEX file_versions_of_goal ON file_versions (tenant_id, goal_id) WHERE goal_id <> 0;
CREATE INDEX file_versions_of_conversation ON file_versions (tenant_id, conversation_id) WHERE conversation_id <> 0;
