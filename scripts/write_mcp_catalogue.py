"""Write the catalogue of the MCP server, from which `headway mcp` answers before its libraries are loaded.

make docs
"""

from headway.surfaces.mcp.offer import CATALOGUE_FILE
from headway.surfaces.mcp.tool_metadata import render_catalogue

if __name__ == "__main__":
    CATALOGUE_FILE.write_text(render_catalogue(), encoding="utf-8")
