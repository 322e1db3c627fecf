"""Who may do what, and spend how much: tokens, rights, quotas, money, and the audit log of changes to them."""
