-- Who did what to access, limits and rules. tenant_id 0 is the installation. There is no foreign key: the deletion of a tenant is
-- itself recorded. `old` and `new` are JSON.
CREATE TABLE audit (
    seq {id},
    tenant_id BIGINT NOT NULL,
    at BIGINT NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    old TEXT NOT NULL,
    new TEXT NOT NULL
);
CREATE INDEX audit_of_tenant ON audit (tenant_id, seq);

-- What a token may do, comma-separated: read, write, operator. `session_of` is the token that a browser session was opened with:
-- it ends with that token. 0: no session, or one that the login link opened.
ALTER TABLE tokens ADD COLUMN scopes TEXT NOT NULL DEFAULT 'read,write';
ALTER TABLE tokens ADD COLUMN session_of BIGINT NOT NULL DEFAULT 0;
UPDATE tokens SET scopes = 'read,write,operator' WHERE operator = 1;
CREATE INDEX tokens_of_session ON tokens (tenant_id, session_of) WHERE session_of <> 0;
