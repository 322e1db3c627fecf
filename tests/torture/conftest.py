"""The torture programme uses what the tests of the doors use to start servers and to talk to them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "surfaces"))
