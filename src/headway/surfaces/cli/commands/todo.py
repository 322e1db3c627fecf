"""`headway todo`: read and change the ledger from the shell."""

import click

from headway.surfaces.cli.lazy_group import SplitGroup

TARGETS = {
    "add": "todo_editing:add",
    "list": "todo_lists:list_todos",
    "show": "todo_progress:show",
    "start": "todo_progress:start",
    "done": "todo_progress:complete",
    "verify": "todo_progress:verify",
    "cancel": "todo_progress:cancel",
    "reopen": "todo_progress:reopen",
    "edit": "todo_editing:edit",
    "rm": "todo_progress:rm",
    "ready": "todo_lists:ready",
    "claim": "todo_progress:claim",
    "heartbeat": "todo_progress:heartbeat",
    "export": "transfer:export",
    "import": "transfer:import_todos",
}


@click.group(
    cls=SplitGroup,
    targets=TARGETS,
    examples=(
        "headway todo add 'Fix the login' --check-command 'pytest -q tests/test_login.py'",
        "headway todo list",
        "headway todo done 1 --outcome 'The cookie had expired'",
    ),
)
def todo() -> None:
    """Add, list and complete todos. A todo with checks is completed only when they pass."""
