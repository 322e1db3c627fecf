"""Trust in a folder: Headway uses a folder's files only after the user has agreed to them.

The files are `.env`, and in the home the files of CONTENT. They can run programs, name providers and change what agents may do. A
stranger may have written them: they come with a cloned repository. A home that Headway did not create there also needs agreement,
because its database may contain schedules, tokens and conversations.

A record is a file in the user's state folder, named after the trusted folder. It holds a SHA-256 of each file of CONTENT and of
`.env`, so that a changed, new or removed file needs agreement again. Data changes all the time and is trusted by its place.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from headway.ledger import text
from headway.ledger.errors import SettingsError

HOME = ".headway"
ENV_FILE = ".env"
CONTENT = ("tools", "agents", "skills", "tenants", "mcp.json", "policy.toml", "models.toml", "prices.toml")
ENTRIES_LIMIT = 10_000  # of one folder; links can lead in circles
ENTRIES_SHOWN = 12  # in a message
NAME_LIMIT = 200  # bytes of a record's file name
VARIABLE_LIMIT = 60  # characters of a variable's name in a message
# A .env of an unrelated program is ignored without a word; one with these variables was probably written for Headway.
OWN_PREFIXES = ("HEADWAY_", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "OPENROUTER_", "OLLAMA_", "OTEL_")


class EnvFile(NamedTuple):
    """The parsed `.env` of a folder."""

    variables: Mapping[str, str | None]
    warnings: tuple[str, ...] = ()  # about lines that were not understood
    error: str = ""  # why the whole file cannot be read


class TrustRecord(NamedTuple):
    folder: str
    files: Mapping[str, str]  # digests by name
    trusted_at: int  # in milliseconds


class Inspection(NamedTuple):
    """The contents of a folder that need trust, and what the user agreed to before."""

    folder: str
    env: EnvFile | None = None
    files: Mapping[str, str] = MappingProxyType({})  # digests by name, relative to the folder
    record: TrustRecord | None = None
    home: str = ""
    has_data: bool = False  # whether there is anything in the home

    @property
    def needs_trust(self) -> bool:
        return bool(self.files) or self.has_data

    @property
    def is_trusted(self) -> bool:
        return self.record is not None and self.record.files == self.files

    @property
    def is_env_trusted(self) -> bool:
        return self.record is not None and self.record.files.get(ENV_FILE) == self.files.get(ENV_FILE)

    @property
    def may_be_used(self) -> bool:
        return self.is_trusted or not self.needs_trust

    def list_contents(self) -> list[str]:
        """List what the folder contains, each entry as one safe line."""
        data = [f"{name_file(self.folder, self.home)} (todos, schedules and other data)"] if self.has_data else []
        return [text.to_one_line(entry) for entry in (*(self.describe_file(name) for name in self.files), *data)]

    def list_changes(self) -> list[str]:
        """List how the files differ from what the user agreed to; nothing if there never was an agreement."""
        if self.record is None:
            return []
        before, now = self.record.files, self.files
        changed = [
            f"{self.describe_file(name)}, {'changed' if name in before else 'new'}" for name in now if before.get(name) != now[name]
        ]
        return [text.to_one_line(entry) for entry in (*changed, *(f"{name}, removed" for name in before if name not in now))]

    def describe_file(self, name: str) -> str:
        if name != ENV_FILE or self.env is None:
            return name
        if self.env.error:
            return f"{name} (not readable)"
        names = [name[:VARIABLE_LIMIT] for name in self.env.variables]
        return f"{name} ({len(names)} variable{'s' if len(names) != 1 else ''}{': ' if names else ''}{summarize(names)})"

    def explain_state(self) -> str:
        if changes := self.list_changes():
            return f"{self.folder} has changed since you trusted it: {summarize(changes)}."
        return f"{self.folder} is not trusted: it contains {summarize(self.list_contents())}."

    def explain_refusal(self) -> str:
        return (
            f"{self.explain_state()} Nothing in it was used. Look at these files, then run `headway trust` in that folder. "
            "Or name the home yourself with --home, HEADWAY_HOME or home=…; .env is then not read."
        )


def summarize(entries: list[str]) -> str:
    left_out = len(entries) - ENTRIES_SHOWN
    return ", ".join(entries[:ENTRIES_SHOWN]) + (f" and {left_out:,} more" if left_out > 0 else "")


def inspect(folder: str) -> Inspection:
    """Examine a folder without using anything in it. A folder with nothing to agree to costs two system calls."""
    folder = os.path.realpath(folder)
    inspection = inspect_env(folder)
    home = resolve_home(folder, inspection.env)
    if not list_names(home):
        return inspection._replace(home=home)
    # Asking for each name also finds "Tools" where the file system ignores case.
    tops = [path for path in (os.path.join(home, name) for name in CONTENT) if os.path.lexists(path)]
    files = {name_file(folder, path): compute_digest(path) for top in tops for path in list_files(top)}
    record = inspection.record or find_record(folder)
    return Inspection(folder, inspection.env, {**inspection.files, **files}, record, home, has_data=True)


def inspect_env(folder: str) -> Inspection:
    """Examine only the `.env` of a folder, because its home is not used."""
    if not os.path.isfile(os.path.join(folder, ENV_FILE)):
        return Inspection(folder)
    folder = os.path.realpath(folder)
    path = os.path.join(folder, ENV_FILE)
    env = parse_env(path)
    return Inspection(folder, env, {ENV_FILE: "" if env.error else compute_digest(path)}, find_record(folder))


def resolve_home(folder: str, env: EnvFile | None) -> str:
    name = env and env.variables.get("HEADWAY_HOME")
    return os.path.normpath(os.path.join(folder, os.path.expanduser(name if name and "\0" not in name else HOME)))


def name_file(folder: str, path: str) -> str:
    """Return the path relative to the folder, if it is below it."""
    return path.removeprefix(os.path.join(folder, ""))


def list_names(home: str) -> list[str]:
    try:
        return os.listdir(home)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SettingsError(f"The folder {home} cannot be read: {error.strerror}.") from None


def list_files(top: str) -> list[str]:
    """List all files below a path, sorted. Links are followed, because the files behind them are used."""
    pending, found = [top], []
    for path in pending:
        if len(pending) > ENTRIES_LIMIT:
            raise SettingsError(f"{top} contains more than {ENTRIES_LIMIT:,} files, or links that lead in circles.")
        if os.path.isdir(path):
            pending += [os.path.join(path, name) for name in list_names(path)]
        else:
            found.append(path)
    return sorted(found)


def compute_digest(path: str) -> str:
    """Return the SHA-256 of a file, or an empty string for something that is not a file, such as a link to nothing."""
    from hashlib import file_digest  # noqa: PLC0415  most folders contain nothing to hash

    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None


# The .env file


def parse_env(path: str) -> EnvFile:
    """Parse a .env file. This applies nothing: it only returns the variables."""
    import logging  # noqa: PLC0415  most folders have no .env, and every command would pay for loading these

    from dotenv import dotenv_values  # noqa: PLC0415

    warnings: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        warnings.append(record.getMessage())
        return False

    parser = logging.getLogger("dotenv.main")
    parser.addFilter(collect)
    try:
        return EnvFile(dotenv_values(path, interpolate=False), tuple(warnings))
    except (OSError, UnicodeDecodeError) as error:
        return EnvFile({}, error=str(error))
    finally:
        parser.removeFilter(collect)


def use_env(inspection: Inspection) -> Mapping[str, str | None]:
    """Return the variables of a trusted folder's `.env`, and report the lines that were not understood."""
    if inspection.env is None:
        return {}
    if inspection.env.error:
        raise SettingsError(f"The file .env cannot be read: {inspection.env.error}")
    for warning in inspection.env.warnings:
        warn(f"{os.path.join(inspection.folder, ENV_FILE)}: {warning}")
    return inspection.env.variables


def ignore_env(inspection: Inspection) -> Mapping[str, str | None]:
    """Return no variables, and say so if the file was probably written for Headway."""
    if inspection.env is not None and any(name.startswith(OWN_PREFIXES) for name in inspection.env.variables):
        path = os.path.join(inspection.folder, ENV_FILE)
        warn_once(f"{path} is not read, because its folder is not trusted. Run `headway trust` there to use it.")
    return {}


def warn(message: str) -> None:
    import logging  # noqa: PLC0415

    logging.getLogger("headway.trust").warning("headway: %s", text.to_one_line(message))


warn_once = cache(warn)


# Records


def find_state_folder() -> str:
    """Return the folder of the records. It never comes from a .env file."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # the specification says to ignore it
        state = os.path.expanduser("~/.local/state")
    if not os.path.isabs(state):
        raise SettingsError(
            "The folder for trusted folders is unknown, because HOME is not set. Set XDG_STATE_HOME or HEADWAY_HOME."
        )
    return os.path.join(state, "headway", "trusted")


def build_record_path(folder: str) -> str:
    name = folder.replace("%", "%25").replace("/", "%2F")
    if len(os.fsencode(name)) > NAME_LIMIT:
        from hashlib import sha256  # noqa: PLC0415  only for long paths

        name = sha256(os.fsencode(folder)).hexdigest()
    return os.path.join(find_state_folder(), f"{name}.json")


def find_record(folder: str) -> TrustRecord | None:
    record = read_record(build_record_path(folder))
    return record if record is not None and record.folder == folder else None


def read_record(path: str) -> TrustRecord | None:
    """Read a record. One that is damaged counts as missing: the user is asked again."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        return TrustRecord(str(document["folder"]), dict(document["files"]), int(document["trusted_at"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    except OSError as error:
        raise SettingsError(
            f"The record of a trusted folder cannot be read: {path}: {error.strerror}. "
            "Check its owner, or set XDG_STATE_HOME to a folder that you can write to."
        ) from None


def list_records() -> list[TrustRecord]:
    state = find_state_folder()
    records = [read_record(os.path.join(state, name)) for name in list_names(state) if name.endswith(".json")]
    return sorted(record for record in records if record is not None)


def record_trust(inspection: Inspection) -> None:
    """Record that the user agreed to what was inspected. Files that changed since then need agreement again."""
    with lock_records():
        write_record(inspection.folder, inspection.files)


def record_new_home(inspection: Inspection, home: str) -> None:
    """Record the folder in which Headway is about to create the home, so that the home is not taken for a stranger's."""
    if inspection.home:
        if not inspection.has_data:
            record_if_new(inspection)
    elif os.path.basename(home) == HOME:
        with suppress(SettingsError):  # a home that was named is used with or without a record
            if not list_names(home) and not (found := inspect(os.path.dirname(home))).needs_trust:
                record_if_new(found)


def record_if_new(inspection: Inspection) -> None:
    record = inspection.record or find_record(inspection.folder)
    if record is None or record.files != inspection.files:
        record_trust(inspection)


def revoke_trust(folder: str) -> bool:
    """Forget a folder, and return whether it was recorded."""
    folder = os.path.realpath(folder)
    if find_record(folder) is None:
        return False
    with lock_records(), suppress(FileNotFoundError):
        os.remove(build_record_path(folder))
    return True


@contextmanager
def keep_trust(path: str) -> Iterator[None]:
    """Change a file of a home inside this block, and the folder stays trusted, if it was trusted with the file as it was before.

    Use it where Headway itself changes such a file. Other processes wait until the block ends.
    """
    path = os.path.abspath(path)
    folders = {os.path.realpath(folder) for folder in (os.getcwd(), os.path.dirname(os.path.dirname(path)))}
    if not any(map(find_record, folders)):  # the home was named explicitly: there is no record to update
        yield
        return
    with lock_records():
        before = compute_digest(path)
        records = [record for record in map(find_record, folders) if record is not None]
        current = [record for record in records if record.files.get(name_file(record.folder, path), "") == before]
        yield
        after = compute_digest(path)
        for record in current:
            write_record(record.folder, {**record.files, name_file(record.folder, path): after})


def write_record(folder: str, files: Mapping[str, str]) -> None:
    path = build_record_path(folder)
    document = json.dumps({"folder": folder, "files": dict(files), "trusted_at": int(time.time() * 1000)}, indent=1)
    scratch = f"{path}.tmp"
    with explain_errors(), open(scratch, "w", encoding="utf-8", opener=open_private) as file:
        file.write(document)
    with explain_errors():
        os.replace(scratch, path)


def open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def lock_records() -> Iterator[None]:
    """Wait until no other process changes records."""
    import fcntl  # noqa: PLC0415  only needed to write

    state = find_state_folder()
    with explain_errors():
        os.makedirs(state, mode=0o700, exist_ok=True)
        handle = os.open(os.path.join(state, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def explain_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path = error.filename or find_state_folder()
        raise SettingsError(
            f"The record of a trusted folder cannot be written: {path}: {error.strerror}. "
            "Set XDG_STATE_HOME to a folder that you can write to, or name the home with --home or HEADWAY_HOME."
        ) from None
