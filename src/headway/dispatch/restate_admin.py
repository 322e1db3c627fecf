"""Registers the workers' endpoint with Restate, and asks about its health."""

import json
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException

from headway.dispatch.restate_address import HostPort, RestateAddress

# Part of the endpoint's URL. It changes with the options of the service, because Restate asks for them once per URL. Workers answer
# under every revision, so that workers of two versions can share an endpoint.
REVISION = "r1"
ANSWER_S = 5.0  # Restate calls the endpoint meanwhile
HEALTH_S = 2.0


class NotRegistered(Exception):
    """No admin address of Restate registered the endpoint."""


def build_deployment_url(address: RestateAddress, secret: str = "") -> str:
    url = f"{address.endpoint}/{REVISION}"
    return f"{url}/{secret}" if secret else url


def register(address: RestateAddress, secret: str) -> None:
    """Register the endpoint at the first admin address that answers. One that is known already stays as it is. The secret is a part
    of the URL and not a header, because Restate keeps the headers of a URL that it knows."""
    problems = []
    for host_port in address.admin:
        try:
            return register_at(host_port, address, secret)
        except (OSError, HTTPException, NotRegistered) as error:
            problems.append(f"{host_port}: {error or type(error).__name__}")
    raise NotRegistered("; ".join(problems))


def register_at(host_port: HostPort, address: RestateAddress, secret: str) -> None:
    url = build_deployment_url(address, secret)
    connection = HTTPConnection(host_port.host, host_port.port, timeout=ANSWER_S)
    try:
        body = json.dumps({"uri": url, "use_http_11": True, "force": False})
        connection.request("POST", "/deployments", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status not in (200, 201):
        problem = content.decode(errors="replace").replace(url, build_deployment_url(address))  # Restate quotes the URL
        raise NotRegistered(f"it answered {answer.status}: {problem[:300]!r}")


def is_registered(address: RestateAddress) -> bool | None:
    """Whether Restate knows the service, or None if no admin address answers."""
    statuses = {ask(host_port, f"/services/{address.service}") for host_port in address.admin}
    return True if 200 in statuses else False if 404 in statuses else None


def list_unreachable(ingress: Sequence[HostPort]) -> list[HostPort]:
    """The addresses of the ingress that do not answer."""
    return [host_port for host_port in ingress if ask(host_port, "/restate/health") != 200]


def ask(host_port: HostPort, path: str) -> int:
    """The status of an answer. 0: there was none."""
    connection = HTTPConnection(host_port.host, host_port.port, timeout=HEALTH_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()
