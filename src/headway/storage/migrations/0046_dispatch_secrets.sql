-- Part of the URL at which an external dispatcher reaches the workers of this database. A delivery without it is refused.
CREATE TABLE dispatch_secrets (
    service TEXT PRIMARY KEY,
    secret TEXT NOT NULL
);
