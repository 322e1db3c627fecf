"""Check the versions pinned in constraints.txt against the vulnerability service. Part of `make check`.

A known vulnerability fails the check. If the service cannot be reached, the script prints one line and succeeds, so that work
without a network is not blocked.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PINNED = Path(__file__).parent.parent / "constraints.txt"
AUDIT = (sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json")


def asked(seconds: float) -> str:
    """Return the service's answer as JSON, or an empty string if it timed out."""
    command = [*AUDIT, "--timeout", str(max(1, int(seconds / 4))), "--requirement", str(PINNED)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False).stdout
    except subprocess.TimeoutExpired:
        return ""


def findings(answer: str) -> list[str] | None:
    """Return a line for each known vulnerability, or None if the answer is not valid."""
    try:
        packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    if not any("vulns" in package for package in packages):
        return None
    return [
        f"{package['name']} {package['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for package in packages
        for flaw in package.get("vulns", ())
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20, help="how long to wait for the service")
    seconds = parser.parse_args().seconds
    lines = findings(asked(seconds))
    if lines is None:
        print(f"Dependencies were not audited: the vulnerability service did not answer within {seconds:g} s.")
        return 0
    print("\n".join(lines) or "No known vulnerabilities in the versions that constraints.txt pins.")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
