"""The MCP servers of a home, from its mcp.json."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from headway.ledger.errors import SettingsError

FILE_NAME: Final = "mcp.json"
NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,31}")  # two underscores separate it from a tool's name
VARIABLE_PATTERN: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,200})(?::-([^}]{0,2000}))?\}")
FIELDS: Final = frozenset(("command", "args", "env", "cwd", "url", "headers", "type", "disabled", "start_timeout_s", "timeout_s"))
CALL_TIMEOUT_S: Final = 300.0
MAX_TIMEOUT_S: Final = 86_400.0
START_TIMEOUT_S: Final = 30.0
READY_TIMEOUT_S: Final = 10.0  # how long a run waits for servers that start for the first time
SEPARATOR: Final = "__"  # between a server's name and a tool's
EXAMPLE: Final = '{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}'

ServerStatus = Literal["ready", "starting", "down", "not_started"]


class McpServerConfig(NamedTuple):
    """A server of mcp.json: the command that starts it, or its URL."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    start_timeout_s: float = START_TIMEOUT_S
    timeout_s: float = CALL_TIMEOUT_S  # of a call

    @property
    def family(self) -> str:
        return f"mcp:{self.name}"

    @property
    def secrets(self) -> Iterator[str]:
        """The values that must not appear in logs or results: they often are keys. `Bearer KEY` also is one without `Bearer`."""
        url = urlsplit(self.url)
        values = [value for _, value in (*self.env, *self.headers, *parse_qsl(url.query))]
        words = [word for _, value in self.headers for word in value.split()[1:]]
        return filter(None, (*values, *words, url.password))


def load_servers(path: Path, variables: Mapping[str, str], more: Mapping[str, Any] | None = None) -> tuple[McpServerConfig, ...]:
    """Load the servers of mcp.json and the ones that a program passes in, which win. Raises SettingsError with what to write."""
    passed_in = more or {}
    documents = {**read_document(path), **passed_in}
    return tuple(
        build_server(name, document, "mcp" if name in passed_in else str(path), variables)
        for name, document in documents.items()
        if not (isinstance(document, dict) and document.get("disabled") is True)
    )


def list_secrets(path: Path, variables: Mapping[str, str]) -> list[str]:
    """List the secrets in mcp.json, for the log. A file with a mistake has none: the command stops because of it."""
    try:
        return [secret for server in load_servers(path, variables) for secret in server.secrets]
    except SettingsError:
        return []


def read_document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid JSON: {error}.") from None
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        raise SettingsError(f"{path} must have an object mcpServers, such as {EXAMPLE}.")
    return servers


def build_server(name: str, document: Any, path: str, variables: Mapping[str, str]) -> McpServerConfig:
    where = f"{path}, server {name[:60]!r}"
    if not NAME_PATTERN.fullmatch(name):
        raise SettingsError(f"{where}: a name has at most 32 letters, digits, - and single _.")
    if not isinstance(document, dict):
        raise SettingsError(f"{where} must be an object.")
    if unknown := sorted(document.keys() - FIELDS):
        raise SettingsError(f"{where} cannot have {unknown[0][:60]!r}. It can have {', '.join(sorted(FIELDS))}.")
    if ("command" in document) == ("url" in document):
        raise SettingsError(f"{where} needs either a command or a url.")
    expand = Expander(where, variables)
    return McpServerConfig(
        name,
        command=expand.text(document, "command"),
        args=expand.texts(document, "args"),
        env=expand.pairs(document, "env"),
        cwd=expand.text(document, "cwd"),
        url=check_url(expand.text(document, "url"), where),
        headers=expand.pairs(document, "headers"),
        start_timeout_s=check_timeout(document, "start_timeout_s", START_TIMEOUT_S, where),
        timeout_s=check_timeout(document, "timeout_s", CALL_TIMEOUT_S, where),
    )


def check_url(url: str, where: str) -> str:
    try:
        is_usable = not url or (url.startswith(("http://", "https://")) and bool(urlsplit(url).hostname))
    except ValueError:
        is_usable = False
    if not is_usable:
        raise SettingsError(f"{where}: url must begin with http:// or https:// and name a host.")
    return url


def check_timeout(document: Mapping[str, Any], field: str, default: float, where: str) -> float:
    seconds = document.get(field, default)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_TIMEOUT_S:
        raise SettingsError(f"{where}: {field} must be a number of seconds between 0 and {MAX_TIMEOUT_S:g}.")
    return float(seconds)


class Expander(NamedTuple):
    """Reads the texts of a server's entry, with ${VARIABLE} and ${VARIABLE:-default} replaced."""

    where: str
    variables: Mapping[str, str]

    def text(self, document: Mapping[str, Any], field: str) -> str:
        return self.expand(document.get(field, ""), field)

    def texts(self, document: Mapping[str, Any], field: str) -> tuple[str, ...]:
        values = document.get(field, [])
        if not isinstance(values, list):
            raise SettingsError(f"{self.where}: {field} must be a list of texts.")
        return tuple(self.expand(value, field) for value in values)

    def pairs(self, document: Mapping[str, Any], field: str) -> tuple[tuple[str, str], ...]:
        values = document.get(field, {})
        if not isinstance(values, dict):
            raise SettingsError(f"{self.where}: {field} must be an object of texts.")
        return tuple((name, self.expand(value, field)) for name, value in values.items())

    def expand(self, value: Any, field: str) -> str:
        if not isinstance(value, str):
            raise SettingsError(f"{self.where}: {field} must be text.")

        def replace(match: re.Match[str]) -> str:
            name, default = match.groups()
            if name not in self.variables and default is None:
                raise SettingsError(f"{self.where}: {field} needs the environment variable {name}, which is not set.")
            return self.variables.get(name) or default or ""

        return VARIABLE_PATTERN.sub(replace, value)
