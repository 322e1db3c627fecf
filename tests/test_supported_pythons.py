"""The wheel on the oldest and the newest Python that pyproject.toml names, in an environment with nothing but what it requires.

The packages for a Python other than the one that runs the tests come from a package index, once. `make compatibility` also tries
every Python with the newest and with the oldest packages that pyproject.toml admits. `make test` installs the wheel in one
environment: tests/test_core_install.py.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from tests.wheel_installs import (
    NEWEST,
    OLDEST,
    PROJECT,
    README_PROGRAM,
    ROOT,
    SUPPORTED,
    Install,
    create_core,
    create_newest,
    create_oldest,
    require_python,
)

REMOTE = """
import asyncio, sys
import headway
from headway import sync

async def main(url, token):
    async with headway.connect(url, token) as client:
        todo = await client.todos.add("from afar")
        print((await client.todos.complete(todo.id, "done")).status)
        stream = client.ask_stream("Calculate 6*7.")
        print("".join([event.text async for event in stream]))

asyncio.run(main(*sys.argv[1:]))
with sync.connect(*sys.argv[1:]) as client:
    print([todo.subject for todo in client.todos.list(status="completed") if not todo.turn_id])
"""
ABOUT = "import sys, headway; print(*sys.version_info[:2], sep='.'); print(headway.__file__)"


def test_the_claims_about_python_agree() -> None:
    minors = [int(version.removeprefix("3.")) for version in SUPPORTED]
    assert minors == [*range(minors[0], minors[-1] + 1)]
    assert PROJECT["requires-python"] == f">={OLDEST}"
    for page in ("README.md", "docs/install.md"):
        assert f"You need Python {OLDEST} or newer" in (ROOT / page).read_text(encoding="utf-8")
    images = re.findall(r"^FROM python:([\d.]+)-slim", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(images) <= set(SUPPORTED)


@pytest.mark.compatibility
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_wheel_works_on(version: str, wheel: Path, tmp_path: Path) -> None:
    python = require_python(version)
    try_everything(create_core(tmp_path / "venv", python, wheel), version, tmp_path)


@pytest.mark.compatibility
@pytest.mark.parametrize("create", [create_newest, create_oldest])
@pytest.mark.parametrize("version", SUPPORTED)
def test_the_wheel_works_with_the_newest_and_the_oldest_packages(
    version: str, create: Callable[[Path, Path, Any], Install], wheel: Path, tmp_path: Path
) -> None:
    try_everything(create(tmp_path / "venv", require_python(version), wheel), version, tmp_path)


def try_everything(install: Install, version: str, folder: Path) -> None:
    """Run the README's program, commands, the server, and clients of it."""
    work = folder / "work"
    work.mkdir()
    code, out, err = install.run(work, "python", "-c", ABOUT)
    assert (code, out, err) == (0, f"{version}\n{install.site / 'headway' / '__init__.py'}\n", "")

    (work / "program.py").write_text(README_PROGRAM, encoding="utf-8")
    code, out, err = install.run(work, "python", "program.py")
    assert (code, err) == (0, "")
    assert "8 * 45 = 360" in out

    assert install.run(work, "headway", "--version") == (0, f"headway, version {headway.__version__}\n", "")
    assert install.run(work, "headway", "doctor")[0] == 0
    (work / "remote.py").write_text(REMOTE, encoding="utf-8")
    with install.serve(work) as client:
        assert client.get("/").status_code == 200
        assert client.get("/readyz").status_code == 200
        secret = client.headers["Authorization"].removeprefix("Bearer ")
        code, out, err = install.run(work, "python", "remote.py", str(client.base_url), secret)
    assert (code, err) == (0, "")
    status, *answer, subjects = out.splitlines()
    assert status == "completed"
    assert "6 * 7 = 42" in "\n".join(answer)
    assert "from afar" in subjects
