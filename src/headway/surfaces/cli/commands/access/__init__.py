"""Commands that manage cells, tenants, tokens and conversations."""
