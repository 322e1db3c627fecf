"""The release: built and inspected. tests/test_core_install.py installs it."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import headway
from tests.wheel_installs import Release, build

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "headway"
IN_THE_SOURCES = {
    "README.md",
    "LICENSE",
    "SECURITY.md",
    "CHANGELOG.md",
    "Makefile",
    "requirements.txt",
    "requirements-dev.txt",
    "pyproject.toml",
    "hatch_build.py",
    "docs/pictures/demo.svg",
}


def run(*command: str | Path, folder: Path) -> str:
    result = subprocess.run([str(argument) for argument in command], cwd=folder, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_wheel_holds_all_of_the_package_and_nothing_else(release: Release) -> None:
    ours = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    with zipfile.ZipFile(release.wheel) as wheel:
        packed = {name: wheel.read(name) for name in wheel.namelist() if not name.startswith(f"headway-{headway.__version__}")}
        about = wheel.read(f"headway-{headway.__version__}.dist-info/METADATA").decode()
        assert f"headway-{headway.__version__}.dist-info/licenses/LICENSE" in wheel.namelist()

    packed = {name: content for name, content in packed.items() if not name.endswith(".pyi")}
    assert packed == {f"headway/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes() for path in ours}
    for name in ("py.typed", "storage/migrations/0001_schema.sql", "surfaces/web/static/index.html"):
        assert f"headway/{name}" in packed
    assert f"Version: {headway.__version__}" in about
    assert "License-Expression: MIT" in about
    assert "A work ledger" in about
    description = about.partition("\n\n")[2]
    assert description.startswith("# Headway\n")
    assert 'Your agent says "done"' in description
    assert re.findall(r"\]\((?!https://)|<picture|<img|!\[|recording", description) == []  # a package index shows neither


@pytest.mark.compatibility
def test_the_same_sources_give_the_same_release(release: Release, tmp_path: Path) -> None:
    """Built once more from the source archive, in another folder and at another time, byte for byte."""
    with tarfile.open(release.sources) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has no filters
        packed.extractall(tmp_path)
    (tree,) = tmp_path.iterdir()
    (tree / "PKG-INFO").unlink()  # of the archive, and not of the sources
    for path in tree.rglob("*"):
        os.utime(path, (2e9, 2e9))
    for target, first in (("sdist", release.sources), ("wheel", release.wheel)):
        again = build(target, tree, tmp_path)
        assert (again.name, again.read_bytes() == first.read_bytes()) == (first.name, True)


TYPED_PROGRAM = """
import asyncio
import headway
from headway import Headway, checks, sync, tool

@tool
def count_words(text: str) -> int:
    return len(text.split())

async def main() -> None:
    async with Headway.open(tools=[count_words], budget_usd=2) as opened, headway.connect("url", "token") as server:
        reveal_type(await opened.ask("Go on."))
        reveal_type(await server.inbox.list())
        reveal_type(await opened.todos.add("x", checks=[checks.command("pytest")]))
        async for event in server.events.follow():
            reveal_type(event.text)
    with sync.open(home="here") as blocking:
        reveal_type(blocking.goals.list())

asyncio.run(main())
"""
PROGRAM_TYPES = [
    "headway.values.turns.TurnReport",
    "headway.values.value.Page[headway.values.inbox.PersonRequest]",
    "headway.values.todos.Todo",
    "str",
    "headway.values.value.Page[headway.values.goals.Goal]",
]
MOST_MODULES = 250  # that a type checker reads; 190 now. Without the stubs and with all extras it reads 6,900


def test_a_type_checker_reads_the_library_and_not_what_it_is_built_on(release: Release, tmp_path: Path) -> None:
    with zipfile.ZipFile(release.wheel) as wheel:
        wheel.extractall(tmp_path / "site")
    public = [name for name in headway.__all__ if name not in ("__version__", "checks", "sync")]
    program = TYPED_PROGRAM + "".join(f"reveal_type(headway.{name})\n" for name in public)
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "-v", "--cache-dir", str(tmp_path / "cache"), "program.py"]
    env = os.environ | {"MYPYPATH": str(tmp_path / "site")}
    checked = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    lines = [line for line in checked.stdout.splitlines() if "LOG:" not in line]
    types = [line.partition("Revealed type is ")[2].strip('"') for line in lines if "Revealed type is" in line]
    assert [line for line in lines if ": error:" in line] == []
    assert types[: len(PROGRAM_TYPES)] == PROGRAM_TYPES
    assert [
        name for name, type_ in zip(public, types[len(PROGRAM_TYPES) :], strict=True) if type_ in ("Any", "def () -> Any")
    ] == []
    assert 100 < len(re.findall(r"LOG: +Parsing ", checked.stdout + checked.stderr)) < MOST_MODULES


@pytest.mark.compatibility
def test_a_wheel_of_a_checkout_names_its_commit(tmp_path: Path) -> None:
    """So that `headway --version` tells two builds of one version apart."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "scripts").mkdir()
    for name in ("README.md", "LICENSE", "pyproject.toml", "hatch_build.py", "scripts/write_types.py", ".gitignore"):
        shutil.copy2(ROOT / name, tree / name)
    git = ("git", "-C", tree, "-c", "user.name=x", "-c", "user.email=x@example.org")
    run(*git, "init", "-q", folder=tree)
    run(*git, "add", "-A", folder=tree)
    run(*git, "commit", "-qm", "x", folder=tree)
    commit = run(*git, "rev-parse", "--short=12", "HEAD", folder=tree).strip()

    with zipfile.ZipFile(build("wheel", tree, tmp_path)) as wheel:
        assert wheel.read("headway/commit.txt").decode() == commit
    with tarfile.open(build("sdist", tree, tmp_path)) as sources:
        assert read_member(sources, "src/headway/commit.txt") == commit
    program = [sys.executable, "-m", "headway", "--version"]
    env = os.environ | {"PYTHONPATH": str(tree / "src")}
    shown = subprocess.run(program, cwd=tree, env=env, capture_output=True, text=True)
    assert shown.stdout == f"headway, version {headway.__version__} (commit {commit})\n"


def read_member(sources: tarfile.TarFile, path: str) -> str:
    file = sources.extractfile(next(name for name in sources.getnames() if name.partition("/")[2] == path))
    assert file is not None
    return file.read().decode()


def list_vendored() -> list[Path]:
    """The files of others that the page contains."""
    static = PACKAGE / "surfaces" / "web" / "static"
    return [path for name in ("vendor", "font") for path in (static / name).rglob("*") if path.suffix in (".js", ".woff2")]


def test_vendored_files_come_with_their_licences(release: Release) -> None:
    static = "headway/surfaces/web/static"
    with zipfile.ZipFile(release.wheel) as wheel:
        licences = {
            PurePosixPath(name).name.removeprefix("LICENSE-"): wheel.read(name).decode()
            for name in wheel.namelist()
            if name.startswith(static) and "/LICENSE-" in name
        }
        records = [json.loads(wheel.read(name)) for name in wheel.namelist() if name.endswith("/VENDOR.json")]
    vendored = [about for record in records for about in record.values()]
    packages = {name for about in vendored for name in (about["package"], *about.get("contents", ()))}
    assert {re.sub(r"[/.]", "-", name).strip("@") for name in packages} == set(licences)
    known = "MIT License|Permission is hereby granted, free of charge|Redistribution and use|Apache License|SIL OPEN FONT LICENSE"
    assert all(re.search(known, text, re.IGNORECASE) for text in licences.values())


def test_the_list_of_components_names_every_pin_and_every_vendored_file(tmp_path: Path) -> None:
    written = [run(sys.executable, ROOT / "scripts" / "write_sbom.py", tmp_path / name, folder=tmp_path) for name in ("a", "b")]
    first, second = ((tmp_path / name / f"headway-{headway.__version__}.cdx.json").read_text("utf-8") for name in ("a", "b"))
    assert first == second
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(first) is None

    components = json.loads(first)["components"]
    assert written[0].endswith(f": {len(components)} components\n")
    python = {f"{part['name']}=={part['version']}": part for part in components if part["purl"].startswith("pkg:pypi/")}
    pins = re.findall(r"^[\w.-]+==[\w.!+-]+", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    assert set(python) == set(pins)
    assert all(part["hashes"] for part in python.values())
    files = {file["name"]: file["hashes"][0]["content"] for part in components for file in part.get("components", ())}
    assert files == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in list_vendored()}
    bundled = {"markdown-it-footnote", "mdurl", "uc.micro", "linkify-it", "punycode.js"}
    assert bundled <= {part["name"] for part in components}


def test_the_sdist_contains_everything_to_test_and_build(release: Release) -> None:
    with tarfile.open(release.sources) as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
    assert names >= IN_THE_SOURCES
    assert {f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py")} <= names
    assert [name for name in names if name.startswith((".venv", "dist", ".headway")) or "__pycache__" in name] == []


def test_every_dependency_and_extra_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    direct = {re.split(r"[\[<>=;]", one)[0] for one in project["dependencies"]}
    extras = set(project["optional-dependencies"]) - {"dev", "bench"}
    assert {name for name in direct if f"`{name}`" not in page} == set()
    assert {name for name in extras if f"headway[{name}]" not in page} == set()
