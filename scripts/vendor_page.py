"""Copy the library files that the page and its tests use from their npm packages. A tool for maintainers.

    python scripts/vendor_page.py

Bare imports ("preact") become relative ones, so that the page needs neither a build step nor an import map, which would have to be
inline and allowed by its content security policy. A library of several packages becomes one file. VENDOR.json beside the files
lists their versions, licences and hashes.
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
    appended: str = ""  # what makes a module of a script


class Bundle(NamedTuple):
    """Packages in one minified file, with what they import."""

    packages: tuple[str, ...]  # including the version
    code: str  # what the file exports
    replaced: dict[str, str]  # imports that become imports of the page's own modules
    to: Path


HIGHLIGHT = "@highlightjs/cdn-assets@11.12.0"
LANGUAGES = (
    *("bash", "c", "cpp", "csharp", "css", "diff", "dockerfile", "go", "ini", "java", "javascript", "json", "kotlin", "markdown"),
    *("php", "python", "ruby", "rust", "sql", "swift", "typescript", "xml", "yaml"),
)
BUNDLER = "esbuild@0.28.2"
BUNDLES = (
    Bundle(
        ("markdown-it@15.0.3", "markdown-it-footnote@4.0.0"),
        'export { default as MarkdownIt } from "markdown-it"; export { default as footnotes } from "markdown-it-footnote";',
        {"entities": "../js/markdown/entities.js"},  # the names of all entities are 16 KB of the 43 KB
        PAGE / "vendor" / "markdown-it.js",
    ),
)
WANTED = (
    Wanted("preact@11.2.0", "dist/preact.mjs", PAGE / "vendor" / "preact.js"),
    Wanted("preact@11.2.0", "hooks/dist/hooks.mjs", PAGE / "vendor" / "hooks.js"),
    Wanted("@preact/signals-core@1.14.5", "dist/signals-core.mjs", PAGE / "vendor" / "signals-core.js"),
    Wanted("@preact/signals@2.11.4", "dist/signals.mjs", PAGE / "vendor" / "signals.js"),
    Wanted("htm@3.1.1", "dist/htm.mjs", PAGE / "vendor" / "htm.js"),
    Wanted("temml@0.13.5", "dist/temml.min.js", PAGE / "vendor" / "temml.js", "\nexport default temml;\n"),
    Wanted(HIGHLIGHT, "es/core.min.js", PAGE / "vendor" / "highlight" / "core.js"),
    *(Wanted(HIGHLIGHT, f"es/languages/{one}.min.js", PAGE / "vendor" / "highlight" / f"{one}.js") for one in LANGUAGES),
    Wanted("axe-core@4.14.0", "axe.min.js", TESTS / "vendor" / "axe.min.js"),
)
RELATIVE = {"preact/hooks": "./hooks.js", "preact": "./preact.js", "@preact/signals-core": "./signals-core.js"}
IMPORT = re.compile(r'(from\s*|import\s*)"([^".][^"]*)"')
SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=.*")
BANNER = re.compile(r"/\*!.*?\*/\s*", re.DOTALL)  # the page names no other host; the licence has its own file

Record = dict[str, str | dict[str, str]]


def main() -> None:
    records: dict[Path, dict[str, Record]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for package in dict.fromkeys(module.package for module in WANTED):
            root = unpacked(package, Path(folder))
            for module in (module for module in WANTED if module.package == package):
                code = offline((root / module.file).read_text(encoding="utf-8")) + module.appended
                if PAGE in module.to.parents:
                    code = BANNER.sub("", code)
                records.setdefault(module.to.parent, {})[module.to.name] = write(module.to, code, root, file=module.file)
        for bundle in BUNDLES:
            code, roots = bundled(bundle, Path(folder))
            contents = {about["name"]: f"{about['version']}, {about['license']}" for about in map(manifest, roots)}
            records[bundle.to.parent][bundle.to.name] = write(bundle.to, code, roots[0], bundler=BUNDLER, contents=contents)
            for root in roots[1:]:
                write_licence(bundle.to.parent, root)
    for folder_of, record in records.items():
        (folder_of / "VENDOR.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def write(to: Path, code: str, root: Path, **details: str | dict[str, str]) -> Record:
    """Write a file and the licence of its package. Returns its record."""
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(code, encoding="utf-8")
    write_licence(to.parent, root)
    about = manifest(root)
    digest = hashlib.sha256(code.encode()).hexdigest()
    return {"package": about["name"], "version": about["version"], "licence": about["license"], **details, "sha256": digest}


def write_licence(to: Path, root: Path) -> None:
    text = min(root.glob("LICENSE*")).read_text(encoding="utf-8")
    name = re.sub(r"[/.]", "-", manifest(root)["name"]).strip("@")  # a name that ends in .js would be served
    (to / f"LICENSE-{name}").write_text(text, encoding="utf-8")


def manifest(root: Path) -> dict[str, str]:
    about: dict[str, str] = json.loads((root / "package.json").read_text(encoding="utf-8"))
    return about


def unpacked(package: str, folder: Path) -> Path:
    packed = subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True, text=True)
    name = packed.stdout.strip().splitlines()[-1]
    to = folder / name.removesuffix(".tgz")
    with tarfile.open(folder / name) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has no filters
        archive.extractall(to)
    return to / "package"


def bundled(bundle: Bundle, folder: Path) -> tuple[str, list[Path]]:
    """Return the code of a bundle, and the packages that are in it."""
    (folder / "package.json").write_text("{}", encoding="utf-8")
    install = ["npm", "install", "--silent", "--ignore-scripts", *bundle.packages, BUNDLER]
    subprocess.run(install, cwd=folder, check=True, capture_output=True)
    (folder / "entry.js").write_text(bundle.code, encoding="utf-8")
    options = ["--bundle", "--minify", "--format=esm", "--target=es2023", "--charset=utf8", "--legal-comments=none"]
    replaced = [option for name, to in bundle.replaced.items() for option in (f"--alias:{name}={to}", f"--external:{to}")]
    command = ["node_modules/.bin/esbuild", "entry.js", *options, *replaced, "--outfile=bundle.js", "--metafile=used.json"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (output,) = json.loads((folder / "used.json").read_text(encoding="utf-8"))["outputs"].values()
    used = [name for name, share in output["inputs"].items() if name != "entry.js" and share["bytesInOutput"]]
    roots = dict.fromkeys(find_package(folder / name) for name in used)
    named = [folder / "node_modules" / package.rpartition("@")[0] for package in bundle.packages]
    return (folder / "bundle.js").read_text(encoding="utf-8"), [*named, *(root for root in roots if root not in named)]


def find_package(file: Path) -> Path:
    return next(parent for parent in file.parents if parent.parent.name == "node_modules")


def offline(code: str) -> str:
    return IMPORT.sub(lambda match: f'{match[1]}"{RELATIVE.get(match[2], match[2])}"', SOURCE_MAP.sub("", code))


if __name__ == "__main__":
    main()
