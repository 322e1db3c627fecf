"""A folder to type commands into, free of the settings of whoever runs the tests."""

import os
from pathlib import Path

import pytest
from shell import Shell


@pytest.fixture
def headway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in list(os.environ):
        if name.startswith("HEADWAY_") and not name.startswith("HEADWAY_TEST_"):
            monkeypatch.delenv(name)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Shell(folder)
