-- A role that counts the jobs of all tenants, and can read nothing else: no payloads, no texts, no other table. Row-level security
-- applies to it. Run this once, in Headway's database, after Headway's first start, as the owner of the tables. The owner needs
-- CREATEROLE for it, or another role creates this one first.
CREATE ROLE headway_scaler LOGIN PASSWORD 'change-me' CONNECTION LIMIT 5;
ALTER ROLE headway_scaler SET statement_timeout = '5s';
GRANT CONNECT ON DATABASE headway TO headway_scaler;
GRANT USAGE ON SCHEMA public TO headway_scaler;
GRANT SELECT (state, due_at) ON jobs TO headway_scaler;
GRANT SELECT (boot_id, ahead_ms) ON machine_clocks TO headway_scaler;
