"""The torture programme uses what the tests of the doors and the journeys use to start servers and to talk to them."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path += [str(TESTS / "surfaces"), str(TESTS / "journeys")]
