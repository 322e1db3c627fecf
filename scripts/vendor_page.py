"""Copy the library files that the page and its tests use from their npm packages. A tool for maintainers.

    python scripts/vendor_page.py

Bare imports ("preact") become relative ones, so that the page needs neither a build step nor an import map, which would have to be
inline and allowed by its content security policy. VENDOR.json beside the files lists their versions, licences and hashes.
"""

import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "src" / "headway" / "surfaces" / "web" / "static"
TESTS = ROOT / "tests" / "browser"


class Wanted(NamedTuple):
    package: str  # including the version
    file: str
    to: Path


WANTED = (
    Wanted("preact@11.2.0", "dist/preact.mjs", PAGE / "vendor" / "preact.js"),
    Wanted("preact@11.2.0", "hooks/dist/hooks.mjs", PAGE / "vendor" / "hooks.js"),
    Wanted("@preact/signals-core@1.14.5", "dist/signals-core.mjs", PAGE / "vendor" / "signals-core.js"),
    Wanted("@preact/signals@2.11.4", "dist/signals.mjs", PAGE / "vendor" / "signals.js"),
    Wanted("htm@3.1.1", "dist/htm.mjs", PAGE / "vendor" / "htm.js"),
    Wanted("axe-core@4.14.0", "axe.min.js", TESTS / "vendor" / "axe.min.js"),
)
RELATIVE = {"preact/hooks": "./hooks.js", "preact": "./preact.js", "@preact/signals-core": "./signals-core.js"}
IMPORT = re.compile(r'(from\s*|import\s*)"([^".][^"]*)"')
SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=.*")


def main() -> None:
    records: dict[Path, dict[str, dict[str, str]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for package in dict.fromkeys(module.package for module in WANTED):
            root = unpacked(package, Path(folder))
            manifest = json.loads((root / "package.json").read_text(encoding="utf-8"))
            for module in (module for module in WANTED if module.package == package):
                code = offline((root / module.file).read_text(encoding="utf-8"))
                module.to.parent.mkdir(parents=True, exist_ok=True)
                module.to.write_text(code, encoding="utf-8")
                licence = module.to.parent / f"LICENSE-{manifest['name'].replace('/', '-').strip('@')}"
                licence.write_text((root / "LICENSE").read_text(encoding="utf-8"), encoding="utf-8")
                records.setdefault(module.to.parent, {})[module.to.name] = {
                    "package": manifest["name"],
                    "version": manifest["version"],
                    "licence": manifest["license"],
                    "file": module.file,
                    "sha256": hashlib.sha256(code.encode()).hexdigest(),
                }
    for folder_of, record in records.items():
        (folder_of / "VENDOR.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def unpacked(package: str, folder: Path) -> Path:
    packed = subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True, text=True)
    name = packed.stdout.strip().splitlines()[-1]
    to = folder / name.removesuffix(".tgz")
    with tarfile.open(folder / name) as archive:
        archive.extractall(to, filter="data")
    return to / "package"


def offline(code: str) -> str:
    return IMPORT.sub(lambda match: f'{match[1]}"{RELATIVE.get(match[2], match[2])}"', SOURCE_MAP.sub("", code))


if __name__ == "__main__":
    main()
