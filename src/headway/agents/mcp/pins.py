"""Records how an MCP server first described its tools. The hints decide which calls need approval, so they must not change."""

import json
import logging
from hashlib import sha256
from typing import Final, NamedTuple

from mcp import types

log = logging.getLogger("headway.mcp")

PINS_LIMIT: Final = 2_000  # tools of one server. Any more are treated as changed
FACTS: Final = {"title", "description", "input_schema", "output_schema", "annotations"}


class Effects(NamedTuple):
    """The hints of a tool that decide about its calls."""

    need_approval: bool
    are_repeatable: bool  # after a crash


class Pins:
    """The tools of one server as they were first listed, for as long as this process runs or until the operator restarts it."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.digests: dict[str, str] = {}
        self.changed: set[str] = set()

    def judge(self, tool: types.Tool) -> Effects:
        """Follow the server's hints about a tool, unless it has described the tool differently before."""
        if self.has_changed(tool):
            return Effects(need_approval=True, are_repeatable=False)
        hints = tool.annotations or types.ToolAnnotations()
        is_read_only = bool(hints.read_only_hint)
        return Effects(
            need_approval=not is_read_only and hints.destructive_hint is not False,
            are_repeatable=is_read_only or bool(hints.idempotent_hint),
        )

    def has_changed(self, tool: types.Tool) -> bool:
        if tool.name not in self.digests and len(self.digests) >= PINS_LIMIT:
            return True
        digest = compute_digest(tool)
        if self.digests.setdefault(tool.name, digest) == digest:
            return False
        if tool.name not in self.changed:
            self.changed.add(tool.name)
            log.warning(
                "MCP server %s describes a tool differently than before: %.80r. Its calls need approval.", self.server, tool.name
            )
        return True


def compute_digest(tool: types.Tool) -> str:
    facts = tool.model_dump(mode="json", include=FACTS)
    return sha256(json.dumps(facts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
