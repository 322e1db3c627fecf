-- What led to the present state of a todo, turn, goal or job is read from the log. `subject` names what an event is about beside its
-- turn (todo:12, goal:3, job:ID, halt), and `actor` names the person, agent or schedule that caused it. Events that were written
-- before this version have neither.
ALTER TABLE events ADD COLUMN subject TEXT;
ALTER TABLE events ADD COLUMN actor TEXT NOT NULL DEFAULT '';
CREATE INDEX events_of_subject ON events (tenant_id, subject, seq) WHERE subject IS NOT NULL;
CREATE INDEX events_of_turn ON events (tenant_id, turn_id, seq) WHERE turn_id IS NOT NULL;
