"""The last words of an assistant whose client tells them in one event and the stop in another. Imports next to nothing, for quick
hooks. They are kept among the user's own state from one event to the other, and nowhere else."""

import os
from collections.abc import Mapping
from contextlib import suppress

LAST_CHARACTERS = 4_000
NAME_LIMIT = 150


def find_file(key: str, environment: Mapping[str, str]) -> str:
    state = environment.get("XDG_STATE_HOME", "")
    folder = state if os.path.isabs(state) else os.path.expanduser("~/.local/state")
    name = "".join(character if character.isalnum() or character in "-_" else "." for character in key)
    return os.path.join(folder, "headway", "guard", f"{name[:NAME_LIMIT]}.words")


def keep(key: str, words: str, environment: Mapping[str, str]) -> None:
    path = find_file(key, environment)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
        file.write(words[-LAST_CHARACTERS:])


def take(key: str, environment: Mapping[str, str]) -> str:
    """Return what was kept, once; empty if there is nothing."""
    path = find_file(key, environment)
    with suppress(OSError, ValueError):
        with open(path, encoding="utf-8") as file:
            words = file.read(LAST_CHARACTERS)
        os.unlink(path)
        return words
    return ""
