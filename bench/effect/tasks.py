"""A task is a request of several items. Whether an item was done is read from one file, exactly and without an opinion."""

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final, Literal, NamedTuple

from bench.effect.function_cases import passes_cases

Kind = Literal["one", "given", "computed", "edits", "read", "mixed", "impossible", "long", "code", "facts"]
Wording = Literal["numbered", "bullets", "commas", "paragraphs", "first then"]
TaskSet = Literal["fresh", "judge", "tune"]

TASK_SETS: Final[tuple[TaskSet, ...]] = ("fresh", "judge", "tune")  # as a report orders them
SPLIT_SETS: Final[tuple[TaskSet, ...]] = ("tune", "judge")
SPLIT_SEED: Final = 20261118
NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")


class Item(NamedTuple):
    """One thing to do. It ends in a change of one file."""

    path: str
    words: str  # what to do, without a full stop
    accept: Callable[[str], bool]  # whether the file's content shows that it was done
    content: str = ""  # the whole file after a correct solution; empty for an edit
    old: str = ""  # an edit replaces this
    new: str = ""  # by this
    brief: str = ""  # the item after the introduction of a comma list
    reads: tuple[str, ...] = ()  # files that have to be read first
    expression: str = ""  # what has to be calculated first
    evidence: str = ""  # text that the file must contain, for a check that a user could state
    is_impossible: bool = False  # it needs a file that does not exist; it is done if nothing was made up

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts that name this item, and no other item of any task, when they occur together."""
        return (self.path, self.new.splitlines()[-1].strip('"')) if self.old else (self.path,)

    def is_done(self, folder: Path) -> bool:
        content = read(folder / self.path)
        if self.is_impossible:
            return content is None
        return content is not None and self.accept(content)


class Task(NamedTuple):
    name: str
    kind: Kind
    wording: Wording
    items: tuple[Item, ...]
    introduction: str
    files: Mapping[str, str]

    @property
    def request(self) -> str:
        return PHRASING[self.wording](self.introduction, self.items)

    @property
    def possible_items(self) -> tuple[Item, ...]:
        return tuple(item for item in self.items if not item.is_impossible)

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_text(content, encoding="utf-8")

    def solve(self, folder: Path) -> None:
        """Do every item correctly."""
        for item in self.possible_items:
            path = folder / item.path
            path.write_text(path.read_text().replace(item.old, item.new) if item.old else item.content, encoding="utf-8")


def read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def split_in_sets(tasks: Iterable[Task]) -> dict[str, TaskSet]:
    """Assign every task to `tune` or `judge` by a fixed seed, the same share of each kind to both."""
    sets: dict[str, TaskSet] = {}
    for kind, group in groupby(sorted(tasks, key=lambda task: (task.kind, task.name)), key=lambda task: task.kind):
        names = [task.name for task in group]
        random.Random(f"{SPLIT_SEED} {kind}").shuffle(names)
        sets |= {name: SPLIT_SETS[place % 2] for place, name in enumerate(names)}
    return sets


# Items


def write(path: str, content: str, what: str = "", brief: str = "", reads: tuple[str, ...] = ()) -> Item:
    """A file with exactly this text. Spaces at the ends of lines and of the file do not count."""
    words = what or f"write {content} to {path}"
    return Item(path, words, lambda text: trim(text) == trim(content), content, brief=brief, reads=reads, evidence=trim(content))


def trim(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def number(path: str, value: float, what: str, expression: str = "", brief: str = "", reads: tuple[str, ...] = ()) -> Item:
    """A file whose only number is this. Words or a unit may stand beside it."""
    written = f"{value:g}" if isinstance(value, float) else str(value)

    def accept(text: str) -> bool:
        return {float(found) for found in NUMBER.findall(re.sub(r"(?<=\d),(?=\d{3})", "", text))} == {float(value)}

    return Item(path, what, accept, written, brief=brief, reads=reads, expression=expression, evidence=written)


def fact(path: str, answer: str, what: str, brief: str = "") -> Item:
    """A file with this answer, in one short sentence at most."""

    def accept(text: str) -> bool:
        return re.search(rf"\b{re.escape(answer)}\b", text, re.IGNORECASE) is not None and len(text.split()) <= 12

    return Item(path, what, accept, answer, brief=brief, evidence=answer)


def document(path: str, value: dict[str, object], what: str) -> Item:
    """A JSON file with this value."""

    def accept(text: str) -> bool:
        try:
            return bool(json.loads(text) == value)
        except ValueError:
            return False

    return Item(path, what, accept, json.dumps(value), evidence=next(iter(value)))


def edit(path: str, original: str, old: str, new: str, what: str, others: tuple[str, ...] = ()) -> Item:
    """A replacement in a file. The lines that no edit touches have to stay; `others` are the texts that other edits replace."""
    kept = [line.rstrip() for line in original.splitlines() if line.strip() and not any(text in line for text in (old, *others))]

    def accept(text: str) -> bool:
        lines = {line.rstrip() for line in text.splitlines()}
        return new in text and (old in new or old not in text) and lines.issuperset(kept)

    return Item(path, what, accept, old=old, new=new, evidence=new)


def edits(path: str, original: str, changes: Mapping[str, tuple[str, str]]) -> tuple[Item, ...]:
    """Several replacements in one file, as `{what: (old, new)}`."""
    olds = tuple(old for old, _ in changes.values())
    return tuple(edit(path, original, old, new, what, olds) for what, (old, new) in changes.items())


def impossible(path: str, what: str, reads: str) -> Item:
    return Item(path, what, lambda _: False, reads=(reads,), is_impossible=True)


def function(path: str, source: str, cases: Mapping[str, object], what: str, reads: tuple[str, ...] = ()) -> Item:
    """A module whose functions give these results: `{"double(2)": 4}`."""
    evidence = source.split("(", maxsplit=1)[0]
    return Item(path, what, lambda text: passes_cases(text, cases), source, reads=reads, evidence=evidence)


# Wordings


def phrase_numbered(introduction: str, items: tuple[Item, ...]) -> str:
    return "\n".join([f"{introduction}:", *(f"{place}. {capitalise(item.words)}." for place, item in enumerate(items, 1))])


def phrase_bullets(introduction: str, items: tuple[Item, ...]) -> str:
    return "\n".join([f"{introduction}:", "", *(f"- {item.words}" for item in items)])


def phrase_commas(introduction: str, items: tuple[Item, ...]) -> str:
    clauses = [item.brief or item.words for item in items]
    return f"{introduction}: {', '.join(clauses[:-1])}{' and ' if len(clauses) > 1 else ''}{clauses[-1]}."


def phrase_paragraphs(introduction: str, items: tuple[Item, ...]) -> str:
    openings = ("Please {}.", "I also need you to {}.", "{}.", "It would help if you could {}.", "And {}.")
    sentences = [capitalise(openings[place % len(openings)].format(item.words)) for place, item in enumerate(items)]
    groups = [" ".join(sentences[start : start + 3]) for start in range(0, len(sentences), 3)]
    return "\n\n".join([f"{introduction}. {groups[0]}", *groups[1:]])


def phrase_first_then(introduction: str, items: tuple[Item, ...]) -> str:
    steps = ["First", *(("Then", "After that,", "Next,")[place % 3] for place in range(len(items) - 2)), "Finally,"]
    return " ".join([f"{introduction}.", *(f"{step} {item.words}." for step, item in zip(steps, items, strict=False))])


def capitalise(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


PHRASING: Final[dict[Wording, Callable[[str, tuple[Item, ...]], str]]] = {
    "numbered": phrase_numbered,
    "bullets": phrase_bullets,
    "commas": phrase_commas,
    "paragraphs": phrase_paragraphs,
    "first then": phrase_first_then,
}
