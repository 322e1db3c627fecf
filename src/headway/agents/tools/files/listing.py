"""Listing the files below a folder."""

import os
from contextlib import suppress
from typing import Any, Final

from headway.agents.tools.files.folders import (
    ENTRIES_LIMIT,
    SKIPPED_FOLDERS,
    Entry,
    Walk,
    join_prefix,
    open_folder,
    translate_errors,
)
from headway.ledger.files.paths import split_path
from headway.ledger.parsing.patterns import compile_glob, split_glob

LIST_LIMIT: Final = 500


def list_folder(workspace: str, path: str = ".") -> dict[str, Any]:
    """List the files and folders below a folder, sorted by path."""
    return collect(workspace, split_path(path), Walk())


def list_matches(workspace: str, path: str, glob: str) -> dict[str, Any]:
    """List the files below a folder whose path in it matches a glob, sorted by path."""
    folder, rest = split_glob(glob)
    return collect(
        workspace, [*split_path(path), *(split_path(folder) if folder else ())], Walk(SKIPPED_FOLDERS), compile_glob(rest)
    )


def collect(workspace: str, parts: list[str], walk: Walk, pattern: Any = None) -> dict[str, Any]:
    if not parts and not os.path.isdir(workspace):
        return {"files": []}  # the first write creates the workspace
    prefix = join_prefix(parts)
    files: list[dict[str, Any]] = []
    with translate_errors(prefix.rstrip("/") or "."), open_folder(workspace, parts) as folder:
        for entry in walk.visit(folder, prefix):
            if pattern and (entry.is_folder or not pattern.fullmatch(entry.path[len(prefix) :])):
                continue
            if len(files) == LIST_LIMIT:
                narrower = "use a narrower pattern" if pattern else "list a single folder"
                return {"files": files, "truncated": f"There are more than {LIST_LIMIT} files; {narrower}."}
            with suppress(FileNotFoundError):  # deleted meanwhile
                files.append(describe_entry(entry))
    if walk.is_cut:
        return {"files": files, "truncated": f"There are more than {ENTRIES_LIMIT:,} files; list a single folder."}
    return {"files": files}


def describe_entry(entry: Entry) -> dict[str, Any]:
    if entry.is_folder:
        return {"path": entry.path}
    return {"path": entry.path, "size": os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False).st_size}
