"""A repository whose configuration makes git run a program, hidden so that only git in a linked worktree reads it."""

from hashlib import sha1
from pathlib import Path

ATTRIBUTES = "* filter=x\n"


def list_commands(marker: Path) -> list[list[str]]:
    """Return the commands that make the repository `app`, of git alone. Its filter writes the marker, which is outside, and a file
    in .git."""
    git = ["git", "-C", "app", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    digest = sha1(f"blob {len(ATTRIBUTES)}\0{ATTRIBUTES}".encode()).hexdigest()
    return [
        ["git", "init", "-q", "app"],
        [*git, "commit", "-q", "--allow-empty", "--cleanup=verbatim", "-m", ATTRIBUTES.strip()],
        [*git, "hash-object", "-w", ".git/COMMIT_EDITMSG"],
        [*git, "update-index", "--add", "--cacheinfo", f"100644,{digest},.gitattributes"],
        [*git, "update-index", "--add", "--cacheinfo", f"100644,{digest},a.txt"],
        [*git, "commit", "-qm", "x"],
        [*git, "config", "-f", ".git/evil.inc", "filter.x.smudge", f"touch {marker} $GIT_DIR/../../filter-ran; cat"],
        # The repository's own .git folder does not match this condition, but the folders of its worktrees do.
        [*git, "config", "includeIf.gitdir:worktrees/.path", "evil.inc"],
    ]
