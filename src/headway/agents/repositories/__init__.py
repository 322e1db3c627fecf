"""Git repositories that agents work in. Each run has its own worktree and branch; the user's checkout and branches are never
changed."""
