"""Check that Headway can be installed beside other frameworks: `python scripts/check_frameworks.py [--write] [FRAMEWORK …]`.

Resolves each framework alone, beside the core, and beside each extra, and prints the versions of the framework that this gives.
Fails if the core holds a framework back. `--write` records the result in frameworks.json and in docs/install.md; `--table` prints
the recorded table, and `--core` leaves the extras out. Needs uv and a package index, and installs nothing.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "scripts" / "frameworks.json"
PAGE = ROOT / "docs" / "install.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.11", "3.13")  # the oldest and the newest that are supported
# What is installed, and a module of it.
FRAMEWORKS = {
    "agno": "agno.agent",
    "autogen-agentchat": "autogen_agentchat.agents",
    "browser-use": "browser_use",
    "chainlit": "chainlit",
    "crewai": "crewai",
    "deepagents": "deepagents",
    "fastmcp": "fastmcp",
    "google-adk": "google.adk.agents",
    "instructor": "instructor",
    "langchain": "langchain.agents",
    "langchain-mcp-adapters": "langchain_mcp_adapters.client",
    "llama-index": "llama_index.core",
    "mcp": "mcp",
    "openai-agents": "agents",
    "pydantic-ai>=2": "pydantic_ai",  # without the bound, uv can choose one that is years old: pydantic-ai-slim is released first
    "semantic-kernel[mcp]": "semantic_kernel",
    "smolagents": "smolagents",
    "strands-agents": "strands",
}
EXTRAS = [extra for extra in PROJECT["optional-dependencies"] if extra != "dev"]
Pins = dict[str, str]
Row = dict[str, Any]


def list_requirements(extra: str = "") -> list[str]:
    """Return what Headway requires with an extra. `all` names other extras."""
    lines: list[str] = PROJECT["optional-dependencies"][extra] if extra else []
    named = [part for line in lines if line.startswith("headway[") for part in sorted(Requirement(line).extras)]
    expanded = [line for part in named for line in PROJECT["optional-dependencies"][part]]
    return [*PROJECT["dependencies"], *(line for line in (*lines, *expanded) if not line.startswith("headway["))]


def resolve(requirements: list[str], python: str) -> Pins:
    """Return the versions that fit these requirements; nothing if there are none."""
    uv = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
    if uv is None:
        sys.exit("This needs uv: pip install uv")
    command = [uv, "pip", "compile", "-q", "--no-header", "--no-annotate", "--python-version", python, "-"]
    done = subprocess.run(command, input="\n".join(requirements), capture_output=True, text=True, timeout=600, check=False)
    return dict(re.findall(r"^([\w.-]+)==(\S+)", done.stdout, re.MULTILINE)) if done.returncode == 0 else {}


def find_held_back(pins: Pins, newest: Pins) -> Pins:
    """Return the direct requirements of the core that the framework keeps at an older version than Headway alone has."""
    direct = [Requirement(line).name for line in PROJECT["dependencies"]]
    return {name: pins[name] for name in direct if Version(pins[name]) < Version(newest[name])}


def check(framework: str, newest: dict[str, Pins], extras: list[str]) -> Row:
    """Resolve a framework in all ways, in parallel: most of the time goes by waiting for the package index."""
    name = Requirement(framework).name
    with ThreadPoolExecutor(4) as pool:
        alone = [pool.submit(resolve, [framework], python) for python in PYTHONS]
        core = [pool.submit(resolve, [framework, *list_requirements()], python) for python in PYTHONS]
        beside = {extra: pool.submit(resolve, [framework, *list_requirements(extra)], PYTHONS[0]) for extra in extras}
    versions = [found.result().get(name) for found in alone]
    pins = [found.result() for found in core]
    if None in versions or versions != [found.get(name) for found in pins]:
        return {"version": versions[0], "core": [found.get(name) for found in pins]}
    held = [find_held_back(found, newest[python]) for python, found in zip(PYTHONS, pins, strict=True)]
    with_extras = {extra: found.result().get(name) for extra, found in beside.items()}
    changed = {extra: version for extra, version in with_extras.items() if version != versions[0]}
    return {"module": FRAMEWORKS[framework], "version": versions[0], "older": [one for one in held if one], "extras": changed}


def render_table(rows: dict[str, Row]) -> str:
    """Render the extras that change anything as columns. An empty cell: the framework has the same version as alone."""
    extras = [extra for extra in EXTRAS if any(extra in row["extras"] for row in rows.values())]
    lines = [f"| framework | version | {' | '.join(f'`headway[{extra}]`' for extra in extras)} |", "|---" * (len(extras) + 2) + "|"]
    for name, row in rows.items():
        cells = [(row["extras"][extra] or "cannot") if extra in row["extras"] else "" for extra in extras]
        lines.append(f"| `{name.partition('>')[0]}` | {row['version']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write(rows: dict[str, Row]) -> None:
    requirements = sorted(Requirement(line).name for line in PROJECT["dependencies"])
    RECORD.write_text(json.dumps({"requirements": requirements, "frameworks": rows}, indent=1) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"\| framework \|.*?\n(?=\n)", lambda _: render_table(rows), page, flags=re.DOTALL), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="record the result")
    parser.add_argument("--table", action="store_true", help="print the recorded table, and check nothing")
    parser.add_argument("--core", action="store_true", help="check the core only")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK")
    given = parser.parse_args()
    if unknown := set(given.frameworks) - set(FRAMEWORKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    recorded: dict[str, Row] = json.loads(RECORD.read_text(encoding="utf-8"))["frameworks"] if RECORD.exists() else {}
    if given.table:
        print(render_table(recorded), end="")
        return
    newest = {python: resolve(list_requirements(), python) for python in PYTHONS}
    rows = {}
    for name in given.frameworks or FRAMEWORKS:
        rows[name] = check(name, newest, [] if given.core else EXTRAS)
        print(name, json.dumps(rows[name]), flush=True)
    if held_back := [name for name, row in rows.items() if "core" in row]:
        sys.exit(f"Headway holds back: {', '.join(held_back)}")
    if given.write and not given.core:
        write({name: {**recorded, **rows}[name] for name in FRAMEWORKS})


if __name__ == "__main__":
    main()
