"""`headway guard hook CLIENT`: answers one event of an assistant's hooks. It never stands in the assistant's way.

Most events find nothing to do. That is decided here, without settings, schemas or the ledger. Everything else loads `answers`.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress

from headway.surfaces.guard.events import HookAnswer, HookEvent, parse_event, render_answer
from headway.surfaces.guard.places import find_database, find_home_folder, find_project

INPUT_LIMIT = 32 * 2**20
NOTICE_LIMIT = 300  # characters
NOTHING = HookAnswer()


def run(client: str) -> None:
    """Answer the event on standard input and exit with 0, whatever happens."""
    output, notice = respond(client, sys.stdin.buffer.read(INPUT_LIMIT))
    if client == "cursor" and notice:
        print(notice, file=sys.stderr, flush=True)
    print(output, end="", flush=True)
    os._exit(0)


def respond(client: str, raw: bytes) -> tuple[str, str]:
    """Return what the client reads, and the notice in it for the person."""
    event_name, answer = "", NOTHING
    try:
        event = parse_event(client, raw, os.environ)
        event_name = event.name
        answer = answer_event(event, os.environ)
    except Exception as error:  # noqa: BLE001  the assistant goes on, whatever is wrong with Headway
        answer = HookAnswer(notice=describe_failure(error))
    return render_answer(client, event_name, answer), answer.notice


def describe_failure(error: Exception) -> str:
    message = " ".join(str(error).split())[:NOTICE_LIMIT] or type(error).__name__
    return f"Headway's guard is off for this step: {message}"


def answer_event(event: HookEvent, environment: Mapping[str, str]) -> HookAnswer:
    if not event.kind or event.is_waiting:
        return NOTHING
    home_folder = find_home_folder(event.folder)
    if not home_folder and not environment.get("HEADWAY_HOME"):
        return NOTHING  # Headway is not used in this project
    project = find_project(event.folder)
    if event.kind == "stop" and event.client == "cursor":
        event = event._replace(answer=take_last_words(event.key, environment))
    if is_clear(event, project, find_database(home_folder, environment)):
        return NOTHING
    if event.kind == "words":
        keep_last_words(event.key, event.answer, environment)
        return NOTHING
    from headway.surfaces.guard.answers import answer_loaded  # noqa: PLC0415  loads the ledger

    return answer_loaded(event, project, home_folder)


def is_clear(event: HookEvent, project: str, database: str) -> bool:
    """Whether a look at the database shows that there is nothing to do."""
    if event.kind == "plan" or not database:
        return False
    if not os.path.exists(database):
        return True
    from headway.storage.guard_probe import GuardProbe  # noqa: PLC0415  events of other kinds do not load the driver

    try:
        probe = GuardProbe(database)
        if event.kind == "start":
            return not probe.may_tell(project)
        if event.kind in ("stop", "words"):
            return not probe.may_refuse(event.key, event.agent, project)
        return not probe.has_plan(event.key)
    except OSError:
        return False  # the whole program says what is wrong


LAST_CHARACTERS = 4_000
NAME_LIMIT = 150


def find_words_file(key: str, environment: Mapping[str, str]) -> str:
    state = environment.get("XDG_STATE_HOME", "")
    folder = state if os.path.isabs(state) else os.path.expanduser("~/.local/state")
    name = "".join(character if character.isalnum() or character in "-_" else "." for character in key)
    return os.path.join(folder, "headway", "guard", f"{name[:NAME_LIMIT]}.words")


def keep_last_words(key: str, words: str, environment: Mapping[str, str]) -> None:
    path = find_words_file(key, environment)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
        file.write(words[-LAST_CHARACTERS:])


def take_last_words(key: str, environment: Mapping[str, str]) -> str:
    """Return what was kept, once; empty if there is nothing."""
    path = find_words_file(key, environment)
    with suppress(OSError, ValueError):
        with open(path, encoding="utf-8") as file:
            words = file.read(LAST_CHARACTERS)
        os.unlink(path)
        return words
    return ""
