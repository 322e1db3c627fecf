"""Answers to the first requests of a client, before the server is loaded: the handshake and the lists.

Loading the MCP library and the tools takes over a second, and some clients wait no longer than that. What is answered here is
exactly what the server would answer, which a test compares. Everything else, and every mistake, is left to the server.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headway.surfaces.mcp.json_rpc import build_result
from headway.surfaces.mcp.offer import SERVER_INFO, TEMPLATES, ToolOffer

MODERN: Final = "2026-07-28"  # without a handshake: every request carries the version
LATEST_HANDSHAKE: Final = "2025-11-25"
HANDSHAKES: Final = ("2025-06-18", LATEST_HANDSHAKE)
OLDER_HANDSHAKES: Final = ("2024-11-05", "2025-03-26")  # their results have fewer fields
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
HANDSHAKE_CAPABILITIES: Final = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": False},
}
MODERN_CAPABILITIES: Final = {
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
MODERN_FIELDS: Final = {"resultType": "complete", "_meta": {SERVER_INFO_KEY: SERVER_INFO}}
CACHE_FIELDS: Final = {"ttlMs": 0, "cacheScope": "private"}

ListResources = Callable[[str | None], dict[str, Any] | None]  # None: the server has to answer
Message = dict[str, Any]


class Params(NamedTuple):
    """The parameters of a request, and the protocol version that it carries, if it does."""

    values: Message
    version: str | None


class EarlyAnswers:
    """One client, until the server is loaded. `list_resources` is None if only the server can list them."""

    def __init__(self, offer: ToolOffer, list_resources: ListResources | None) -> None:
        self.offer = offer
        self.list_resources = list_resources
        self.version: str | None = None  # None: the client has not begun yet
        self.opening: list[Message] = []  # what the server has to see, too, once it is loaded

    def answer(self, message: Message) -> list[Message] | None:
        """Return the answers to a message: none or one. None means that the server has to answer it."""
        method = message.get("method")
        if method is None:
            return []  # an answer, although the server has asked nothing
        if "id" not in message:
            if method == "notifications/initialized":
                self.opening.append(message)
            return []
        params = read_params(message)
        result = self.find_result(method, params) if params is not None else None
        if result is None:
            return None
        if method == "initialize" or (method == "resources/list" and self.version != MODERN):
            self.opening.append(message)  # from the list on, the server tells the client about its changes
        return [build_result(message["id"], result)]

    def find_result(self, method: str, params: Params) -> Message | None:
        if params.version is not None:
            return self.find_modern_result(method, params)
        if method == "initialize":
            return self.initialize(params.values)
        if self.version not in HANDSHAKES:
            return None
        return {} if method == "ping" and not params.values else self.find_list(method, params.values)

    def find_modern_result(self, method: str, params: Params) -> Message | None:
        if params.version != MODERN or self.version not in (None, MODERN):
            return None
        result = self.discover(params.values) if method == "server/discover" else self.find_list(method, params.values)
        if result is None:
            return None
        self.version = MODERN
        return {**CACHE_FIELDS, **result, **MODERN_FIELDS}

    def initialize(self, params: Message) -> Message | None:
        requested = params.get("protocolVersion")
        is_plain = isinstance(requested, str) and is_object_of_objects(params.get("capabilities"))
        if self.version is not None or not is_plain or requested in OLDER_HANDSHAKES or not is_named(params.get("clientInfo")):
            return None
        self.version = requested if requested in HANDSHAKES else LATEST_HANDSHAKE
        return {
            "protocolVersion": self.version,
            "capabilities": HANDSHAKE_CAPABILITIES,
            "serverInfo": SERVER_INFO,
            "instructions": self.offer.instructions,
        }

    def discover(self, params: Message) -> Message | None:
        if params:
            return None
        return {
            "supportedVersions": [MODERN],
            "capabilities": MODERN_CAPABILITIES,
            "instructions": self.offer.instructions,
        }

    def find_list(self, method: str, params: Message) -> Message | None:
        cursor = params.get("cursor")
        if params.keys() - {"cursor"} or (cursor is not None and not isinstance(cursor, str)):
            return None
        if method == "resources/list":
            return self.list_resources(cursor) if self.list_resources else None
        if cursor is not None:
            return None
        if method == "tools/list":
            return {"tools": self.offer.tools}
        if method == "prompts/list":
            return {"prompts": self.offer.prompts}
        return {"resourceTemplates": TEMPLATES} if method == "resources/templates/list" else None


def read_params(message: Message) -> Params | None:
    """Return the parameters of a request without its metadata. None: only the server can say what is wrong with them."""
    params = message.get("params", {})
    if not isinstance(params, dict):
        return None
    values = {name: value for name, value in params.items() if name != "_meta"}
    meta = params.get("_meta", {})
    if not isinstance(meta, dict):
        return None
    if VERSION_KEY not in meta:
        return Params(values, None)
    is_plain = isinstance(meta[VERSION_KEY], str) and is_object_of_objects(meta.get(CAPABILITIES_KEY))
    is_anonymous = CLIENT_INFO_KEY not in meta
    return Params(values, meta[VERSION_KEY]) if is_plain and (is_anonymous or is_named(meta[CLIENT_INFO_KEY])) else None


def is_object_of_objects(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(member, dict) for member in value.values())


def is_named(info: Any) -> bool:
    return isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)
