"""The folders outside the workspace in which the operator's checks run. Headway's own files stay out of their reach."""

import os
from collections.abc import Sequence

from headway.ledger.check import Check, find_folder_problem, is_below
from headway.ledger.errors import Invalid
from headway.ledger.run import Sandbox


def get_folder(check: Check, workspace: str, sandbox: Sandbox, path: Sequence[str] = ()) -> str:
    """Return where a check runs. Raises Invalid if it may not run there, wherever links lead by now, or may not read this path."""
    folder: str | None = check.get("folder")
    if folder is None:
        return workspace
    if check["by"] != "operator":
        raise Invalid("Only the installation's operator may name a folder outside the workspace.")
    real = os.path.realpath(folder)
    if problem := find_folder_problem(real):
        raise Invalid(problem)
    if any(is_below(os.path.join(real, *path), os.path.realpath(place)) for place in sandbox.hidden):
        raise Invalid(f"{folder} holds Headway's own files, so no check may use them. Without a folder, checks use the workspace.")
    return real
