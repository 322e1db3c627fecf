-- A call of a tool that the client of a turn has, as JSON. It waits for the client as a question waits for a person.
ALTER TABLE questions ADD COLUMN client_call TEXT NOT NULL DEFAULT '';
-- What a chat client sends with a message: instructions and context for the agent, the tools that the client itself has (JSON, by name),
-- and the fingerprint of its history up to this message, by which a client that names no conversation finds its own again. On Postgres,
-- this is built while other processes work: storage/postgres/migrations/0032_client_turns.sql.
ALTER TABLE turns ADD COLUMN context TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN client_tools TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
CREATE INDEX turns_by_fingerprint ON turns (tenant_id, fingerprint) WHERE fingerprint <> '';
