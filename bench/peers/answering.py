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
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries that print must not write to the pipe
    for request_line in sys.stdin:
        request = json.loads(request_line)
        try:
            reply = {"answer": functions[request.pop("do")](**request)}
        except Exception:  # noqa: BLE001  the caller gets the traceback
            reply = {"failed": traceback.format_exc()}
        output.write(json.dumps(reply) + "\n")
        output.flush()
