"""The folders of an assistant: its project, and the home with the project's ledger. Imports next to nothing, for quick hooks."""

import os
from collections.abc import Mapping

HOME = ".headway"
MARKS = (HOME, ".git")  # what the top folder of a project contains


def list_above(folder: str) -> list[str]:
    """List a folder and the folders above it, from the inside out."""
    path = os.path.realpath(folder)
    folders = [path]
    while (parent := os.path.dirname(path)) != path:
        folders.append(path := parent)
    return folders


def find_home_folder(folder: str) -> str:
    """Return the nearest folder, from this one upwards, that contains a home; empty if none does."""
    return next((above for above in list_above(folder) if os.path.isdir(os.path.join(above, HOME))), "")


def find_project(folder: str) -> str:
    """Return the top folder of the project that a folder belongs to: the nearest one with a home or a repository, or itself."""
    folders = list_above(folder)
    return next((above for above in folders if any(os.path.exists(os.path.join(above, mark)) for mark in MARKS)), folders[0])


def find_database(home_folder: str, environment: Mapping[str, str]) -> str:
    """Return the path of the SQLite database if nothing but its place has to be known; empty if the settings have to be loaded."""
    if environment.get("HEADWAY_DATABASE_URL"):
        return ""
    if home := environment.get("HEADWAY_HOME"):
        return os.path.join(os.path.abspath(os.path.expanduser(home)), "headway.db")
    if os.path.exists(os.path.join(home_folder, ".env")):
        return ""
    return os.path.join(home_folder, HOME, "headway.db")
