"""What agents changed in a git repository, as lines for the terminal."""

from typing import Any

from headway.ledger.text import to_one_line


def describe_changes(changes: dict[str, Any]) -> str:
    """Summarize the changes in one line: `headway/goal-3: 2 files, +10 −1 (git merge headway/goal-3)`."""
    branch, files = changes["branch"], changes["files"]
    count = len(files) + changes["omitted_files"]
    if not count:
        return f"{branch}: no changes"
    added, deleted = (sum(file[name] or 0 for file in files) for name in ("added", "deleted"))
    how = "merged into its parent's branch" if changes["merged"] else f"git merge {branch}"
    return f"{branch}: {count} file{'s' if count != 1 else ''}, +{added} −{deleted} ({how})"


def list_changed_files(changes: dict[str, Any]) -> list[str]:
    lines = [format_file(file) for file in changes["files"]]
    return [*lines, f"… and {changes['omitted_files']} more"] if changes["omitted_files"] else lines


def format_file(file: dict[str, Any]) -> str:
    size = "binary" if file["added"] is None else f"+{file['added']} −{file['deleted']}"
    origin = f" (renamed from {to_one_line(file['renamed_from'])})" if file.get("renamed_from") else ""
    return f"{to_one_line(file['path'])}  {size}{origin}"


def list_diff_lines(changes: dict[str, Any]) -> list[str]:
    """List the lines of the diff, safe to print to a terminal. Tabs stay."""
    return ["\t".join(map(to_one_line, line.split("\t"))) for line in changes["diff"].split("\n")]
