"""The peer's end of the pipe: JSON objects `{"do": NAME, …}` come in, `{"answer": …}` or `{"failed": …}` go out.

Peers import nothing from Headway, so that each can have its own interpreter and libraries.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def serve(**functions: Callable[..., Any]) -> None:
    """Answer requests until the input ends."""
    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries that print must not write to the pipe
    for asked in sys.stdin:
        wanted = json.loads(asked)
        try:
            said = {"answer": functions[wanted.pop("do")](**wanted)}
        except Exception:  # noqa: BLE001  the caller gets the traceback
            said = {"failed": traceback.format_exc()}
        line.write(json.dumps(said) + "\n")
        line.flush()
