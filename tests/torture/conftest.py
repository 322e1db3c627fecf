"""What is tried hard here uses what the tests of the doors and the journeys use."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path += [str(TESTS / "surfaces"), str(TESTS / "journeys"), str(TESTS / "ledger")]
