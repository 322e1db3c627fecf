"""Checks the manifests of deploy/kubernetes against the models of Kubernetes and KEDA, without a network. `make check` runs it.

The models ignore fields that they do not know, and convert values of a wrong type. So each document is also compared with what they
understood of it. To show that the check would find mistakes, it is also tried on documents that were damaged on purpose.
"""

import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from cloudcoil.models.keda import v1alpha1 as keda
from cloudcoil.models.kubernetes.apps import v1 as apps
from cloudcoil.models.kubernetes.core import v1 as core
from cloudcoil.models.kubernetes.networking import v1 as networking
from cloudcoil.models.kubernetes.policy import v1 as policy
from pydantic import ValidationError

Document = dict[str, Any]

FOLDER = Path(__file__).parent.parent / "deploy" / "kubernetes"
VERSIONS = {"v1": core, "apps/v1": apps, "networking.k8s.io/v1": networking, "policy/v1": policy, "keda.sh/v1alpha1": keda}
# What is done to a document, by its kind and name, and a word that the problem must name.
DAMAGE: list[tuple[str, str, Callable[[Document], object], str]] = [
    (
        "Deployment",
        "headway-serve",
        lambda spec: spec["template"]["spec"]["containers"][0].update(readynessProbe={}),
        "readynessProbe",
    ),
    ("Deployment", "headway-serve", lambda spec: spec.update(replicas="2"), "replicas"),
    ("Deployment", "headway-serve", lambda spec: spec.pop("selector"), "selector"),
    (
        "ScaledObject",
        "headway-worker",
        lambda spec: spec["triggers"][0]["metadata"].update(targetQueryValue=48),
        "targetQueryValue",
    ),
    ("ScaledObject", "headway-worker", lambda spec: spec.pop("triggers"), "triggers"),
    ("NetworkPolicy", "headway", lambda spec: spec.update(egres=[]), "egres"),
]


def load_documents() -> dict[str, Document]:
    """Return all documents by file, kind and name."""
    return {
        f"{path.relative_to(FOLDER)}: {document['kind']} {document['metadata']['name']}": document
        for path in sorted(FOLDER.rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    }


def find_problem(document: Document) -> str:
    """Return why an API server would refuse a document, or an empty string."""
    model = getattr(VERSIONS.get(document["apiVersion"]), document["kind"], None)
    if model is None:
        return f"{document['apiVersion']} has no {document['kind']}"
    try:
        understood = model.model_validate(document).model_dump(by_alias=True, exclude_unset=True, mode="json")
    except ValidationError as error:
        return str(error)
    return "; ".join(list_differences(document, understood))


def list_differences(given: Any, understood: Any, path: str = "") -> Iterator[str]:
    if isinstance(given, dict) and isinstance(understood, dict):
        for key in given:
            yield from list_differences(given[key], understood.get(key), f"{path}.{key}")
    elif isinstance(given, list) and isinstance(understood, list) and len(given) == len(understood):
        for place, pair in enumerate(zip(given, understood, strict=True)):
            yield from list_differences(*pair, f"{path}[{place}]")
    elif type(given) is not type(understood) or given != understood:
        yield f"{path}: {given!r} is read as {understood!r}"


def list_overlooked(documents: dict[str, Document]) -> Iterator[str]:
    """Return the kinds of damage that the check does not find."""
    for kind, name, damage, word in DAMAGE:
        [original] = [one for one in documents.values() if (one["kind"], one["metadata"]["name"]) == (kind, name)]
        document = deepcopy(original)
        damage(document["spec"])
        if word not in find_problem(document):
            yield f"{kind} {name} with a wrong {word}"


def main() -> None:
    documents = load_documents()
    problems = [f"{name}: {problem}" for name, document in documents.items() if (problem := find_problem(document))]
    problems += [f"The check itself is broken: it accepts {damage}." for damage in list_overlooked(documents)]
    if problems:
        sys.exit("\n".join(problems))
    print(f"deploy/kubernetes: {len(documents)} documents are valid")


if __name__ == "__main__":
    main()
