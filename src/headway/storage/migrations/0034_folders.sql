-- The folder that agents of a conversation work in, instead of the tenant's workspace. An editor sets it. Empty: the workspace.
ALTER TABLE conversations ADD COLUMN folder TEXT NOT NULL DEFAULT '';
