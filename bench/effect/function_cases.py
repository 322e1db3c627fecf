"""Runs functions that an agent wrote against their cases, in a process of their own, without imports and with limits."""

import ast
import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

REFUSED_NAMES: Final = frozenset(
    ("open", "exec", "eval", "compile", "input", "globals", "locals", "vars", "breakpoint", "getattr", "setattr", "delattr")
)
CPU_S: Final = 2
WAIT_S: Final = 20
PROGRAM: Final = """
import json, sys
source, cases = json.load(sys.stdin)
space = {}
exec(source, space)
print(json.dumps({call: repr(eval(call, space)) for call in cases}))
"""


def passes_cases(source: str, cases: Mapping[str, object]) -> bool:
    """Say whether every call returns what it should. A module that imports something or reaches beyond its values is refused."""
    if not is_harmless(source):
        return False
    try:
        process = subprocess.run(
            [sys.executable, "-I", "-S", "-c", PROGRAM],
            input=json.dumps([source, list(cases)]),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            preexec_fn=limit_resources,
        )
        found = json.loads(process.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return False
    return bool(found == {call: repr(value) for call, value in cases.items()})


def is_harmless(source: str) -> bool:
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return not any(
        isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Name) and (node.id in REFUSED_NAMES or node.id.startswith("__")))
        or (isinstance(node, ast.Attribute) and node.attr.startswith("_"))
        for node in nodes
    )


def limit_resources() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (512 * 2**20,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
