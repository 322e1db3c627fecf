"""The ways to use the library. And no tracing or telemetry: frameworks send nothing over the network during tests."""

import os
from pathlib import Path

import pytest

from tests.library.contract import Variant, build_embedded

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["LANGSMITH_TRACING"] = "false"


@pytest.fixture(params=["embedded-sqlite", "embedded-postgres"])
def variant(request: pytest.FixtureRequest, tmp_path: Path) -> Variant:
    """Each way to use the library."""
    kind, _, database = request.param.partition("-")
    assert kind == "embedded"
    return build_embedded(request.getfixturevalue(f"{database}_url"), tmp_path / "home")
