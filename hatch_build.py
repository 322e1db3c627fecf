"""What is made when the package is built or linked: its description, the commit, and the files that other files determine.

    python hatch_build.py    # make those that are missing or older than their sources

None of them is committed. The blocking library is written from the asynchronous one: each method of `library/namespaces` gets a
twin with the same name, arguments and docstring in `library/blocking`. The catalogue of the MCP server is written from the tools.
The types that type checkers read are written from the library, into the wheel only.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURES = re.compile(r"<!-- pictures -->.*?<!-- /pictures -->\n+", re.DOTALL)
RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)\s]+\)")

NAMESPACES = Path("src/headway/library/namespaces")
BLOCKING = Path("src/headway/library/blocking")
CATALOGUE = Path("src/headway/surfaces/mcp/catalogue.json")
TOOLS = ("src/headway/agents/tools", "src/headway/surfaces/mcp", "src/headway/ledger")
RENDER = "from headway.surfaces.mcp.tool_metadata import render_catalogue; print(render_catalogue(), end='')"


class DescriptionHook(MetadataHookInterface):
    """Makes the description of the package from the README, without pictures and relative links: a package index shows neither."""

    def update(self, metadata: dict[str, Any]) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = RELATIVE_LINK.sub(r"\1", PICTURES.sub("", readme))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class GeneratedFilesHook(BuildHookInterface[BuilderConfig]):
    def dependencies(self) -> list[str]:
        """The tools are imported to describe them. A release has the catalogue already."""
        return self.metadata.core.dependencies if is_catalogue_stale(Path(self.root)) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        refresh(Path(self.root))
        if version == "editable":
            return
        # Not `artifacts` in pyproject.toml: hatchling would compile those patterns twice for every file of the tree
        build_data["artifacts"] += [f"{BLOCKING}/*.py", f"{CATALOGUE}"]
        if self.target_name == "wheel":
            build_data["force_include"] |= self.write_types()
        if not (commit := describe_commit(self.root)):
            return
        self.commit.parent.mkdir(parents=True, exist_ok=True)
        self.commit.write_text(commit, encoding="ascii")
        place = "headway" if self.target_name == "wheel" else "src/headway"
        build_data["force_include"][str(self.commit)] = f"{place}/commit.txt"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.commit.unlink(missing_ok=True)
        shutil.rmtree(self.types, ignore_errors=True)

    def write_types(self) -> dict[str, str]:
        """Write what type checkers read of the library. Return where each file belongs in the wheel."""
        sys.path.append(str(Path(self.root, "scripts")))
        from write_types import write_types  # noqa: PLC0415  this file is imported from elsewhere

        written = write_types(Path(self.root, "src"), self.types)
        return {str(file): place.as_posix() for file, place in written.items()}

    @property
    def types(self) -> Path:
        return Path(self.directory) / "types"

    @property
    def commit(self) -> Path:
        return Path(self.directory) / "commit.txt"


def describe_commit(root: str) -> str:
    """Return the commit that the package is built from, for `headway --version`. A source archive brings its own."""
    if not (Path(root) / ".git").exists():
        return ""
    command = ["git", "-C", root, "describe", "--always", "--dirty=+changes", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def refresh(root: Path) -> None:
    """Write the generated files that are missing or older than their sources."""
    if is_blocking_stale(root):
        write_blocking(root)
    if is_catalogue_stale(root):
        write_catalogue(root)


def list_sources(folders: Iterable[Path]) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("*.py")]


def is_newer(sources: Iterable[Path], made: Iterable[Path]) -> bool:
    return max(path.stat().st_mtime_ns for path in sources) > min(path.stat().st_mtime_ns for path in made)


# The blocking library


def is_blocking_stale(root: Path) -> bool:
    sources, made = sorted((root / NAMESPACES).glob("*.py")), sorted((root / BLOCKING).glob("*.py"))
    return [path.name for path in sources] != [path.name for path in made] or is_newer([*sources, Path(__file__)], made)


def write_blocking(root: Path) -> None:
    (root / BLOCKING).mkdir(exist_ok=True)
    texts = {path.name: path.read_text(encoding="utf-8") for path in (root / NAMESPACES).glob("*.py")}
    for old in (root / BLOCKING).glob("*.py"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        if name == "__init__.py":
            write(root / BLOCKING / name, '"""The methods without `await`."""\n')
        else:
            write(root / BLOCKING / name, build_twin(text, name.removesuffix(".py")))


def write(path: Path, text: str) -> None:
    """Replace a file as a whole: another process may be reading it."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def build_twin(source: str, name: str) -> str:
    """Return the text of the module with the twins of a module's classes."""
    module = ast.parse(source.replace("import AsyncIterator", "import AsyncIterator, Iterator"))
    classes = [build_class(node, name) for node in module.body if isinstance(node, ast.ClassDef)]
    aliases = [ast.unparse(node) for node in module.body if isinstance(node, ast.Assign)]
    body = "\n\n".join((*aliases, *classes))
    used = set(re.findall(r"\w+", body))
    imports = [text for node in module.body if isinstance(node, ast.ImportFrom) if (text := keep_used(node, used))]
    typed = [text for node in module.body if isinstance(node, ast.If) for text in keep_typed(node, used)]
    own = f"from headway.library.namespaces import {name}\nfrom headway.library.loop_runner import LoopRunner\n"
    head = f'"""Methods without `await`. Written by hatch_build.py from namespaces/{name}.py."""\n\n'
    return head + "\n".join(imports) + "\n" + own + "\n".join(typed) + "\n\n" + body + "\n"


def keep_used(node: ast.ImportFrom, used: set[str]) -> str:
    names = [alias for alias in node.names if (alias.asname or alias.name) in used]
    return ast.unparse(ast.ImportFrom(node.module, names, node.level)) if names else ""


def keep_typed(node: ast.If, used: set[str]) -> list[str]:
    """Return the imports for type checkers."""
    kept = [text for part in node.body if isinstance(part, ast.ImportFrom) if (text := keep_used(part, used))]
    return ["from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:", *(f"    {text}" for text in kept)] if kept else []


def build_class(node: ast.ClassDef, module: str) -> str:
    methods = [
        build_method(method)
        for method in node.body
        if isinstance(method, ast.AsyncFunctionDef | ast.FunctionDef) and not method.name.startswith("_")
    ]
    start = f"class Sync{node.name}:\n    {quote(node)}\n"
    build = f"    def __init__(self, loop_runner: LoopRunner, source: {module}.{node.name}) -> None:\n"
    return "\n\n".join((start, build + "        self._loop_runner = loop_runner\n        self._source = source\n", *methods))


def quote(node: ast.ClassDef | ast.AsyncFunctionDef | ast.FunctionDef) -> str:
    return f'"""{ast.get_docstring(node, clean=False)}"""'


def build_method(method: ast.AsyncFunctionDef | ast.FunctionDef) -> str:
    arguments = method.args
    given = [argument.arg for argument in arguments.args[1:]] + [f"{one.arg}={one.arg}" for one in arguments.kwonlyargs]
    given += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    call = f"self._source.{method.name}({', '.join(given)})"
    returned = ast.unparse(method.returns) if method.returns else "None"
    is_iterator = returned.startswith("AsyncIterator[")
    result = f"return self._loop_runner.{'iterate' if is_iterator else 'run'}({call})"
    head = f"def {method.name}({ast.unparse(arguments)}) -> {returned.replace('AsyncIterator', 'Iterator')}:"
    return f"    {head}\n        {quote(method)}\n        {result}\n"


# The catalogue of the MCP server


def is_catalogue_stale(root: Path) -> bool:
    catalogue = root / CATALOGUE
    return not catalogue.exists() or is_newer(list_sources(root / folder for folder in TOOLS), [catalogue])


def write_catalogue(root: Path) -> None:
    """Describe the tools in a process of its own, because the sources are not installed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), *sys.path])}
    rendered = subprocess.run(
        [sys.executable, "-c", RENDER], env=environment, stdout=subprocess.PIPE, check=True, text=True, encoding="utf-8"
    )
    write(root / CATALOGUE, rendered.stdout)


if __name__ == "__main__":
    refresh(Path(__file__).parent)
