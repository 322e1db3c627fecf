"""JavaScript packages for tests: pinned in a folder of the tests, and installed outside of the source tree.

`python -m tests.npm_packages NAME…` installs them before the tests run. A test that runs without that installs its own.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
CACHE = TESTS.parent / ".cache"
INSTALLING_S = 300


def install_packages(name: str) -> Path:
    """Install what tests/NAME/package-lock.json pins into a shared folder, once. Tests fail if node or a package is missing."""
    node = shutil.which("npm") and shutil.which("node")
    assert node, "programs of other people that tests run need node and npm"
    pins = [TESTS / name / file for file in ("package.json", "package-lock.json")]
    folder = CACHE / name / hashlib.sha256(b"".join(pin.read_bytes() for pin in pins)).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the tests run in several processes
        if not (folder / "installed").exists():
            print(f"Installing the JavaScript packages of tests/{name} …", file=sys.stderr)
            for pin in pins:
                shutil.copy(pin, folder)
            command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALLING_S)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            (folder / "installed").touch()
    return folder


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        install_packages(wanted)
