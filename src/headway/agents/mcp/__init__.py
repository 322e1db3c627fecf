"""MCP servers that agents use."""
