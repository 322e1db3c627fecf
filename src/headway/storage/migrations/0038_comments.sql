-- What people write about a todo. `person` is the label of the writer's token. A comment is deleted with its todo; `conversation_id` is
-- the todo's, so that those of a conversation are found.
CREATE TABLE comments (
    id BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL,
    todo_id BIGINT NOT NULL,
    person TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX comments_of_todo ON comments (tenant_id, todo_id, id);
CREATE INDEX comments_of_conversation ON comments (tenant_id, conversation_id, id) WHERE conversation_id <> 0;
INSERT INTO id_blocks VALUES ('comments', 0, 1, 0);
