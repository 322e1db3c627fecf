"""What people and models write: checklists in Markdown, and writs."""
