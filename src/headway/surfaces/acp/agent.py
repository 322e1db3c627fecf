"""`headway acp`: an agent for editors, which speaks version 1 of the Agent Client Protocol.

A session is a conversation. Its agents work in the folder that the editor has open. Everything is stored, so another process can
load a session again.
"""

import asyncio
import json
import os
import stat
import sys
from typing import Any, Final

from headway import __version__
from headway.actions.history import timeline
from headway.actions.history.timeline import TimelineView
from headway.actions.installation import halts
from headway.actions.runs import inbox, jobs, runs, waiting
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.ledger.errors import Conflict, Invalid
from headway.ledger.job import Job
from headway.ledger.tenancy import Conversation
from headway.process.assembly import Headway
from headway.settings import Settings
from headway.storage.transaction import Transaction, act_as
from headway.surfaces.acp.content import Prompt, build_chunk, build_plan, build_updates, parse_prompt
from headway.surfaces.acp.rpc import LINE_LIMIT, Params, RpcConnection
from headway.surfaces.acp.turns import SENDER, EditorTurn, FoundTurn
from headway.surfaces.turn_events import TurnEventTranslator, WaitingItem

PROTOCOL_VERSION: Final = 1
REPLAYED_ENTRIES: Final = 500


class EditorAgent:
    def __init__(self, headway: Headway, tenant_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.headway = headway
        self.tenant_id = tenant_id
        self.database = headway.database.of(tenant_id)
        self.sessions: dict[str, Conversation] = {}
        self.prompted: set[str] = set()  # sessions whose prompt is being answered
        self.canceled: set[str] = set()  # the ones whose prompt was canceled
        self.running: dict[str, EditorTurn] = {}  # by session
        handlers = {
            "initialize": self.initialize,
            "session/new": self.open_session,
            "session/load": self.load_session,
            "session/prompt": self.prompt,
            "session/cancel": self.cancel,
        }
        self.connection = RpcConnection(reader, writer, handlers)

    async def initialize(self, _params: Params) -> Params:
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "headway", "title": "Headway", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            },
            "authMethods": [],
        }

    async def open_session(self, params: Params) -> Params:
        folder = self.check_folder(params)
        conversation = await self.database.write(lambda tx: conversations.open_in_folder(tx, self.tenant_id, folder))
        self.sessions[conversation.key] = conversation
        return {"sessionId": conversation.key}

    async def load_session(self, params: Params) -> Params:
        """Open a session again, and show what was said and done in it."""
        folder, key = self.check_folder(params), get_session_id(params)
        conversation = await self.database.write(lambda tx: conversations.open_in_folder(tx, self.tenant_id, folder, key))
        self.sessions[key] = conversation
        view = TimelineView(self.headway.settings.limits, self.headway.live_text, REPLAYED_ENTRIES)
        shown = await self.database.read(lambda tx: timeline.show_timeline(tx, self.tenant_id, conversation.id, view))
        translator = TurnEventTranslator()
        for entry in shown["entries"]:
            kind, data = entry["kind"], entry["data"]
            if kind == "turn_started":
                translator = TurnEventTranslator()
            if kind == "message" and data["role"] == "user":
                await self.update(key, build_chunk("user_message_chunk", data["content"]))
            for turn_event in translator.translate(kind, data):
                for update in build_updates(turn_event, folder):
                    await self.update(key, update)
        if shown["todos"] and shown["todos"]["items"]:
            await self.update(key, build_plan(shown["todos"]))
        return {}

    async def prompt(self, params: Params) -> Params:
        """Answer a prompt with a turn. A turn of the session that was interrupted is finished first."""
        key, prompt = get_session_id(params), parse_prompt(params.get("prompt"))
        conversation = self.get_session(key)
        if key in self.prompted:
            raise Conflict("A prompt of this session is being answered. Cancel it first.")
        self.prompted.add(key)
        try:
            await self.headway.agents_ready()
            return {"stopReason": await self.answer(key, conversation, prompt)}
        finally:
            self.prompted.discard(key)
            self.canceled.discard(key)
            self.running.pop(key, None)

    async def answer(self, key: str, conversation: Conversation, prompt: Prompt) -> str:
        """Run turns until one has answered the prompt, and return why it stopped."""
        while key not in self.canceled:
            turn, is_answer = await self.database.write(lambda tx: self.begin(tx, conversation, prompt))
            self.running[key] = turn
            if key in self.canceled:
                await turn.cancel()
            reason = await turn.follow()
            if is_answer or reason == "cancelled":
                return reason
        return "cancelled"

    async def cancel(self, params: Params) -> None:
        key = get_session_id(params)
        if key in self.prompted:
            self.canceled.add(key)
        if turn := self.running.get(key):
            await turn.cancel()

    # Parts

    def begin(self, tx: Transaction, conversation: Conversation, prompt: Prompt) -> tuple[EditorTurn, bool]:
        """Begin a turn, or continue the one that runs. Returns whether the prompt was used."""
        tenant_id = self.tenant_id
        with act_as(tx, SENDER):
            run = turns.find_running(tx, tenant_id, conversation.id)
            if run is None:
                job = self.headway.begin_turn(tx, tenant_id, conversation.id, prompt.text, "plan", prompt.attachments)
                return self.build_turn(tx, conversation, job), True
            requests = waiting.list_by_turn(tx, tenant_id, run.turn_id or "")
            question = next((one for one in requests if one.kind == "question" and not json.loads(one.choices)), None)
            if question:
                inbox.answer(tx, tenant_id, question.id, prompt.text, SENDER)
            else:
                halts.check(tx)
                self.headway.engine.takeover.recover(tx, [one.id for one in runs.list_runs(tx, tenant_id, run.turn_id, 500)])
            turn = self.build_turn(tx, conversation, jobs.get_job(tx, tenant_id, run.id))
            for one in waiting.list_by_turn(tx, tenant_id, turn.turn_id):
                turn.translator.waiting[one.kind, one.id] = WaitingItem(f"{turn.turn_id}:{one.kind}-{one.id}", one.as_item())
            return turn, question is not None

    def build_turn(self, tx: Transaction, conversation: Conversation, job: Job) -> EditorTurn:
        found = FoundTurn(conversation, job, turns.find_log_position(tx, self.tenant_id))
        return EditorTurn(self.headway, self.connection, self.tenant_id, found)

    def get_session(self, key: str) -> Conversation:
        if key not in self.sessions:
            raise Invalid(f"The session {key[:80]!r} is not open. Load it first.")
        return self.sessions[key]

    def check_folder(self, params: Params) -> str:
        """Return the editor's folder. It must not contain the files of Headway itself: agents could change their own rules."""
        folder = params.get("cwd")
        if not isinstance(folder, str) or not os.path.isabs(folder) or not os.path.isdir(folder):
            raise Invalid("cwd must be the absolute path of a folder.")
        folder, home = os.path.realpath(folder), os.path.realpath(self.headway.settings.home)
        if os.path.commonpath((folder, home)) in (folder, home):
            raise Invalid(f"The folder and Headway's home, {home}, contain one another. Start `headway acp` with another --home.")
        return folder

    async def update(self, key: str, update: dict[str, Any]) -> None:
        await self.connection.notify("session/update", {"sessionId": key, "update": update})


def get_session_id(params: Params) -> str:
    key = params.get("sessionId")
    if not isinstance(key, str):
        raise Invalid("sessionId must be a text.")
    return key


def can_stream(descriptor: int) -> bool:
    """Whether the event loop can wait for a descriptor, as it cannot for files and /dev/null."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def serve_stdio(settings: Settings, tenant_id: int) -> None:
    """Serve an editor until it closes the input. Output of other code goes to standard error."""
    if not (can_stream(0) and can_stream(1)):
        raise Invalid(
            "Standard input and output must lead to an editor, not to files. Name `headway acp` in the editor's settings."
        )
    loop = asyncio.get_running_loop()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    reader = asyncio.StreamReader(LINE_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.streams.FlowControlMixin(loop=loop), output)
    headway = Headway(settings)
    try:
        headway.start()
        headway.start_agents(alone=True)
        await EditorAgent(headway, tenant_id, reader, asyncio.StreamWriter(transport, protocol, None, loop)).connection.serve()
    finally:
        await headway.stop_agents()
        headway.close()
