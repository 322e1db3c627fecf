-- Who halted all work, and who lifted the halt.
ALTER TABLE halts ADD COLUMN halted_by TEXT NOT NULL DEFAULT '';
ALTER TABLE halts ADD COLUMN lifted_by TEXT NOT NULL DEFAULT '';
