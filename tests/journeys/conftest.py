"""Whole stories use what the tests of the doors use to start servers and to talk to them."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "surfaces"))
pytest.register_assert_rewrite("reckoning")  # so that it tells what it compared
