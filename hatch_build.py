"""Make the description of the package from the README, without pictures and relative links: a package index shows neither."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURES = re.compile(r"<!-- pictures -->.*?<!-- /pictures -->\n+", re.DOTALL)
RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)\s]+\)")


class DescriptionHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = RELATIVE_LINK.sub(r"\1", PICTURES.sub("", readme))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
