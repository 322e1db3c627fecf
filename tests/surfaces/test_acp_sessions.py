"""What an editor may reach over ACP: the sessions of its tenant, and no frame of the runtime."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from headway.actions.todos import conversations
from headway.ledger.errors import Invalid, NotFound
from headway.storage.direct import DirectDatabase
from headway.surfaces.acp.agent import EditorAgent
from headway.surfaces.acp.content import parse_prompt
from headway.testing import TenantHarness
from tests.agents.turn_harness import open_talk
from tests.forgeries import EDGES, get_shape
from tests.model_server import text
from tests.tenant_rows import fill_tenant, read_tenant_rows

HELLO = text("Hello.")


def test_a_session_of_another_tenant_is_one_that_does_not_exist(
    sqlite_url: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with open_talk(sqlite_url, tmp_path, HELLO) as talk, DirectDatabase(sqlite_url) as database:
        rival = TenantHarness(database, "rival")
        fill_tenant(rival)
        theirs = rival.write(conversations.add_conversation, "their session")
        before = read_tenant_rows(rival)
        folder = {"cwd": str(tmp_path_factory.mktemp("project"))}
        hello = {"prompt": [{"type": "text", "text": "Hello."}]}

        async def attack() -> None:
            agent = EditorAgent(talk.headway, talk.tenant_id, asyncio.StreamReader(), cast("Any", None))
            for key in (theirs.key, str(theirs.id), f"#{theirs.id}", "never existed"):
                with pytest.raises(NotFound, match="No conversation with the key"):
                    await agent.load_session({**folder, "sessionId": key})
                with pytest.raises(Invalid, match="is not open"):
                    await agent.prompt({**hello, "sessionId": key})
                await agent.cancel({"sessionId": key})

        talk.wait(attack())
        assert read_tenant_rows(rival) == before
        assert talk.requests == []


def build_blocks(words: str) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": words},
        {"type": "resource_link", "uri": f"file:///{words}", "name": words},
        {"type": "resource", "resource": {"uri": f"file:///{words}", "text": words}},
    ]


def test_what_an_editor_sends_forges_no_frame(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, HELLO) as talk:
        shapes = []
        for words in ("harmless", *EDGES):
            talk.start_over(HELLO)
            prompt = parse_prompt(build_blocks(words))
            assert talk.say(prompt.text, "plan", *prompt.attachments)["outcome"] == "answered"
            shapes.append(get_shape(talk.requests[0]))
        assert all(shape == shapes[0] for shape in shapes)
