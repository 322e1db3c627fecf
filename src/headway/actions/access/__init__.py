"""Who may do what: tokens, rights, quotas, cells, and the audit log of changes to them."""
