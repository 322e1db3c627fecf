"""Skills: folders with a SKILL.md that describe how to do a kind of work. Models see their names and descriptions, and read the
rest with read_skill.

They are the operator's files. Agents cannot write them: they are in the home, not in a workspace.
"""

import json
import logging
import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from headway.agents.tools.files import contents, search
from headway.ledger.errors import HeadwayError, Invalid, NotFound
from headway.ledger.text import to_one_line

log = logging.getLogger("headway.skills")

FOLDER: Final = "skills"
TENANTS: Final = "tenants"  # holds one folder per tenant, named by its id
FILE_NAME: Final = "SKILL.md"
FENCE: Final = "---"
NAME_LIMIT: Final = 64
FILES_LIMIT: Final = 100  # files that read_skill lists
NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
BLOCK_MARKS: Final = frozenset(style + ending for style in ">|" for ending in ("", "-", "+"))
UNQUOTED_SIGNS: Final = "[]{}&*!%@`,?|>"  # with these at the beginning, YAML means something other than text


class Skill(NamedTuple):
    name: str
    description: str
    folder: str


class LoadedSkills(NamedTuple):
    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()  # of the skills that are skipped


class SkillFolders:
    """The skills of all tenants. They are read once, when a tenant's agent first needs them."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.common: tuple[Skill, ...] | None = None
        self.by_tenant: dict[int, tuple[Skill, ...]] = {}

    def find(self, tenant_id: int) -> tuple[Skill, ...]:
        """Return the skills of a tenant, sorted. A tenant's own skill replaces one of the home with the same name."""
        known = self.by_tenant.get(tenant_id)
        if known is None:
            if self.common is None:
                self.common = load_and_report(os.path.join(self.home, FOLDER))
            own = load_and_report(build_tenant_path(self.home, tenant_id))
            by_name = {skill.name: skill for skill in (*self.common, *own)}
            known = self.by_tenant[tenant_id] = tuple(by_name[name] for name in sorted(by_name))
        return known


def build_tenant_path(home: str, tenant_id: int | str) -> str:
    return os.path.join(home, TENANTS, str(tenant_id), FOLDER)


def list_folders(home: str) -> Iterator[tuple[str, str]]:
    """Yield all folders of skills, each with the id of its tenant; an empty one for the skills of all tenants."""
    yield "", os.path.join(home, FOLDER)
    for name in list_names(os.path.join(home, TENANTS)):
        yield name, build_tenant_path(home, name)


def load_and_report(folder: str) -> tuple[Skill, ...]:
    loaded = load(folder)
    for problem in loaded.problems:
        log.warning("skipped a skill: %s", problem)
    return loaded.skills


def load(folder: str) -> LoadedSkills:
    """Load the skills in a folder; none if it does not exist. A broken one is skipped."""
    skills, problems = [], []
    for name in list_names(folder):
        path = os.path.join(folder, name)
        if name.startswith(".") or not os.path.isdir(path):
            continue
        try:
            skills.append(load_skill(path, name))
        except HeadwayError as error:
            problems.append(to_one_line(f"{os.path.join(path, FILE_NAME)}: {error}"))
    return LoadedSkills(tuple(skills), tuple(problems))


def list_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        log.warning("the folder %s cannot be read: %s", folder, error.strerror)
        return []


def read_file(folder: str, path: str) -> dict[str, Any]:
    """Read a text file in a skill's folder. Paths and links cannot lead outside."""
    try:
        return contents.read(folder, path)
    except (Invalid, NotFound) as error:
        raise type(error)(str(error).replace("the workspace", "the skill's folder")) from None


def list_other_files(skill: Skill) -> list[str]:
    """List the files of a skill besides SKILL.md, by path."""
    listed = [file["path"] for file in search.list_folder(skill.folder)["files"] if "size" in file]
    return [path for path in listed if path != FILE_NAME][:FILES_LIMIT]


def load_skill(folder: str, folder_name: str) -> Skill:
    fields = parse_front_matter(read_file(folder, FILE_NAME)["content"])
    name, description = parse_text(fields, "name"), parse_text(fields, "description")
    if len(name) > NAME_LIMIT or not NAME_CHARACTERS.issuperset(name):
        raise Invalid(f"name: use at most {NAME_LIMIT} letters, digits, hyphens, underscores and dots.")
    if name != folder_name:
        raise Invalid(f"name: {name} is not the name of the folder, {folder_name}.")
    return Skill(name, description, folder)


# The front matter: `key: value` lines in YAML, of which only texts are read


def parse_front_matter(content: str) -> dict[str, list[str]]:
    """Return the lines of each value, the first without its key. Values that are not text are not examined."""
    lines = [line.rstrip() for line in content.removeprefix("\ufeff").split("\n")]
    if lines[0] != FENCE or FENCE not in lines[1:]:
        raise Invalid(f"The file must begin with its name and description, between two lines {FENCE}.")
    values: dict[str, list[str]] = {}
    current: list[str] = []
    for number, line in enumerate(lines[1 : lines.index(FENCE, 1)], 2):
        if line.startswith((" ", "\t", "-")) or not line:
            if line and not values:
                raise Invalid(f"Line {number}: expected `key: value`.")
            current.append(line.strip())
        elif not line.startswith("#"):
            key, colon, value = line.partition(":")
            if not colon or (value and not value.startswith((" ", "\t"))):
                raise Invalid(f"Line {number}: expected `key: value`.")
            if key in values:
                raise Invalid(f"Line {number}: {key[:80]} is there twice.")
            current = values[key] = [value.strip()]
    return values


def parse_text(values: dict[str, list[str]], key: str) -> str:
    """Return a value as one line: plain, in quotes, or in the lines that follow."""
    first, *rest = values.get(key, [""])
    is_block = first in BLOCK_MARKS
    text = " ".join(line for line in (*([] if is_block else [first]), *rest) if line)
    if not is_block:
        text = parse_quoted(text, key) if text.startswith(('"', "'")) else parse_plain(text, key)
    text = to_one_line(text).strip()
    if not text:
        raise Invalid(f"{key} is missing.")
    return text


def parse_quoted(text: str, key: str) -> str:
    if text.startswith('"'):
        try:
            return str(json.loads(text, strict=False))
        except ValueError:
            raise Invalid(f"{key}: the text in double quotes is not valid.") from None
    inner = text[1:-1].replace("''", "\0")
    if len(text) < 2 or not text.endswith("'") or "'" in inner:
        raise Invalid(f"{key}: the text in single quotes is not valid.")
    return inner.replace("\0", "'")


def parse_plain(text: str, key: str) -> str:
    if text.startswith(tuple(UNQUOTED_SIGNS)):
        raise Invalid(f"{key} must be text. Put it in quotes if it begins with {text[0]}.")
    return text.partition(" #")[0] if not text.startswith("#") else ""
