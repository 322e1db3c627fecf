"""The peer's end of the line: a JSON object comes in, `{"do": NAME, …}`, and one goes out, `{"answer": …}` or `{"failed": …}`.

Peers import nothing of Headway, so that each can have an interpreter and libraries of its own.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def serve(**functions: Callable[..., Any]) -> None:
    """Do what is asked until nobody asks any more."""
    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints must not speak on this line
    for asked in sys.stdin:
        wanted = json.loads(asked)
        try:
            said = {"answer": functions[wanted.pop("do")](**wanted)}
        except Exception:  # noqa: BLE001  whoever asked is told
            said = {"failed": traceback.format_exc()}
        line.write(json.dumps(said) + "\n")
        line.flush()
