"""Answers of `headway mcp` before the server is loaded, and the JSON-RPC that it speaks."""

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headway.surfaces.mcp.offer import SERVER_INFO, TEMPLATES, ToolOffer

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603


def build_result(request_id: Any, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def build_error(request_id: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def parse_message(text: bytes) -> tuple[dict[str, Any], None] | tuple[None, dict[str, Any]]:
    """Parse a line or a body. Return the message, or the error to answer with."""
    try:
        message = json.loads(text, parse_constant=refuse_constant)
        if b"\\u" in text:
            json.dumps(message, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError):
        return None, build_error(None, PARSE_ERROR, "The text is not JSON.")
    if isinstance(message, list):
        return None, build_error(None, INVALID_REQUEST, "Send one message at a time, not a batch.")
    if not isinstance(message, dict) or not is_message(message):
        return None, build_error(None, INVALID_REQUEST, "The text is not a JSON-RPC 2.0 message.")
    return message, None


def is_message(message: dict[str, Any]) -> bool:
    """Whether it is a request, a notification or an answer."""
    request_id = message.get("id", 0)
    has_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    return (
        message.get("jsonrpc") == "2.0"
        and has_id
        and (isinstance(message.get("method"), str) or not message.keys().isdisjoint(("result", "error")))
    )


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Answers to the requests of a client on standard input and output, as long as the server is not loaded: the handshake, the
# lists, the acknowledgement of a stream of notifications, and calls of the tools of plans and of the ledger.


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
LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGEMENT: Final = "notifications/subscriptions/acknowledged"
SUBSCRIPTION_ID_KEY: Final = "io.modelcontextprotocol/subscriptionId"
LIST_CHANGES: Final = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
UPDATED_RESOURCES: Final = "resourceSubscriptions"

Message = dict[str, Any]


class EarlyLedger(NamedTuple):
    """Work with the rows before the server is loaded. Each function returns None if only the server can do it."""

    list_resources: Callable[[str | None], Message | None]
    call_tool: Callable[[str, Message], Message | None]
    find_position: Callable[[], int | None]  # the end of the event log


class Params(NamedTuple):
    """The parameters of a request, and the protocol version that it carries, if it does."""

    values: Message
    version: str | None


class EarlyAnswers:
    """One client, until the server is loaded."""

    def __init__(self, offer: ToolOffer, ledger: EarlyLedger) -> None:
        self.offer = offer
        self.ledger = ledger
        self.version: str | None = None  # None until the client has begun
        self.opening: list[Message] = []  # passed on to the server once it is loaded
        self.positions: dict[str, int] = {}  # where in the event log the notifications begin that these requests asked for

    @property
    def waits_for_changes(self) -> bool:
        """Whether the client expects notifications, which only the server sends."""
        return bool(self.positions)

    def answer(self, message: Message) -> list[Message] | None:
        """Return the answers to a message: none or one. None means that the server has to answer it."""
        method = message.get("method")
        if method is None:
            return []  # a response to a request that we never sent
        if "id" not in message:
            self.note(method, message)
            return []
        params = read_params(message)
        if params is None:
            return None
        if method == LISTEN:
            return self.acknowledge(message, params)
        result = self.find_result(method, params)
        if result is None:
            return None
        if method == "initialize":
            self.opening.append(message)
        elif method == "resources/list" and self.version != MODERN:
            self.begin_changes(message)  # from the list on, the server tells the client about its changes
        return [build_result(message["id"], result)]

    def note(self, method: str, message: Message) -> None:
        if method == "notifications/initialized":
            self.opening.append(message)
        elif method == "notifications/cancelled":
            request_id = (message.get("params") or {}).get("requestId")
            self.opening = [opened for opened in self.opening if opened["method"] != LISTEN or opened["id"] != request_id]

    def begin_changes(self, message: Message) -> bool:
        """Leave a request for notifications to the server, which sends them from this moment on."""
        position = self.ledger.find_position()
        if position is None:
            return False
        self.opening.append(message)
        self.positions[str(message["id"])] = position
        return True

    def acknowledge(self, message: Message, params: Params) -> list[Message] | None:
        """Acknowledge a stream of notifications. Some clients ask for the lists only after that."""
        wishes = params.values.get("notifications", {})
        is_plain = params.version == MODERN == self.version and params.values.keys() == {"notifications"} and are_wishes(wishes)
        if not is_plain or not self.begin_changes(message):
            return None
        granted = {name: wishes[name] for name in (*LIST_CHANGES, UPDATED_RESOURCES) if wishes.get(name)}
        acknowledged = {"_meta": {SUBSCRIPTION_ID_KEY: message["id"]}, "notifications": granted}
        return [{"jsonrpc": "2.0", "method": ACKNOWLEDGEMENT, "params": acknowledged}]

    def find_result(self, method: str, params: Params) -> Message | None:
        if params.version is not None:
            return self.find_modern_result(method, params)
        if method == "initialize":
            return self.initialize(params.values)
        if self.version not in HANDSHAKES:
            return None
        if method == "tools/call":
            return self.call_tool(params.values)
        return {} if method == "ping" and not params.values else self.find_list(method, params.values)

    def find_modern_result(self, method: str, params: Params) -> Message | None:
        if params.version != MODERN or self.version not in (None, MODERN):
            return None
        if method == "tools/call":
            result = self.call_tool(params.values)
        elif method == "server/discover":
            result = self.discover(params.values)
        else:
            result = self.find_list(method, params.values)
        if result is None:
            return None
        self.version = MODERN
        return {**({} if method == "tools/call" else CACHE_FIELDS), **result, **MODERN_FIELDS}

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

    def call_tool(self, params: Message) -> Message | None:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(arguments, dict) or params.keys() - {"name", "arguments"}:
            return None
        return self.ledger.call_tool(name, arguments) if self.offer.has_tool(name) else None

    def find_list(self, method: str, params: Message) -> Message | None:
        cursor = params.get("cursor")
        if params.keys() - {"cursor"} or (cursor is not None and not isinstance(cursor, str)):
            return None
        if method == "resources/list":
            return self.ledger.list_resources(cursor)
        if cursor is not None:
            return None
        if method == "tools/list":
            return {"tools": self.offer.tools}
        if method == "prompts/list":
            return {"prompts": self.offer.prompts}
        return {"resourceTemplates": TEMPLATES} if method == "resources/templates/list" else None


def read_params(message: Message) -> Params | None:
    """Return the parameters of a request without its metadata, or None if only the server can say what is wrong with them."""
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


def are_wishes(value: Any) -> bool:
    """Whether this names the notifications that a client wants. Kinds that are unknown here are not granted."""
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), bool | None) for name in LIST_CHANGES)
        and isinstance(value.get(UPDATED_RESOURCES), list | None)
        and all(isinstance(uri, str) for uri in value.get(UPDATED_RESOURCES) or ())
    )


def is_object_of_objects(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(member, dict) for member in value.values())


def is_named(info: Any) -> bool:
    return isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)
