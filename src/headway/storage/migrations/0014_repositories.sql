-- A goal's agents can work in a git repository: a path relative to the tenant's workspace, or empty.
ALTER TABLE goals ADD COLUMN repository TEXT NOT NULL DEFAULT '';

-- The repository that a run works in (absolute if a role file names it), the commit that its work starts from, and what it changed:
-- JSON without the diff, which only some readers need.
ALTER TABLE runs ADD COLUMN repository TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN base TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN changes TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN diff TEXT NOT NULL DEFAULT '';
