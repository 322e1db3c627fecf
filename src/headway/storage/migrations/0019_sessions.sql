-- The token that a rotation created to replace this one; 0: none.
ALTER TABLE tokens ADD COLUMN replaced_by BIGINT NOT NULL DEFAULT 0;
-- `scopes` says it.
ALTER TABLE tokens DROP COLUMN operator;
-- Sessions from before this version do not know their token, so they could not end with it. People sign in again.
DELETE FROM tokens WHERE label = 'browser session' AND expires_at <> 0;
