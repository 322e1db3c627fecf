"""The dependency audit, `make audit`: a vulnerability fails it, and so does a package that it could not look up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "audit.py"
KNOWN = {
    "name": "left-pad",
    "version": "1.0",
    "vulns": [{"id": "CVE-0000-1", "fix_versions": ["1.1"], "aliases": [], "description": ""}],
}
CLEAN = {"name": "right-pad", "version": "2.0", "vulns": []}
SKIPPED = {"name": "odd", "skip_reason": "not known there"}
NOT_AUDITED = "packages were not audited, because the vulnerability service does not know them"


def run_audit(folder: Path, program: str) -> tuple[int, str]:
    """Run the check with this program as its auditor, and return the exit code and output."""
    (folder / "pip_audit").mkdir()
    (folder / "pip_audit" / "__init__.py").touch()
    (folder / "pip_audit" / "__main__.py").write_text(program, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(folder)}
    result = subprocess.run([sys.executable, SCRIPT], env=env, capture_output=True, text=True)
    assert result.stderr == ""
    return result.returncode, result.stdout


def answering(*packages: object, code: int = 0) -> str:
    return f"import sys; print({json.dumps({'dependencies': packages})!r}); sys.exit({code})"


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        (answering(CLEAN), 0, "No known vulnerabilities in the 1 packages that requirements-dev.txt pins.\n"),
        (answering(CLEAN, KNOWN, code=1), 1, "left-pad 1.0: CVE-0000-1, fixed in 1.1\n"),
        (answering(CLEAN, SKIPPED), 2, f"1 {NOT_AUDITED}: odd.\n"),
        (answering(KNOWN, SKIPPED, code=1), 1, f"left-pad 1.0: CVE-0000-1, fixed in 1.1\n1 {NOT_AUDITED}: odd.\n"),
    ],
)
def test_known_vulnerabilities_decide_the_exit_code(tmp_path: Path, program: str, code: int, said: str) -> None:
    assert run_audit(tmp_path, program) == (code, said)


@pytest.mark.parametrize("program", ["raise ConnectionError('no such host')", answering(SKIPPED), "print('<html>')"])
def test_an_unreachable_service_fails_with_one_line(tmp_path: Path, program: str) -> None:
    code, output = run_audit(tmp_path, program)
    assert (code, output.count("\n")) == (2, 1)
    assert output.startswith("The dependencies were not audited")
