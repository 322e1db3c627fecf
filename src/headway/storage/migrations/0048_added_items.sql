-- How many items an agent has added to its plan after the plan was made. They extend the limit on its steps less than the others.
ALTER TABLE runs ADD COLUMN added_items BIGINT NOT NULL DEFAULT 0;
