"""What a file of a client was before the guard was installed in it, so that the guard leaves it byte for byte as it was."""

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from headway import trust


class Original(NamedTuple):
    before: str | None  # None: there was no file
    after: str  # what the installation wrote


def find_record(file: Path) -> Path:
    """Return where the original of a file is kept: among the user's own state, not in the project."""
    name = sha256(os.fsencode(file.resolve())).hexdigest()
    return Path(trust.find_state_folder()).parent / "guard" / f"{name}.json"


def keep(file: Path, original: Original) -> None:
    record = find_record(file)
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    record.touch(mode=0o600)
    record.write_text(json.dumps(original._asdict()), encoding="utf-8")


def find(file: Path) -> Original | None:
    try:
        document = json.loads(find_record(file).read_text(encoding="utf-8"))
        return Original(document["before"], str(document["after"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def forget(file: Path) -> None:
    find_record(file).unlink(missing_ok=True)
