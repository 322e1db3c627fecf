"""The entry point of `headway`. A hook of an assistant takes the short way, because the assistant waits for it."""

import sys

HOOK = ["guard", "hook"]
CLIENTS = ("claude-code", "codex", "gemini", "opencode", "cursor")


def run() -> None:
    if sys.argv[1:3] == HOOK and len(sys.argv) == 4 and sys.argv[3] in CLIENTS:
        from headway.surfaces.guard.hook import run as run_hook  # noqa: PLC0415  loads nothing of the command line

        run_hook(sys.argv[3])
    from headway.surfaces.cli.main import run as run_command  # noqa: PLC0415

    run_command()
