-- The token that a rotation created to replace this one; 0: none.
ALTER TABLE tokens ADD COLUMN replaced_by BIGINT NOT NULL DEFAULT 0;
-- `scopes` contains it.
ALTER TABLE tokens DROP COLUMN operator;
-- `session_of` is -1 for a session that the login link opened. Sessions from before this version do not know their token and could not
-- end with it, so they end now: people sign in again.
UPDATE tokens SET session_of = -1, revoked_at = created_at WHERE label = 'browser session' AND expires_at <> 0 AND revoked_at = 0;
UPDATE tokens SET session_of = -1 WHERE label = 'browser session' AND expires_at <> 0;
