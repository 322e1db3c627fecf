-- Input tokens that a provider read from its prompt cache, and those it wrote to it. Both are part of input_tokens.
ALTER TABLE model_calls ADD COLUMN cached_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE model_calls ADD COLUMN cache_write_tokens BIGINT NOT NULL DEFAULT 0;
