"""Goals: changes, views and forks."""
