"""Check that Headway can be installed beside other frameworks: `python scripts/check_frameworks.py [FRAMEWORK …]`.

Resolves each framework alone, and beside Headway with no extra and with some, and prints which version of the framework that gives.
Fails if the core holds a framework back. Needs uv and a package index; installs nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FRAMEWORKS = (
    *("agno", "autogen-agentchat", "browser-use", "chainlit", "crewai", "deepagents", "google-adk", "instructor", "langchain"),
    *("langchain-mcp-adapters", "llama-index", "openai-agents", "pydantic-ai", "semantic-kernel[mcp]", "smolagents"),
    "strands-agents",
)
EXTRAS = ("", "openai", "mcp", "terminal", "postgres")
OLDEST, NEWEST = "3.11", "3.13"


class Row(NamedTuple):
    framework: str
    alone: str
    beside: dict[str, str]  # by extra; empty if they cannot be installed together


def list_requirements(extra: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(project["optional-dependencies"][extra] if extra else ())]


def resolve(framework: str, requirements: list[str], python: str) -> str:
    """Return the version of the framework that can be installed with these requirements; empty if none can."""
    uv = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
    if uv is None:
        sys.exit("This needs uv: pip install uv")
    command = [uv, "pip", "compile", "-q", "--no-header", "--no-annotate", "--python-version", python, "-"]
    done = subprocess.run(
        command, input="\n".join([framework, *requirements]), capture_output=True, text=True, timeout=300, check=False
    )
    name = re.escape(framework.partition("[")[0])
    found = re.search(rf"^{name}==(\S+)$", done.stdout, re.MULTILINE)
    return found[1] if done.returncode == 0 and found else ""


def check(framework: str, python: str = OLDEST) -> Row:
    alone = resolve(framework, [], python)
    return Row(framework, alone, {extra: resolve(framework, list_requirements(extra), python) for extra in EXTRAS})


def main(names: list[str]) -> None:
    print("| framework | alone | " + " | ".join(f"`headway[{extra}]`" if extra else "`headway`" for extra in EXTRAS) + " |")
    print("|---" * (len(EXTRAS) + 2) + "|")
    rows = []
    for name in names or FRAMEWORKS:
        rows.append(row := check(name))
        cells = ["same" if version == row.alone else version or "cannot" for version in row.beside.values()]
        print(f"| `{name}` | {row.alone} | {' | '.join(cells)} |", flush=True)
    if held_back := [row.framework for row in rows if not row.alone or row.beside[""] != row.alone]:
        sys.exit(f"Headway holds back: {', '.join(held_back)}")


if __name__ == "__main__":
    main(sys.argv[1:])
