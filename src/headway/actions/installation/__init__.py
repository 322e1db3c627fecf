"""Whole tenants and the installation: money, halts, tenants, pruning."""
