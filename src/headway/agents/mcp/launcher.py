"""Starts an MCP server so that the kernel ends it if Headway is killed: `python launcher.py PARENT COMMAND ARGUMENTS…`.

A server ends by itself when its input ends, but not while it is stuck in a call. This file is a program, runs on Linux only, and
imports nothing of Headway.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit("Headway has ended")  # before the line above
    try:
        os.execvp(command[0], command)  # noqa: S606  the operator names the command in mcp.json
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
