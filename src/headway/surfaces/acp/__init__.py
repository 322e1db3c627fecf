"""The Agent Client Protocol: editors drive an agent of Headway over standard input and output."""
