"""Decides where a value is validated against a JSON Schema: small work at once, large work in a process that can be killed."""

import json
import sys
import threading
import time
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import Any, Final

from headway.extras import requiring_extra
from headway.ledger.errors import Invalid

SMALL_SCHEMA: Final = 1_000  # characters
SMALL_WORK: Final = 200_000  # characters of the schema times those of the value
WORK_LIMIT: Final = 200_000_000
DEADLINE_S: Final = 10.0
POLL_S: Final = 0.2
TOO_LARGE: Final = (
    "It was not validated: the JSON Schema has {:,} characters and the value {:,}, and their product may be at most {:,}. "
    "Check a smaller part."
)
TOO_SLOW: Final = "It was not validated: the JSON Schema took longer than {:g} seconds with this value."
INTERRUPTION: Final = "It was interrupted."


def find_mismatch(value: Any, schema: Any, canceled: threading.Event | None = None, limit_s: float = DEADLINE_S) -> str:
    """Return where and why the value does not fit the schema; empty if it does. Raises Invalid if that cannot be decided.

    Waits for a process if the work is large, so call it on a thread that nothing else needs. `canceled` interrupts it.
    """
    with requiring_extra("schema", "A check with a JSON Schema"):
        from headway.agents.checks import json_schemas  # noqa: PLC0415  most todos have no schema, and loading it takes a moment

    try:
        encoded_schema, encoded_value = json.dumps(schema), json.dumps(value)
    except RecursionError:
        raise Invalid("The value is nested too deeply.") from None
    work = len(encoded_schema) * len(encoded_value)
    if work > WORK_LIMIT:
        raise Invalid(TOO_LARGE.format(len(encoded_schema), len(encoded_value), WORK_LIMIT))
    if work <= SMALL_WORK and len(encoded_schema) <= SMALL_SCHEMA:
        return json_schemas.find_mismatch(value, schema)
    answer = ask_process(f"[{encoded_schema}, {encoded_value}]", json_schemas.__name__, canceled or threading.Event(), limit_s)
    if "invalid" in answer:
        raise Invalid(answer["invalid"])
    return answer["mismatch"]


def ask_process(document: str, module: str, canceled: threading.Event, limit_s: float) -> dict[str, str]:
    deadline = time.monotonic() + limit_s
    command = (sys.executable, "-P", "-m", module)
    unsent: str | None = document
    with Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True, start_new_session=True) as process:  # noqa: S603
        try:
            while True:
                try:
                    output, _ = process.communicate(unsent, timeout=POLL_S)
                    break
                except TimeoutExpired:
                    unsent = None
                    if canceled.is_set():
                        raise Invalid(INTERRUPTION) from None
                    if time.monotonic() > deadline:
                        raise Invalid(TOO_SLOW.format(limit_s)) from None
        finally:
            process.kill()
    if process.returncode != 0:
        raise Invalid("It was not validated: the process that validates it ended early, perhaps for lack of memory.")
    answer: dict[str, str] = json.loads(output)
    return answer
