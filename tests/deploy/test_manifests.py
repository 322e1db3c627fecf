"""deploy/kubernetes: an API server would accept the manifests, and they fit each other and this version of Headway."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from headway import settings
from headway.surfaces.cli.main import headway
from headway.surfaces.http.routes.health import routes
from tests.deploy.manifests import Document, find, find_problem, load_documents


def list_pods() -> list[Document]:
    """The pod specifications of all Deployments."""
    return [document["spec"]["template"] for document in load_documents().values() if document["kind"] == "Deployment"]


def list_references(value: Any) -> Iterator[tuple[str, str]]:
    """Every object that a document names: its kind and its name."""
    kinds = {
        "configMapRef": "ConfigMap",
        "secretRef": "Secret",
        "secretTargetRef": "Secret",
        "service": "Service",
        "scaleTargetRef": "Deployment",
        "authenticationRef": "TriggerAuthentication",
    }
    if isinstance(value, list):
        for item in value:
            yield from list_references(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            for named in item if isinstance(item, list) else [item]:
                if key in kinds:
                    yield kinds[key], named["name"]
            if key == "claimName":
                yield "PersistentVolumeClaim", item
            yield from list_references(item)


def test_an_api_server_would_accept_every_document() -> None:
    documents = load_documents()
    assert len(documents) >= 14
    assert {name: problem for name, document in documents.items() if (problem := find_problem(document))} == {}


def misspell_a_field(document: Document) -> None:
    container = document["spec"]["template"]["spec"]["containers"][0]
    container["readynessProbe"] = container.pop("readinessProbe")


def write_a_number_as_text(document: Document) -> None:
    document["spec"]["replicas"] = "2"


def forget_the_selector(document: Document) -> None:
    del document["spec"]["selector"]


def use_an_old_version(document: Document) -> None:
    document["apiVersion"] = "extensions/v1beta1"


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (misspell_a_field, "readynessProbe"),
        (write_a_number_as_text, "replicas: '2' is read as 2"),
        (forget_the_selector, "selector"),
        (use_an_old_version, "extensions/v1beta1 has no Deployment"),
    ],
)
def test_a_wrong_document_would_be_found(damage: Callable[[Document], None], problem: str) -> None:
    document = deepcopy(find("Deployment", "headway-serve"))
    damage(document)
    assert problem in find_problem(document)


def test_a_wrong_trigger_would_be_found() -> None:
    document = deepcopy(find("ScaledObject", "headway-worker"))
    document["spec"]["triggers"][0]["metadata"]["targetQueryValue"] = 48
    del document["spec"]["scaleTargetRef"]
    assert "targetQueryValue" in find_problem(document)
    assert "scaleTargetRef" in find_problem(document)


def test_everything_that_a_document_names_exists() -> None:
    known = {(document["kind"], document["metadata"]["name"]) for document in load_documents().values()}
    named = {reference for document in load_documents().values() for reference in list_references(document)}
    assert len(named) >= 7
    assert named - known == set()


def test_selectors_match_the_pods() -> None:
    pods = [pod["metadata"]["labels"] for pod in list_pods()]
    selectors = {
        name: document["spec"]["selector"].get("matchLabels", document["spec"]["selector"])
        for name, document in load_documents().items()
        if document["kind"] in ("Deployment", "PodDisruptionBudget", "Service") and "selector" in document["spec"]
    }
    assert len(selectors) == 5
    assert {name: sum(selector.items() <= pod.items() for pod in pods) for name, selector in selectors.items()} == dict.fromkeys(
        selectors, 1
    )


def test_the_settings_are_those_of_this_version() -> None:
    variables = {**find("ConfigMap", "headway")["data"], **find("Secret", "headway")["stringData"]}
    names = {name: value for name, value in variables.items() if name.startswith("HEADWAY_")}
    loaded = settings.load({name.removeprefix("HEADWAY_").lower(): value for name, value in names.items()})
    assert loaded.host == "0.0.0.0"
    assert str(loaded.home) == list_pods()[0]["spec"]["containers"][0]["volumeMounts"][0]["mountPath"]


def test_the_containers_run_commands_of_headway_and_ask_for_its_health() -> None:
    containers = [container for pod in list_pods() for container in pod["spec"]["containers"]]
    assert [container["args"] for container in containers] == [["headway", "serve"], ["headway", "worker"]]
    assert {container["args"][1] for container in containers} <= set(headway.list_commands(None))  # type: ignore[arg-type]
    serve = containers[0]
    assert serve["ports"] == [{"name": "http", "containerPort": settings.load({"home": "/data"}).port}]
    probes = [serve[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {probe["port"] for probe in probes} == {"http"}
    assert {probe["path"] for probe in probes} <= {route.path for route in routes.routes}  # type: ignore[attr-defined]


def test_no_container_runs_as_root_or_may_become_it() -> None:
    for pod in list_pods():
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        for container in pod["spec"]["containers"]:
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
