"""What concerns whole tenants or the installation: money, halts, tenants, moves, pruning."""
