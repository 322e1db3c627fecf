"""Write the list of components of a release (SBOM) in the CycloneDX format. Run by `make sbom` and `make build`.

    python scripts/write_sbom.py dist

It lists what requirements.txt pins, with the hashes of the files that may be installed, and the JavaScript and font of the page.
Licences and dependencies are those that the installed packages declare; a package for another platform is listed without them. The
same sources give the same file.
"""

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

import headway

ROOT = Path(__file__).parent.parent
PINNED = ROOT / "requirements.txt"
PAGE = ROOT / "src" / "headway" / "surfaces" / "web" / "static"  # each folder with files of others has a VENDOR.json
BUILD_TOOLS = ("editables", "hatchling")
LICENCE_LIMIT = 60  # characters; some packages have the whole text there
PIN = re.compile(r"([A-Za-z0-9._-]+)==([^ ;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
NAME = re.compile(r"[A-Za-z0-9._-]+")

Component = dict[str, Any]


class Pin(NamedTuple):
    name: str
    version: str
    hashes: list[str]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def read_pins(text: str) -> list[Pin]:
    pins: list[Pin] = []
    for line in text.splitlines():
        if match := PIN.match(line):
            pins.append(Pin(normalize(match[1]), match[2], []))
        elif match := HASH.search(line):
            pins[-1].hashes.append(match[1])
    return pins


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def describe_pin(pin: Pin) -> Component:
    return {
        "type": "library",
        "bom-ref": pin.purl,
        "name": pin.name,
        "version": pin.version,
        "purl": pin.purl,
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in sorted(pin.hashes)],
        "scope": "excluded" if pin.name in BUILD_TOOLS else "required",
        **describe_licence(find_licence(pin)),
    }


def describe_licence(licence: str) -> dict[str, Any]:
    return {"licenses": [{"license": {"name": licence}}]} if licence else {}


def find_licence(pin: Pin) -> str:
    """Return the licence that the installed package declares: an expression, its classifiers, or a short name."""
    try:
        about = metadata.metadata(pin.name)
    except metadata.PackageNotFoundError:
        return ""
    declared = first(about.get_all("License-Expression"))
    classifiers = [entry.rpartition(" :: ")[2] for entry in about.get_all("Classifier", []) if entry.startswith("License ::")]
    name = first(about.get_all("License"))
    return declared or ", ".join(classifiers) or (name if len(name) <= LICENCE_LIMIT and "\n" not in name else "")


def first(values: list[Any] | None) -> str:
    return str(values[0]) if values else ""


def list_requirements(name: str, known: dict[str, str]) -> list[str]:
    """Return the pinned components that an installed package requires."""
    try:
        required = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    names = (normalize(match[0]) for entry in required if "extra ==" not in entry and (match := NAME.match(entry)))
    return sorted({known[name] for name in names if name in known})


def describe_vendored() -> list[Component]:
    """Return one component for each package that the page contains, with its files. Those that are bundled into a file of another
    have none of their own."""
    packages: dict[str, Component] = {}
    for path in sorted(PAGE.rglob("VENDOR.json")):
        for file, about in json.loads(path.read_text(encoding="utf-8")).items():
            component = add_vendored(packages, about["package"], about.get("version", ""), about["licence"], about.get("purl", ""))
            digest = {"alg": "SHA-256", "content": about["sha256"]}
            ref = f"{component['bom-ref']}#{file}"
            component["components"].append({"type": "file", "bom-ref": ref, "name": file, "hashes": [digest]})
            for name, version_and_licence in about.get("contents", {}).items():
                add_vendored(packages, name, *version_and_licence.split(", "))
    return list(packages.values())


def add_vendored(packages: dict[str, Component], name: str, version: str, licence: str, purl: str = "") -> Component:
    purl = purl or f"pkg:npm/{name.replace('@', '%40')}@{version}"
    about = {"type": "library", "bom-ref": purl, "name": name, **({"version": version} if version else {}), "purl": purl}
    return packages.setdefault(purl, {**about, **describe_licence(licence), "components": []})


def build_sbom() -> dict[str, Any]:
    pins = read_pins(PINNED.read_text(encoding="utf-8"))
    vendored = describe_vendored()
    known = {pin.name: pin.purl for pin in pins}
    own = f"pkg:pypi/headway@{headway.__version__}"
    direct = [*list_requirements("headway", known), *(component["bom-ref"] for component in vendored)]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "headway",
                "version": headway.__version__,
                "purl": own,
                **describe_licence("MIT"),
            }
        },
        "components": [*map(describe_pin, pins), *vendored],
        "dependencies": [
            {"ref": own, "dependsOn": direct},
            *({"ref": pin.purl, "dependsOn": list_requirements(pin.name, known)} for pin in pins),
        ],
    }
    return {"serialNumber": uuid5(NAMESPACE_URL, json.dumps(document)).urn, **document}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"headway-{headway.__version__}.cdx.json"
    sbom = build_sbom()
    path.write_text(json.dumps(sbom, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{path}: {len(sbom['components'])} components")


if __name__ == "__main__":
    main()
