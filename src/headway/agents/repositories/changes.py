"""What a run changed in its repository: the files, with the number of lines, and the diff."""

from typing import Any, Final, NamedTuple

from headway.agents.repositories.git import Git
from headway.ledger.text import to_storable

DIFF_LIMIT: Final = 50_000  # characters
FILES_LIMIT: Final = 200
COMPARE: Final = ("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")


class FileChange(NamedTuple):
    path: str
    added: int | None  # lines; None for a binary file
    deleted: int | None
    renamed_from: str = ""

    def as_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"path": self.path, "added": self.added, "deleted": self.deleted}
        return {**document, "renamed_from": self.renamed_from} if self.renamed_from else document


def list_files(git: Git, base: str, commit: str) -> list[FileChange]:
    fields = iter(git.run(*COMPARE, "--numstat", "-z", base, commit).fields)
    files = []
    for field in fields:
        added, deleted, path = field.split("\t", 2)
        before = "" if path else next(fields, "")  # of a renamed file, both names follow
        names = to_storable_path(path or next(fields, "")), to_storable_path(before)
        files.append(FileChange(names[0], to_count(added), to_count(deleted), names[1]))
    return files


def to_count(number: str) -> int | None:
    return int(number) if number.isdigit() else None


def to_storable_path(path: str) -> str:
    return to_storable(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def render_diff(git: Git, base: str, commit: str) -> str:
    output = git.run(*COMPARE, "--patch", "--no-color", base, commit, limit=4 * DIFF_LIMIT)
    diff = to_storable(output.data.decode("utf-8", "replace"))
    if len(diff) <= DIFF_LIMIT and not output.is_cut:
        return diff
    return f"{diff[:DIFF_LIMIT]}\n… (cut after {DIFF_LIMIT:,} characters; git diff {base[:12]} {commit[:12]} shows all of it)\n"
