"""Jobs, leases, takeover and dispatch. It does not know what its jobs do."""
