"""The structure of the project: names, sizes, the place of SQL, modules loaded by commands, and contents of a release."""

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from types import FunctionType
from typing import cast

import click

import headway as library
from headway.ledger import errors as ledger_errors
from headway.ledger import framing
from headway.surfaces.cli.main import headway
from tests.parsed_sources import list_nodes, parse_module, read_source
from tests.pattern_costs import PatternUse, find_problems, list_javascript_patterns

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "headway"
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = {str(path.relative_to(PACKAGE)): path for path in MODULES}
SOURCES_BY_MODULE = {
    ".".join(("headway", *Path(name).with_suffix("").parts)).removesuffix(".__init__"): path for name, path in SOURCES.items()
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

OTHER_NAMES = {
    "Client",
    "Execution",
    "ForkRequest",
    "Headway",
    "MadeCall",
    "RemoteHeadway",
    "TurnStream",
    "__version__",
    "checks",
    "connect",
    "sync",
    "tool",
}
LARGEST_MODULE = 800  # a module is one subject
LARGEST_FUNCTION = 60
MOST_IMPORTED = 30  # modules that `import headway` loads
MOST_LOADED = 68  # modules of ours that `todo add` and `todo list` load together; each costs a third of a millisecond or more
SMALLEST_PACKAGE = 3  # modules; a smaller one is a module
SMALL_PACKAGES = {
    "surfaces/web": "the folder of the page's files",
}
LONGEST_LINE = 132
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager", "managers", "core", "shared", "stuff"}
# A function's name is a verb and a constant's a noun. A participle alone is neither: it leaves out what was done to what.
PARTICIPLE = re.compile(
    r"[a-z]+ed|begun|built|chosen|done|drawn|found|given|gone|heard|held|kept|known|made|meant|said|seen|sent|shown|taken|told|written"
)
SQL = re.compile(
    r"\bSELECT\b.+\bFROM\b|\bSELECT [\d'(]|\bINSERT INTO\b|\bUPDATE \w+ SET\b|\bDELETE FROM\b|\b(CREATE|ALTER|DROP) (TABLE|INDEX)\b"
    r"|\bORDER BY\b|\bWHERE \w+ *(=|<|>|IN\b|IS\b)|^(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|PRAGMA)\b",
    re.DOTALL,
)
HEAVY = ["asyncio", "starlette", "uvicorn", "pydantic", "psycopg", "rich", "mcp", "anyio", "httpx", "dotenv", "dbos"]
EVERYDAY = [
    ["todo", "add", "one"],
    ["todo", "list"],
    ["todo", "list", "--json"],
    ["todo", "show", "1"],
    ["todo", "ready"],
    ["todo", "claim", "--agent", "ada"],
    ["todo", "done", "1", "--force"],
    ["todo", "reopen", "1"],
    ["todo", "export", "list.json"],
    ["todo", "export", "list.md"],
    ["todo", "import", "list.json"],
    ["todo", "rm", "1"],
    ["todo", "show", "404"],
]
LOADED = """
import json, sys
from headway.surfaces.cli.main import main
codes = []
for command in json.loads(sys.argv[1]):
    sys.argv[1:] = command
    try:
        main()
    except SystemExit as end:
        codes.append(end.code or 0)
print(json.dumps([codes, sorted(sys.modules)]), file=sys.stderr)
"""

IMPORTED = """
import json, sys
before = set(sys.modules)
import headway
imported = set(sys.modules) - before
headway.Headway
print(json.dumps([sorted(imported), sorted(sys.modules)]))
"""


def walk_folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """The folders of the project with their files, without those that tools leave."""
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name == ".ci" or not (name.startswith((".", "__")) or name == "dist")]
        yield Path(folder), names


def extract_code(page: str) -> str:
    """The code blocks and code spans of a Markdown page."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", page, re.DOTALL))


def list_shown_commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """The words of every command that help shows."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from list_shown_commands(command, *path, name)
        elif not command.hidden:
            yield *path, name


def is_shown_command(words: list[str]) -> bool:
    """Whether these words, or the first of them, name a command as help shows it."""
    command: click.Command = headway
    for word in words:
        if not isinstance(command, click.Group):
            return True
        below = command.get_command(click.Context(command), word)
        if below is None or below.hidden:
            return False
        command = below
    return True


def imports(source: Path) -> Iterator[str]:
    """Every module that a module imports, including local and type-only imports."""
    for node in list_nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if below in SOURCES_BY_MODULE else node.module


def module_level_names(source: Path) -> Iterator[str]:
    """The functions and variables that a module defines, without its classes and types."""
    for node in parse_module(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def functions(source: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in list_nodes(source) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def texts(source: Path) -> Iterator[str]:
    """Every string of a module that is not a docstring."""
    nodes = list_nodes(source)
    remarks = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in remarks:
            yield node.value


def canonical(requirement: str) -> str:
    """The name of a requirement or pin, normalised as package indexes do."""
    name = re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def test_no_package_is_nearly_empty() -> None:
    sizes = {
        str(folder.relative_to(PACKAGE)): len(
            [one for one in folder.iterdir() if one.suffix == ".py" or (one / "__init__.py").exists()]
        )
        - 1
        for folder in {path.parent for path in MODULES}
    }

    assert len(sizes) > 20
    assert {folder: size for folder, size in sizes.items() if size < SMALLEST_PACKAGE and folder not in SMALL_PACKAGES} == {}


def test_no_module_imports_itself_through_others() -> None:
    graph = {name: {one for one in imports(source) if one in SOURCES_BY_MODULE} for name, source in SOURCES_BY_MODULE.items()}

    assert sum(map(len, graph.values())) > 500
    TopologicalSorter(graph).prepare()  # raises CycleError with the modules of a cycle


def test_no_bare_participle_names_a_function_or_a_constant() -> None:
    names = [(name, one) for name, source in SOURCES.items() for one in module_level_names(source)]

    assert len(names) > 1_000
    assert [pair for pair in names if PARTICIPLE.fullmatch(pair[1].lower().strip("_"))] == []


def test_a_class_name_has_one_meaning() -> None:
    """Requests, answers and values have the names of what they describe, by which the OpenAPI document lists them. They are unique
    among themselves."""
    for is_public in (True, False):
        sources = [source for name, source in SOURCES.items() if name.startswith(("operations/", "values/")) == is_public]
        names = Counter(node.name for source in sources for node in parse_module(source).body if isinstance(node, ast.ClassDef))
        assert [name for name, count in names.items() if count > 1] == []


def test_no_module_is_called_like_one_of_the_standard_library() -> None:
    assert [path.stem for path in MODULES if path.stem in sys.stdlib_module_names] == []


def test_every_module_has_a_specific_name() -> None:
    names = {part for path in MODULES for part in path.relative_to(PACKAGE).with_suffix("").parts}
    assert {name for name in names if VAGUE & set(name.split("_"))} == set()


def test_every_folder_of_code_is_a_package() -> None:
    assert [str(folder) for folder in {path.parent for path in MODULES} if not (folder / "__init__.py").exists()] == []


def test_no_module_is_too_long() -> None:
    sizes = {name: len(read_source(source).splitlines()) for name, source in SOURCES.items()}
    assert {name: size for name, size in sizes.items() if size > LARGEST_MODULE} == {}


def test_no_function_is_too_long() -> None:
    sizes = {
        f"{name}:{function.name}": (function.end_lineno or 0) - function.lineno + 1
        for name, source in SOURCES.items()
        for function in functions(source)
    }
    assert {name: size for name, size in sizes.items() if size > LARGEST_FUNCTION} == {}


def test_no_line_of_javascript_or_css_is_too_long() -> None:
    """Ruff checks Python. Biome does not break template literals, and it does not format the styles."""
    files = [
        folder / name
        for folder, names in walk_folders(ROOT)
        if "vendor" not in folder.parts
        for name in names
        if name.endswith((".js", ".mjs", ".css"))
    ]
    long = {
        f"{file.relative_to(ROOT)}:{number}": len(line)
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LONGEST_LINE
    }

    assert len(files) > 25
    assert long == {}


def test_sql_lives_in_storage() -> None:
    """Cells bring their own, so that whoever does not need them never meets it."""
    own = ("testing.py", "cells/rows.py", "cells/redirects.py", "cells/copying.py")
    outside = {name: source for name, source in SOURCES.items() if not name.startswith("storage/") and name not in own}
    assert {(name, text[:60]) for name, source in outside.items() for text in texts(source) if SQL.search(text)} == set()


def test_sql_would_be_recognised() -> None:
    """A control for the test above: the pattern matches the SQL in storage."""
    stores = [source for name, source in SOURCES.items() if name.startswith("storage/stores/") and "SELECT" in read_source(source)]
    assert len(stores) >= 3
    for source in stores:
        assert any(SQL.search(text) for text in texts(source))


# Writes of the runtime without an action, in rows that only the holder of a job changes: see docs/internals/architecture.md.
RUNTIME_WRITES = {
    "goals": {"end_cycle", "open_cycle"},
    "installation": {"ensure_secret"},
    "jobs": {"announce_again", "announce_overlooked", "lock_family", "mark_announced", "requeue"},
    "runs": {"append_and_save", "append_messages", "save_base", "save_effect", "save_run", "withdraw_message"},
    "worker_leases": {"record_heartbeat", "release_owner"},
}


def test_the_runtime_writes_only_rows_of_its_own_work() -> None:
    """Everything else is changed by actions. Cells have rows of their own."""
    floors = ("actions/", "cells/", "storage/")
    found: dict[str, set[str]] = {}
    for name, source in SOURCES.items():
        if not name.startswith(floors):
            for store, function in list_store_calls(source):
                if function in list_writing_functions(SOURCES[f"storage/stores/{store}.py"]):
                    found.setdefault(store, set()).add(function)
    assert found == RUNTIME_WRITES


def list_store_calls(source: Path) -> set[tuple[str, str]]:
    """Return the functions of stores that a module calls, with the names of their modules."""
    imported = {
        alias.asname or alias.name: alias.name
        for node in list_nodes(source)
        if isinstance(node, ast.ImportFrom) and node.module == "headway.storage.stores"
        for alias in node.names
    }
    return {
        (imported[node.value.id], node.attr)
        for node in list_nodes(source)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported
    }


def list_writing_functions(store: Path) -> set[str]:
    """Return the functions of a store that write, also through other functions and constants of the store."""
    parts = {
        name: ast.unparse(node)
        for node in parse_module(store).body
        for name in ([node.name] if isinstance(node, ast.FunctionDef) else assigned_names(node))
    }
    writing = {name for name, text in parts.items() if re.search(r"INSERT INTO|UPDATE \w|DELETE FROM|tx\.run\(", text)}
    while more := {
        name for name, text in parts.items() if name not in writing and set(re.findall(r"(?<!\.)\b\w+\b", text)) & writing
    }:
        writing |= more
    return writing


def assigned_names(node: ast.AST) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_everyday_commands_load_no_web_stack_no_agents_and_no_event_loop(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(EVERYDAY)], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    codes, loaded = json.loads(ran.stderr.splitlines()[-1])

    assert codes == [0] * (len(EVERYDAY) - 1) + [3]
    assert [name for name in HEAVY if name in loaded] == []
    assert [name for name in loaded if name.startswith(("headway.agents", "headway.surfaces.http", "headway.surfaces.mcp"))] == []


def test_adding_and_listing_todos_loads_little(tmp_path: Path) -> None:
    commands = json.dumps([["todo", "add", "one"], ["todo", "list"]])
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, commands], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    codes, loaded = json.loads(ran.stderr.splitlines()[-1])

    assert codes == [0, 0]
    assert len([name for name in loaded if name.startswith("headway")]) < MOST_LOADED
    assert [
        name for name in ("ast", "glob", "hashlib", "ipaddress", "pathlib", "shlex", "shutil", "urllib.parse") if name in loaded
    ] == []


def test_a_look_around_loads_no_agents(tmp_path: Path) -> None:
    """A newcomer's first commands and shell completion must not wait for model libraries."""
    looks = json.dumps([["--version"], ["--help"], ["chat", "--help"], ["worker", "--help"], ["completion", "bash"]])
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, looks], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    codes, loaded = json.loads(ran.stderr.splitlines()[-1])

    assert codes == [0] * 5
    assert [name for name in loaded if name in ("pydantic", "starlette", "mcp") or name.startswith("headway.agents")] == []


def test_the_library_has_these_names() -> None:
    errors = {name for name in vars(ledger_errors) if name in library.__all__}
    values = {name for name, home in library.HOMES.items() if home.startswith(library.VALUES)}
    assert {"CheckFailed", "Conflict", "Halted", "HeadwayError", "Invalid", "NotFound", "QuotaExceeded", "TurnFailed"} <= errors
    assert {"Todo", "TurnReport", "Goal", "Event", "Page"} <= values
    assert set(library.__all__) - errors - values == OTHER_NAMES
    assert [name for name in library.__all__ if not hasattr(library, name)] == []


def test_importing_the_library_is_quick_and_lazy() -> None:
    """It loads nothing of ours, and little of the standard library. What runs models is loaded when agents start."""
    ran = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True, timeout=60)
    loaded, used = json.loads(ran.stdout)
    assert [name for name in ("pydantic_ai", "openai", "mcp", "starlette") if name in used] == []
    assert [name for name in loaded if name.startswith("headway.")] == []
    assert {name.partition(".")[0] for name in loaded} - {"headway"} <= sys.stdlib_module_names
    assert len(loaded) < MOST_IMPORTED


def test_the_files_that_people_look_for_first_exist() -> None:
    names = ["LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "GLOSSARY.md", "Makefile", ".ci/run"]
    assert [name for name in names if len((ROOT / name).read_text(encoding="utf-8")) <= 100] == []


def test_the_pictures_are_up_to_date() -> None:
    sys.path.append(str(ROOT / "scripts"))
    from take_pictures import DRAWN_BY, LARGEST, MANIFEST, PICTURES, drawn_by  # noqa: PLC0415  a script, not a package

    recorded = json.loads(MANIFEST.read_text(encoding="utf-8"))
    pictures = [path for path in PICTURES.iterdir() if path != MANIFEST]
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))

    assert all(any(path.is_file() for path in ROOT.glob(pattern)) for pattern in DRAWN_BY)
    assert recorded["drawn_by"] == drawn_by(), "The pictures are out of date: run `make pictures`."
    assert sorted(path.name for path in pictures) == recorded["pictures"]
    assert [path.name for path in pictures if path.stat().st_size > LARGEST or f"pictures/{path.name}" not in pages] == []


def test_every_direct_dependency_is_pinned() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    named = re.findall(r"\w+", extras["all"][0].partition("[")[2])
    dependencies = [*PROJECT["project"]["dependencies"], *(line for name in named for line in extras[name])]
    locks = {name: read_pins((ROOT / name).read_text(encoding="utf-8")) for name in ("requirements.txt", "requirements-dev.txt")}
    required = {
        "requirements.txt": [*dependencies, *PROJECT["build-system"]["requires"]],
        "requirements-dev.txt": [*dependencies, *(line for line in extras["dev"] if line != "headway[all]")],
    }

    for name, pins in locks.items():
        assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.!+-]+( ; .*)?( --hash=sha256:[0-9a-f]{64})+", pin)] == []
        assert {canonical(requirement) for requirement in required[name]} - {canonical(pin) for pin in pins} == set()
    versions = {name: {canonical(pin): pin.split()[0] for pin in pins} for name, pins in locks.items()}
    assert versions["requirements.txt"].items() <= versions["requirements-dev.txt"].items()


def test_dependencies_are_installed_by_their_hashes() -> None:
    """Only Headway itself, which is a folder and has no hash, is installed without one, and then nothing is downloaded."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    installs = [line.split("$(INSTALL)")[1].split() for line in recipe.splitlines() if "$(INSTALL) " in line]
    assert installs == [["--require-hashes", "-r"], ["--no-deps", "--no-build-isolation", "-e", "."]]


def read_pins(text: str) -> list[str]:
    """Return each pin of a requirements file as one line, with its hashes."""
    return [" ".join(pin.split()) for pin in text.replace("\\\n", "").splitlines() if pin and not pin.startswith("#")]


def test_no_file_names_a_package_registry() -> None:
    """The choice of a package registry belongs to the person who installs."""
    registries = re.compile(r"\b(pypi|pythonhosted|npmjs|unpkg|jsdelivr|esm)\.(org|com|net|sh)\b", re.IGNORECASE)
    files = [folder / name for folder, names in walk_folders(ROOT) for name in names]

    assert len(files) > 50
    assert [str(file) for file in files if registries.search(file.read_text(encoding="utf-8", errors="replace"))] == []


def test_a_wheel_holds_the_migrations() -> None:
    """Everything below src/headway is packaged."""
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/headway"]
    assert {path.suffix for path in (PACKAGE / "storage" / "migrations").iterdir()} == {".sql"}
    assert (PACKAGE / "py.typed").exists()


def test_the_command_is_installed_under_its_name() -> None:
    assert PROJECT["project"]["scripts"] == {"headway": "headway.surfaces.cli.entry:run"}


def test_every_group_of_commands_has_a_place_in_the_overview() -> None:
    page = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")
    groups = {" ".join(words[:-1] or words) for words in list_shown_commands(headway)}
    assert sorted(group for group in groups if f"`{group}`" not in page) == []


def test_every_command_in_the_documents_exists() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.md")]
    named = {
        words
        for page in pages
        for words in re.findall(r"(?<!from )\bheadway ([a-z]+)(?: ([a-z]+)\b)?", extract_code(page.read_text(encoding="utf-8")))
    }

    assert len(named) > 5
    assert [words for words in sorted(named) if not is_shown_command(list(filter(None, words)))] == []


# Regular expressions


# Patterns that the reader of tests/pattern_costs.py refuses, and why they are fast all the same.
REVIEWED_PATTERNS = {
    "agents/mcp/config.py:VARIABLE_PATTERN": "the operator's own file; a default value has at most 2,000 characters",
    "agents/models/rehearsal/reading.py:RULES[8]": "no word of AGAIN begins like another; a file's name is short",
    "agents/models/rehearsal/reading.py:RULES[9]": "no word of AGAIN begins like another",
    "agents/models/rehearsal/reading.py:RULES[13]": "no word of IS_IT begins like another",
    "ledger/text.py:NAME_PATTERN": "a name has at most 200 characters",
}
BUILT_PATTERNS = {
    "ledger/framing.py": 3,
    "agents/models/rehearsal/reading.py": 1,
}  # patterns compiled by functions, which are called below
ANCHORED_CALLS = {"match", "fullmatch"}


def list_patterns(name: str, path: Path) -> Iterator[tuple[str, PatternUse]]:
    """The patterns of a module: in its variables, and in its calls of `re`."""
    module = importlib.import_module(".".join(("headway", *Path(name).with_suffix("").parts)))
    source = read_source(path)
    for variable, value in vars(module).items():
        found = (
            [one for item in value for one in (item if isinstance(item, tuple) else [item])]
            if isinstance(value, tuple)
            else [value]
        )
        patterns = [one for one in found if isinstance(one, re.Pattern)]
        if not patterns:
            continue
        calls = set(re.findall(rf"\b{variable}\.([a-z]+)\(", source)) or ({"fullmatch"} if variable == "RULES" else {"search"})
        for index, one in enumerate(patterns):
            place = f"{variable}[{index}]" if isinstance(value, tuple) else variable
            text = one.pattern if isinstance(one.pattern, str) else one.pattern.decode()
            yield f"{name}:{place}", PatternUse(text, one.flags & ~re.UNICODE, bool(calls - ANCHORED_CALLS))
    for call in (node for node in list_nodes(path) if isinstance(node, ast.Call) and is_use_of_re(node)):
        first, function = call.args[0], cast("ast.Attribute", call.func).attr
        if isinstance(first, ast.Constant) and function != "compile":
            yield f"{name}:{call.lineno}", PatternUse(str(first.value), 0, function not in ANCHORED_CALLS)
        elif isinstance(first, ast.Name) and hasattr(module, first.id):
            yield f"{name}:{first.id}", PatternUse(getattr(module, first.id), 0, function not in ANCHORED_CALLS)


def is_use_of_re(node: ast.Call) -> bool:
    """Whether a call of the module `re` takes a pattern."""
    function = node.func
    is_of_re = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "re"
    return is_of_re and bool(node.args) and cast("ast.Attribute", function).attr != "escape"


def list_all_patterns() -> Iterator[tuple[str, PatternUse]]:
    for name, source in SOURCES.items():
        if "\nimport re\n" in read_source(source):
            yield from list_patterns(name, source)
    for build in (framing.get_bracket_pattern, framing.get_frame_pattern, framing.get_frame_start_pattern):
        yield f"ledger/framing.py:{build.__name__}", PatternUse(build().pattern)
    for file in sorted((PACKAGE / "surfaces/web/static/js").rglob("*.js")):
        for use in list_javascript_patterns(file.read_text(encoding="utf-8")):
            yield f"{file.relative_to(PACKAGE)}:{use.source}", use


SLOW_PATTERNS = (
    r"\{.*\}",  # from each brace to the end
    r"(?:[a-z]+)+!",
    r"(?:a|aa)*b",
    r"[a-z-]+[a-z]+\d",
    r"\s+$",
    r"^\s*\|?(\s*:?-{1,200}:?\s*\|){1,50}\s*(:?-{1,200}:?)?\s*$",
    r"^(#{1,6})\s+(.*)$",
    r"“[^”\n]*”",
    r"://([^/\s]*:[^/\s]*)@",
    r"\[([^\]]{1,500})\]\(([^)]{1,2000})\)",
    r"token count.*exceeds",
    r"[[](?=\s*\[?\s*END)",
)


def test_a_slow_pattern_would_be_found() -> None:
    """A control for the test below: these take quadratic or exponential time for some text."""
    assert [pattern for pattern in SLOW_PATTERNS if not find_problems(PatternUse(pattern))] == []


def test_every_pattern_takes_linear_time() -> None:
    patterns = dict(list_all_patterns())
    slow = {place: find_problems(use) for place, use in patterns.items()}

    assert len(patterns) > 150
    assert {place: problems for place, problems in slow.items() if problems and place not in REVIEWED_PATTERNS} == {}
    assert [place for place in REVIEWED_PATTERNS if not slow.get(place)] == []  # no longer needed


def test_no_other_pattern_is_built_by_a_function() -> None:
    """The test above cannot see a pattern that is put together when a function runs."""
    built = Counter(
        name
        for name, source in SOURCES.items()
        if "\nimport re\n" in read_source(source)
        for function in functions(source)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and is_use_of_re(node) and not isinstance(node.args[0], ast.Constant)
        if not (isinstance(node.args[0], ast.Name) and node.args[0].id.isupper())
    )
    assert built == BUILT_PATTERNS


# The public names


def test_every_public_name_has_a_docstring() -> None:
    plain = ("TypedEvent", "__version__")  # Python has no docstrings for unions and texts
    without = [name for name in library.__all__ if name not in plain and not inspect.getdoc(getattr(library, name))]
    for name in library.__all__:
        members = vars(getattr(library, name)).items() if inspect.isclass(getattr(library, name)) else ()
        for member, value in members:
            function = getattr(value, "__func__", value)
            if not member.startswith("_") and isinstance(function, FunctionType | property) and not inspect.getdoc(function):
                without.append(f"{name}.{member}")
    assert without == []
