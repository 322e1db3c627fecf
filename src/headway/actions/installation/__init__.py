"""Whole tenants and the installation: halts, tenants, pruning."""
