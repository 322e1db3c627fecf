"""SQL for what only the board has: comments on todos, saved views."""
