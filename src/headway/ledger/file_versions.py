"""The versions of files that agents write: their paths, their limits, and the difference between two of them."""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.attachment import PLAIN_TEXT, detect_binary_type, is_utf8_text

# written: by a tool that writes files. changed, deleted: the file after a program had run. found: before an agent wrote it.
Change = Literal["written", "changed", "deleted", "found"]

CONTENT_LIMIT: Final = 5_000_000  # bytes of one version that are kept
CALL_LIMIT: Final = 10_000_000  # bytes that one tool call adds
FILES_PER_CALL: Final = 200
ID_LENGTH: Final = 32
UNKNOWN_TYPE: Final = "application/octet-stream"


class WrittenFile(NamedTuple):
    """The change of one file by a tool."""

    path: str  # in the workspace
    change: Change
    size: int = 0
    sha256: str = ""  # empty: deleted, or too large to read
    media_type: str = ""
    data: bytes | None = None  # None if it was not kept
    renamed_from: str = ""
    before: bytes | None = None  # the content that was replaced, if the tool has read it


class WrittenFiles(NamedTuple):
    """The changes of files by one tool call."""

    files: tuple[WrittenFile, ...] = ()
    omitted: int = 0  # further files that were changed, beyond the limits


class FileOrigin(NamedTuple):
    """Who wrote a version: a tool that an agent called."""

    tool: str = ""
    role: str = ""
    run_id: str = ""
    turn_id: str = ""
    goal_id: int = 0
    sub_goal_id: int = 0
    conversation_id: int = 0


class FileVersion(NamedTuple):
    """One version of a file, without its content."""

    file_id: str
    n: int
    change: Change
    size: int
    sha256: str
    media_type: str
    renamed_from: str
    at: int
    is_kept: bool  # whether the content is stored
    origin: FileOrigin

    @property
    def is_text(self) -> bool:
        return self.media_type == PLAIN_TEXT

    def as_json(self) -> dict[str, Any]:
        origin = self.origin
        return {
            "n": self.n,
            "change": self.change,
            "size": self.size,
            "sha256": self.sha256 or None,
            "media_type": self.media_type or None,
            "is_kept": self.is_kept,
            "renamed_from": self.renamed_from or None,
            "at": self.at // 1000,
            "tool": origin.tool,
            "role": origin.role,
            "run_id": origin.run_id or None,
            "turn_id": origin.turn_id or None,
            "goal_id": origin.goal_id or None,
            "sub_goal_id": origin.sub_goal_id or None,
            "conversation_id": origin.conversation_id or None,
        }


class StoredFile(NamedTuple):
    """A file with one of its versions: the newest, or the newest that a list asks for."""

    id: str
    workspace: str  # empty: the tenant's; otherwise a repository and its branch, or the folder of a conversation
    path: str
    latest: int  # the number of the newest version
    created_at: int
    updated_at: int
    version: FileVersion

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "workspace": self.workspace,
            "path": self.path,
            "latest": self.latest,
            "created_at": self.created_at // 1000,
            "updated_at": self.updated_at // 1000,
            "version": self.version.as_json(),
        }


class FileSelection(NamedTuple):
    """A filter for the files of a tenant. A turn, goal, sub-goal, conversation or role has the files it wrote a version of."""

    turn_id: str = ""
    goal_id: int = 0
    conversation_id: int = 0
    role: str = ""
    path: str = ""  # this file, or the files below this folder
    query: str = ""  # a part of the path, in any case
    sub_goal_id: int = 0


def build_file_id(tenant_id: int, workspace: str, path: str) -> str:
    """Return the id of a file. It derives from the path, so that processes which write the same file agree on it."""
    return hashlib.sha256(f"{tenant_id}\0{workspace}\0{path}".encode()).hexdigest()[:ID_LENGTH]


def describe_data(data: bytes) -> tuple[int, str, str]:
    """Return the size, the SHA-256 and the media type of a content."""
    return len(data), hashlib.sha256(data).hexdigest(), detect_type(data)


def detect_type(data: bytes) -> str:
    """Return the media type of a content. Every text is plain text, because a browser would run scripts in some others."""
    return detect_binary_type(data) or (PLAIN_TEXT if is_utf8_text(data) else UNKNOWN_TYPE)


def build_written(path: str, data: bytes, before: bytes | None = None) -> WrittenFile:
    """Describe a file that a tool has written whole."""
    size, sha256, media_type = describe_data(data)
    return WrittenFile(path, "written", size, sha256, media_type, data, before=before)


# Compares two texts line by line, in bounded time, and returns hunks as a unified diff has them.


CONTEXT_LINES: Final = 3
EXACT_LIMIT: Final = 40_000  # lines of one text times lines of the other that are compared exactly
WORK_LIMIT: Final = 2_000_000  # lines that are looked at in all
SHOWN_LINES: Final = 5_000
SHOWN_CHARACTERS: Final = 500_000

LineKind = Literal["same", "added", "deleted"]


class Range(NamedTuple):
    """A part of the old text and a part of the new one."""

    old: int
    old_end: int
    new: int
    new_end: int


class DiffLine(NamedTuple):
    kind: LineKind
    text: str
    has_newline: bool = True  # False only for the last line of a text


class Hunk(NamedTuple):
    old_start: int  # the number of its first line; of the line before it if the hunk has no line of that text
    old_lines: int
    new_start: int
    new_lines: int
    lines: tuple[DiffLine, ...]

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"lines": [line._asdict() for line in self.lines]}


class Comparison(NamedTuple):
    added: int
    deleted: int
    hunks: tuple[Hunk, ...]
    is_cut: bool  # the hunks do not show everything

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"hunks": [hunk.as_json() for hunk in self.hunks]}


def compare(old_text: str, new_text: str) -> Comparison:
    old, new = split_lines(old_text), split_lines(new_text)
    changes = list(list_changes(old, new))
    added = sum(change.new_end - change.new for change in changes)
    deleted = sum(change.old_end - change.old for change in changes)
    hunks: list[Hunk] = []
    lines = characters = 0
    for group in group_changes(changes):
        hunk = build_hunk(old, new, group)
        lines += len(hunk.lines)
        characters += sum(len(line.text) for line in hunk.lines)
        if lines > SHOWN_LINES or characters > SHOWN_CHARACTERS:
            return Comparison(added, deleted, (*hunks, *cut_hunk(hunk, is_first=not hunks)), is_cut=True)
        hunks.append(hunk)
    return Comparison(added, deleted, tuple(hunks), is_cut=False)


def cut_hunk(hunk: Hunk, *, is_first: bool) -> tuple[Hunk, ...]:
    """Return the beginning of the hunk that exceeds the limits, if it is the only one."""
    if not is_first:
        return ()
    kept: list[DiffLine] = []
    room = SHOWN_CHARACTERS
    for line in hunk.lines[:SHOWN_LINES]:
        kept.append(line._replace(text=line.text[:room]))
        room -= len(line.text)
        if room <= 0:
            break
    old_lines = sum(line.kind != "added" for line in kept)
    new_lines = sum(line.kind != "deleted" for line in kept)
    return (hunk._replace(old_lines=old_lines, new_lines=new_lines, lines=tuple(kept)),)


def split_lines(text: str) -> list[str]:
    """Split at line feeds only, which are kept."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def list_changes(old: list[str], new: list[str]) -> Iterator[Range]:
    """Yield the parts that differ, in order."""
    old_at = new_at = 0
    for match in [*sorted(find_matches(old, new)), Range(len(old), len(old), len(new), len(new))]:
        if match.old > old_at or match.new > new_at:
            yield Range(old_at, match.old, new_at, match.new)
        old_at, new_at = match.old_end, match.new_end


def find_matches(old: list[str], new: list[str]) -> list[Range]:
    """Find parts that are equal in both texts."""
    from difflib import SequenceMatcher  # noqa: PLC0415  commands about todos compare no files

    matches: list[Range] = []
    pending = [Range(0, len(old), 0, len(new))]
    work = 0
    while pending:
        part = trim(old, new, pending.pop(), matches)
        old_size, new_size = part.old_end - part.old, part.new_end - part.new
        if not (old_size and new_size):
            continue
        work += old_size + new_size
        if work > WORK_LIMIT:
            continue
        if anchors := find_anchors(old, new, part):
            pending += list_gaps(part, anchors)
            matches += [Range(i, i + 1, j, j + 1) for i, j in anchors]
        elif old_size * new_size <= EXACT_LIMIT:
            work += old_size * new_size // 20
            blocks = SequenceMatcher(None, old[part.old : part.old_end], new[part.new : part.new_end], autojunk=False)
            matches += [
                Range(part.old + i, part.old + i + size, part.new + j, part.new + j + size)
                for i, j, size in blocks.get_matching_blocks()
                if size
            ]
    return matches


def trim(old: list[str], new: list[str], part: Range, matches: list[Range]) -> Range:
    """Add the equal beginning and end of a part to the matches, and return what is between them."""
    i, i_end, j, j_end = part
    while i < i_end and j < j_end and old[i] == new[j]:
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and old[i_end - 1] == new[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
    if i > part.old:
        matches.append(Range(part.old, i, part.new, j))
    if i_end < part.old_end:
        matches.append(Range(i_end, part.old_end, j_end, part.new_end))
    return Range(i, i_end, j, j_end)


def find_anchors(old: list[str], new: list[str], part: Range) -> list[tuple[int, int]]:
    """Return the lines that occur once in both parts and are in the same order there: a longest such sequence."""
    old_counts = Counter(old[part.old : part.old_end])
    new_counts = Counter(new[part.new : part.new_end])
    places = {new[j]: j for j in range(part.new, part.new_end) if new_counts[new[j]] == 1}
    pairs = [(i, places[old[i]]) for i in range(part.old, part.old_end) if old_counts[old[i]] == 1 and old[i] in places]
    tails: list[int] = []  # the smallest end of an increasing sequence of each length
    ends: list[int] = []  # the pair that is this end
    previous = [-1] * len(pairs)
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        previous[index] = ends[length - 1] if length else -1
        tails[length : length + 1] = [j]
        ends[length : length + 1] = [index]
    anchors = []
    index = ends[-1] if ends else -1
    while index >= 0:
        anchors.append(pairs[index])
        index = previous[index]
    return anchors[::-1]


def list_gaps(part: Range, anchors: list[tuple[int, int]]) -> Iterator[Range]:
    """Yield the parts between anchors."""
    i, j = part.old, part.new
    for anchor_i, anchor_j in anchors:
        yield Range(i, anchor_i, j, anchor_j)
        i, j = anchor_i + 1, anchor_j + 1
    yield Range(i, part.old_end, j, part.new_end)


def group_changes(changes: list[Range]) -> Iterator[list[Range]]:
    """Yield changes together whose lines of context touch."""
    group: list[Range] = []
    for change in changes:
        if group and change.old - group[-1].old_end > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def build_hunk(old: list[str], new: list[str], changes: list[Range]) -> Hunk:
    first, last = changes[0], changes[-1]
    before = min(CONTEXT_LINES, first.old)
    after = min(CONTEXT_LINES, len(old) - last.old_end)
    lines = islice(iter_lines(old, new, changes, first.old - before, last.old_end + after), SHOWN_LINES + 1)
    old_lines = last.old_end + after - first.old + before
    new_lines = last.new_end + after - first.new + before
    return Hunk(
        first.old - before + (1 if old_lines else 0),
        old_lines,
        first.new - before + (1 if new_lines else 0),
        new_lines,
        tuple(lines),
    )


def iter_lines(old: list[str], new: list[str], changes: list[Range], start: int, end: int) -> Iterator[DiffLine]:
    """Yield the lines of the old text from `start` to `end`, with the changes."""
    at = start
    for change in changes:
        yield from (build_line("same", old[i]) for i in range(at, change.old))
        yield from (build_line("deleted", old[i]) for i in range(change.old, change.old_end))
        yield from (build_line("added", new[j]) for j in range(change.new, change.new_end))
        at = change.old_end
    yield from (build_line("same", old[i]) for i in range(at, end))


def build_line(kind: LineKind, line: str) -> DiffLine:
    return DiffLine(kind, line[:-1]) if line.endswith("\n") else DiffLine(kind, line, has_newline=False)
