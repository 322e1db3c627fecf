"""Writes the library's methods for programs without an event loop, from the asynchronous ones: `make docs` runs it.

Each method of headway.library.namespaces gets a twin in headway.library.blocking, with the same name, arguments and docstring.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headway" / "library" / "namespaces"
TARGET = ROOT / "src" / "headway" / "library" / "blocking"
HEADER = '"""Methods without `await`. Written by scripts/write_sync_library.py from {}."""\n\n'


def write_twin(source: str, name: str) -> str:
    """Return the text of the module with the twins of a module's classes."""
    module = ast.parse(source.replace("import AsyncIterator", "import AsyncIterator, Iterator"))
    classes = [write_class(node, name) for node in module.body if isinstance(node, ast.ClassDef)]
    aliases = [ast.unparse(node) for node in module.body if isinstance(node, ast.Assign)]
    body = "\n\n".join((*aliases, *classes))
    imports = [ast.unparse(node) for node in module.body if isinstance(node, ast.Import | ast.ImportFrom)]
    own = f"from headway.library.namespaces import {name}\nfrom headway.library.portal import Portal\n"
    return HEADER.format(f"namespaces/{name}.py") + "\n".join(imports) + "\n" + own + "\n\n" + body + "\n"


def write_class(node: ast.ClassDef, module: str) -> str:
    methods = [
        write_method(method)
        for method in node.body
        if isinstance(method, ast.AsyncFunctionDef | ast.FunctionDef) and not method.name.startswith("_")
    ]
    start = f"class Sync{node.name}:\n    {quote(node)}\n"
    build = f"    def __init__(self, portal: Portal, source: {module}.{node.name}) -> None:\n"
    return "\n\n".join((start, build + "        self._portal = portal\n        self._source = source\n", *methods))


def quote(node: ast.ClassDef | ast.AsyncFunctionDef | ast.FunctionDef) -> str:
    return f'"""{ast.get_docstring(node, clean=False)}"""'


def write_method(method: ast.AsyncFunctionDef | ast.FunctionDef) -> str:
    arguments = method.args
    given = [argument.arg for argument in arguments.args[1:]] + [f"{one.arg}={one.arg}" for one in arguments.kwonlyargs]
    given += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    call = f"self._source.{method.name}({', '.join(given)})"
    returned = ast.unparse(method.returns) if method.returns else "None"
    is_iterator = returned.startswith("AsyncIterator[")
    result = f"return self._portal.{'iterate' if is_iterator else 'run'}({call})"
    head = f"def {method.name}({ast.unparse(arguments)}) -> {returned.replace('AsyncIterator', 'Iterator')}:"
    return f"    {head}\n        {quote(method)}\n        {result}\n"


def build_modules() -> dict[str, str]:
    """Return the text of each module by its file name, formatted."""
    return {
        path.name: format_code(write_twin(path.read_text(encoding="utf-8"), path.stem))
        for path in sorted(SOURCE.glob("*.py"))
        if path.name != "__init__.py"
    }


def format_code(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    sorted_text = subprocess.run(
        [*ruff, "check", "--select", "I,F401", "--fix", "--quiet", "--stdin-filename", "twin.py", "-"],
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    ).stdout
    return subprocess.run(
        [*ruff, "format", "--quiet", "-"], input=sorted_text, capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout


if __name__ == "__main__":
    for name, text in build_modules().items():
        (TARGET / name).write_text(text, encoding="utf-8")
