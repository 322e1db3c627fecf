"""The manifests of deploy/kubernetes. scripts/check_manifests.py compares them with the schemas of Kubernetes."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"

Document = dict[str, Any]


@cache
def load_documents() -> dict[str, Document]:
    """Return all documents by file and kind."""
    return {
        f"{path.relative_to(FOLDER)} {document['kind']} {document['metadata']['name']}": document
        for path in sorted(FOLDER.rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    }


def find(kind: str, name: str) -> Document:
    """Return the document of this kind and name."""
    [document] = [one for one in load_documents().values() if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return document
