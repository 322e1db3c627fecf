"""Git repositories that agents work in. Every run works in a worktree and on a branch of its own; the user's checkout and branches
are never changed."""
