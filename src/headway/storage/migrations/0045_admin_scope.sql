-- The scope `operator` is for those who run the installation: only tokens of the tenant `local` have it. The tokens and sessions of
-- other tenants that had it are now for the administrators of their tenant.
UPDATE tokens SET scopes = 'read,write,admin'
    WHERE scopes = 'read,write,operator' AND tenant_id NOT IN (SELECT id FROM tenants WHERE name = 'local');
UPDATE tokens SET scopes = 'read,write,admin,operator' WHERE scopes = 'read,write,operator';
