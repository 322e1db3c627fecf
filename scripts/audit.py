"""Look for known vulnerabilities in the versions that requirements-dev.txt pins. Run by `make audit`.

Exits with 0 only if the vulnerability service knew every package and none has a known vulnerability. With 1, it lists the
vulnerabilities; with 2, it could not look.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

PINNED = Path(__file__).parent.parent / "requirements-dev.txt"
AUDIT = (sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json")
NAMES_LIMIT = 10


class Findings(NamedTuple):
    vulnerabilities: list[str]
    skipped: list[str]  # packages that the service did not answer about
    audited: int


def ask_service(seconds: float) -> str:
    """Return the service's answer as JSON, or an empty string if it timed out."""
    command = [*AUDIT, "--timeout", str(max(1, int(seconds / 4))), "--requirement", str(PINNED)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False).stdout
    except subprocess.TimeoutExpired:
        return ""


def parse_answer(answer: str) -> Findings | None:
    """Return what the service said, or None if the answer is not valid."""
    try:
        packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    vulnerabilities = [
        f"{package['name']} {package['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for package in packages
        for flaw in package.get("vulns", ())
    ]
    skipped = [package["name"] for package in packages if "vulns" not in package]
    return Findings(vulnerabilities, skipped, len(packages) - len(skipped))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60, help="how long to wait for the service")
    seconds = parser.parse_args().seconds
    findings = parse_answer(ask_service(seconds))
    if findings is None or not findings.audited:
        print(f"The dependencies were not audited: the vulnerability service did not answer within {seconds:g} s.")
        return 2
    if findings.vulnerabilities:
        print("\n".join(findings.vulnerabilities))
    if findings.skipped:
        names = ", ".join(findings.skipped[:NAMES_LIMIT]) + (", …" if len(findings.skipped) > NAMES_LIMIT else "")
        print(f"{len(findings.skipped)} packages were not audited, because the vulnerability service does not know them: {names}.")
    if findings.vulnerabilities:
        return 1
    if findings.skipped:
        return 2
    print(f"No known vulnerabilities in the {findings.audited} packages that {PINNED.name} pins.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
