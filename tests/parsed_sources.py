"""The source files of the project, each read and parsed once per process."""

import ast
from functools import cache
from pathlib import Path


@cache
def read_source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def list_nodes(path: Path) -> tuple[ast.AST, ...]:
    """The nodes of a module's syntax tree; the module itself is the first one."""
    return tuple(ast.walk(ast.parse(read_source(path))))


def parse_module(path: Path) -> ast.Module:
    module = list_nodes(path)[0]
    assert isinstance(module, ast.Module)
    return module
