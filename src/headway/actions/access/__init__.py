"""Who may do what: tokens, rights, quotas, and the audit log of changes to them."""
