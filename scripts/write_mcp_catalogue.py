"""Write the catalogue of the MCP server, from which `headway mcp` answers before its libraries are loaded."""

import json

from headway.agents.instructions.roles import REMOTE_FAMILIES
from headway.agents.tools.catalogue import build_toolbox
from headway.surfaces.mcp.offer import CATALOGUE_FILE
from headway.surfaces.mcp.tool_metadata import describe_tool


def render_catalogue() -> str:
    tools = [describe_tool(tool) for tool in build_toolbox().only(REMOTE_FAMILIES).catalogue()]
    return json.dumps(tools, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    CATALOGUE_FILE.write_text(render_catalogue(), encoding="utf-8")
