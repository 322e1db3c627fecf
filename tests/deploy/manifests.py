"""The manifests of deploy/kubernetes, and what an API server would say about them."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"

Document = dict[str, Any]


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


def find_problem(document: Document) -> str:
    """Return why an API server would refuse a document, or an empty string.

    The models of Kubernetes and KEDA ignore fields that they do not know, and convert values of a wrong type. So the document is
    also compared with what they understood of it.
    """
    # These modules take seconds to import, and only one test needs them.
    from cloudcoil.models.keda import v1alpha1 as keda  # noqa: PLC0415
    from cloudcoil.models.kubernetes.apps import v1 as apps  # noqa: PLC0415
    from cloudcoil.models.kubernetes.core import v1 as core  # noqa: PLC0415
    from cloudcoil.models.kubernetes.networking import v1 as networking  # noqa: PLC0415
    from cloudcoil.models.kubernetes.policy import v1 as policy  # noqa: PLC0415
    from pydantic import ValidationError  # noqa: PLC0415

    versions = {"v1": core, "apps/v1": apps, "networking.k8s.io/v1": networking, "policy/v1": policy, "keda.sh/v1alpha1": keda}
    model = getattr(versions.get(document["apiVersion"]), document["kind"], None)
    if model is None:
        return f"{document['apiVersion']} has no {document['kind']}"
    try:
        understood = model.model_validate(document).model_dump(by_alias=True, exclude_unset=True, mode="json")
    except ValidationError as error:
        return str(error)
    return "; ".join(list_differences(document, understood))


def list_differences(given: Any, understood: Any, path: str = "") -> list[str]:
    if isinstance(given, dict) and isinstance(understood, dict):
        keys = [*given, *(key for key in understood if key not in given)]
        return [line for key in keys for line in list_differences(given.get(key), understood.get(key), f"{path}.{key}")]
    if isinstance(given, list) and isinstance(understood, list) and len(given) == len(understood):
        pairs = enumerate(zip(given, understood, strict=True))
        return [line for place, pair in pairs for line in list_differences(*pair, f"{path}[{place}]")]
    return [] if type(given) is type(understood) and given == understood else [f"{path}: {given!r} is read as {understood!r}"]
