"""deploy/kubernetes: the manifests fit each other and this version of Headway."""

from collections.abc import Iterator
from typing import Any

from headway import settings
from headway.surfaces.cli.main import headway
from headway.surfaces.http.routes.health import routes
from tests.deploy.manifests import Document, find, load_documents


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
    assert {probe["path"] for probe in probes} <= {route.path for route in routes.routes}


def test_no_container_runs_as_root_or_may_become_it() -> None:
    for pod in list_pods():
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        for container in pod["spec"]["containers"]:
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
