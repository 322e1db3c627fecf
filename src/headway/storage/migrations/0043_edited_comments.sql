-- When the writer of a comment last changed it; 0: never.
ALTER TABLE comments ADD COLUMN edited_at BIGINT NOT NULL DEFAULT 0;
