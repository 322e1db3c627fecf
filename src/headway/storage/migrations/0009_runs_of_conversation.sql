-- The runs that answered a conversation's turns, whose messages the next turn continues.
CREATE INDEX runs_of_conversation ON runs (tenant_id, conversation_id, created_at)
    WHERE turn_id IS NOT NULL AND parent_run_id IS NULL;
