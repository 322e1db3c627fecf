"""`headway chat`: run one turn or an interactive conversation, showing the todo list as it changes."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.actions.engine import run_ends
from headway.actions.inspection.forks import ForkRequest
from headway.actions.installation import halts
from headway.actions.runs import jobs, runs
from headway.actions.todos import conversations, finding
from headway.actions.turns import steering, turns
from headway.feed import TENANT_MOVED, FeedReader
from headway.ledger.attachment import Attachment, check_attachments
from headway.ledger.errors import Halted, HeadwayError, TurnEnded, WrongCell
from headway.ledger.job import Job
from headway.ledger.run import TurnMode
from headway.ledger.scope import Scope
from headway.settings import Settings
from headway.storage.home_files import read_attachment
from headway.storage.transaction import Transaction
from headway.surfaces.cli.context import (
    SENDER,
    UNFINISHED_EXIT_CODE,
    WAITING_EXIT_CODE,
    Command,
    Invocation,
    TenantDatabase,
    act_as_sender,
    pass_invocation,
    read_standard_input,
)
from headway.surfaces.cli.health import check_local_server
from headway.surfaces.cli.keyboard.chat_prompt import introduce, is_command, parse_message, run_prompt_loop
from headway.surfaces.cli.keyboard.line_editor import describe_attached, is_attach_line, read_attached
from headway.surfaces.cli.keyboard.typed_lines import TypedLine, read_typed_lines
from headway.surfaces.cli.person_prompts import PersonPrompts
from headway.surfaces.cli.turn_view import CONTINUE_COMMAND, LiveTurnView, TurnView, open_turn_view
from headway.surfaces.log_lines import configure_plain_logging

if TYPE_CHECKING:
    from headway.agents.forks import Forks
    from headway.process.assembly import Headway
    from headway.storage.database import DatabaseAccess

HALT_POLL_S = 0.3
COMPLETE_OUTCOMES = ("answered", "drained")
END_EVENTS = {"turn_finished", "turn_failed", "turn_canceled", "turn_paused"}


@click.command(cls=Command)
@click.argument("message", required=False)
@click.option("--queue", is_flag=True, help="Work through one item at a time; an assessor checks each answer.")
@click.option(
    "--attach",
    "paths",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Send an image, a PDF or a text file with the first message; can be given more than once.",
)
@click.option("-c", "--continue", "going_on", is_flag=True, help="Continue the newest conversation.")
@click.option("-m", "--model", metavar="PROVIDER:NAME", help="Ask this model instead of HEADWAY_MODEL.")
@pass_invocation
def chat(
    invocation: Invocation,
    message: str | None,
    queue: bool,  # noqa: FBT001  click's flags
    paths: tuple[Path, ...],
    going_on: bool,  # noqa: FBT001
    model: str | None,
) -> None:
    """Send MESSAGE to an agent, or chat turn by turn. Ctrl-C stops a turn, Ctrl-D ends the chat.

    On a terminal, a line that you type while the agent works is sent to it; it reads the line at its next step. If a tool call
    needs approval, or the agent asks a question, you are asked here. `/attach PATH` sends a file with your next message. If a turn
    ends with open todos, the message /continue works on them in a new turn. `/help` lists the other commands.

    Without MESSAGE and without a terminal, the message is read from standard input.
    """
    at_terminal = message is None and sys.stdin is not None and sys.stdin.isatty()
    if message is None and not at_terminal:
        message = read_standard_input()
    if message is None and invocation.as_json:
        raise click.UsageError("--json needs a MESSAGE, as an argument or on standard input")
    if message is not None:
        message = parse_message(message)
    attachments = [read_attachment(path) for path in paths]
    check_attachments(attachments)
    check_local_server(invocation.settings(model=model))
    with invocation.open_ledger() as ledger:
        scope = ledger.scope._replace(conversation_id=choose_conversation(ledger, going_on=going_on))
        introduction = ledger.read(introduce, scope.conversation_id)
        is_interrupted = ledger.read(turns.find_running, scope.conversation_id) is not None
    settings = invocation.settings()
    session = ChatSession(settings, scope, "queue" if queue else "plan", invocation, attachments, once=message is not None)
    with asyncio.Runner() as runner:
        try:
            runner.run(session.start_opening())
            if message is not None:
                runner.run(session.turn(message))
            else:
                if is_interrupted:
                    runner.run(session.resume())
                run_prompt_loop(runner, session, introduction)
        finally:
            runner.run(session.end())
    if session.exit_code:
        raise click.exceptions.Exit(session.exit_code)


def choose_conversation(ledger: TenantDatabase, *, going_on: bool) -> int:
    ledger.database.read(halts.check)
    if ledger.scope.conversation_id:
        return ledger.scope.conversation_id
    newest = ledger.read(conversations.list_conversations, 1) if going_on else []
    return newest[0].id if newest else ledger.write(conversations.add_conversation).id


def choose_exit_code(turn: dict[str, Any], *, once: bool) -> int:
    """Tell a turn that failed from one that ended early. In a chat, a person has read why it ended early."""
    if turn["status"] != "finished":
        return WAITING_EXIT_CODE if turn["status"] == "waiting" else 1
    return UNFINISHED_EXIT_CODE if once and turn["outcome"] not in COMPLETE_OUTCOMES else 0


BeginFork = Callable[["Forks", Transaction, ForkRequest], Job]


def run_fork(invocation: Invocation, request: ForkRequest, begin: Callable[["Forks", Transaction, int, ForkRequest], Job]) -> None:
    """Run a fork in this process until it ends, and exit like `chat` does."""
    with invocation.open_ledger() as ledger:
        ledger.database.read(halts.check)
        scope = ledger.scope
    session = ChatSession(invocation.settings(), scope, "plan", invocation, [], once=True)
    with asyncio.Runner() as runner:
        try:
            runner.run(session.begin())
            runner.run(session.fork(request, lambda forks, tx, checked: begin(forks, tx, scope.tenant_id, checked)))
        finally:
            runner.run(session.end())
    if session.exit_code:
        raise click.exceptions.Exit(session.exit_code)


def build_moved_error(data: dict[str, Any], turn_id: str) -> WrongCell:
    """Build the error for a turn that continues in another cell."""
    advice = f"A worker continues the turn there: `headway turn show {turn_id}`."
    return WrongCell(f"The tenant has moved to the cell {data['cell']}. {advice}", data["cell"], data["location"])


def describe_fork(turn: dict[str, Any]) -> None:
    origin = turn["forked_from"]
    click.echo(f"Turn {turn['id']} in conversation {turn['conversation_id']} is the fork.", err=True)
    click.echo(f"Compare: headway turn diff {origin['turn_id']} {turn['id']}", err=True)


def load_headway() -> "type[Headway]":
    """Load the agent libraries, which takes a second or two. Called in a thread, so that a person can type meanwhile."""
    from headway.process.assembly import Headway  # noqa: PLC0415  `--help` does not need it

    return Headway


class ChatSession:
    """A conversation whose turns run in this process."""

    def __init__(
        self,
        settings: Settings,
        scope: Scope,
        mode: TurnMode,
        invocation: Invocation,
        attachments: list[Attachment],
        *,
        once: bool,
    ) -> None:
        self.settings = settings
        self.scope = scope
        self.mode = mode
        self.call = invocation
        self.attachments = attachments  # sent with the next message
        self.draft = ""  # typed while a turn ran, and not sent
        self.headway: Headway | None = None
        self.once = once
        self.exit_code = 0
        self.opening: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        configure_plain_logging(self.settings)
        headway_class = await asyncio.to_thread(load_headway)
        self.headway = headway_class(self.settings)
        self.headway.start()
        self.headway.start_agents(alone=True)

    async def start_opening(self) -> None:
        """Begin in the background, while a person types."""
        self.opening = asyncio.create_task(self.begin() if self.once else self.begin_checked())

    async def begin_checked(self) -> None:
        """Begin, and raise SettingsError if no model can answer. A single message gets this error as the end of its turn."""
        await self.begin()
        await asyncio.to_thread(self.check_model)

    def check_model(self) -> None:
        models = self.active_headway.runtime.models
        if not any(models.try_load(name) for name in models.list_names("strong")):
            models.find("strong")

    async def wait_until_open(self) -> None:
        if self.opening:
            await asyncio.shield(self.opening)

    async def end(self) -> None:
        if self.opening:
            await asyncio.wait({self.opening})
        if self.headway:
            await self.headway.stop_agents()
            self.headway.close()
            self.headway = None

    async def start_conversation(self) -> None:
        conversation = await self.database.write(lambda tx: conversations.add_conversation(tx, self.scope.tenant_id))
        self.scope = self.scope._replace(conversation_id=conversation.id)

    async def change_model(self, name: str) -> None:
        """Use another model from the next turn on, also in the tiers that had the same one."""
        before = self.settings
        mid, cheap = (name if model == before.model else model for model in (before.model_mid, before.model_cheap))
        await self.end()
        self.settings = before._replace(model=name, model_mid=mid, model_cheap=cheap)
        await self.begin()

    async def turn(self, content: str) -> None:
        """Run one turn and show it as it happens. Finish an interrupted turn of the conversation first."""
        await self.wait_until_open()
        headway = self.active_headway
        with self.open_view() as view:
            await headway.agents_ready()
            await self.finish_interrupted(view)
            job = await self.database.write(act_as_sender(lambda tx: self.begin_turn(tx, content)))
            self.attachments = []
            await self.follow(job, view, lambda: headway.engine.take(job))
        document = await self.database.read(lambda tx: self.document(tx, turns.get_turn_id(job)))
        self.exit_code = choose_exit_code(document["turn"], once=self.once)
        self.call.answer(document, lambda: view.show_resume_hint(self.scope.conversation_id) if self.once else None)

    def begin_turn(self, tx: Transaction, content: str) -> Job:
        conversation = (self.scope.tenant_id, self.scope.conversation_id)
        if content != CONTINUE_COMMAND:
            return self.active_headway.begin_turn(tx, *conversation, content, self.mode, self.attachments)
        unfinished = turns.get_unfinished(tx, *conversation)
        return self.active_headway.begin_turn(tx, *conversation, turns.CONTINUE_REQUEST, None, self.attachments, unfinished)

    async def fork(self, request: ForkRequest, begin: BeginFork) -> None:
        """Create a fork, run it and show what it does."""
        headway = self.active_headway
        with self.open_view() as view:
            await headway.agents_ready()
            checked = await asyncio.to_thread(headway.forks.check, request)
            job = await self.database.write(lambda tx: begin(headway.forks, tx, checked))
            self.scope = self.scope._replace(conversation_id=json.loads(job.payload)["conversation_id"])
            await self.follow(job, view, lambda: headway.engine.take(job))
        document = await self.database.read(lambda tx: self.document(tx, turns.get_turn_id(job)))
        self.exit_code = choose_exit_code(document["turn"], once=True)
        self.call.answer(document, lambda: describe_fork(document["turn"]))

    async def resume(self) -> None:
        """Finish an interrupted turn of the conversation, for a chat that begins with a prompt."""
        await self.wait_until_open()
        with self.open_view() as view:
            await self.active_headway.agents_ready()
            await self.finish_interrupted(view)

    async def finish_interrupted(self, view: TurnView) -> None:
        headway = self.active_headway
        if interrupted_job := await self.database.write(self.requeue_interrupted):
            view.note("Finishing the interrupted turn first.")
            await self.follow(interrupted_job, view, lambda: headway.engine.adopt(interrupted_job.id))

    def requeue_interrupted(self, tx: Transaction) -> Job | None:
        """Requeue the running turn of this conversation if its process has died. Return its job, or None if there is none."""
        run = turns.find_running(tx, self.scope.tenant_id, self.scope.conversation_id)
        if run is None:
            return None
        turn_runs = runs.list_runs(tx, run.tenant_id, run.turn_id, 500)
        self.active_headway.engine.takeover.recover(tx, [turn_run.id for turn_run in turn_runs])
        job = jobs.get_job(tx, run.tenant_id, run.id)
        waits_for_money = finding.get_turn(tx, run.tenant_id, run.turn_id or "").status == "paused"
        return job if job.state in ("queued", "delayed") and not waits_for_money else None

    async def follow(self, job: Job, view: TurnView, begin: Callable[[], None]) -> None:
        """Show events until the turn ends or waits for a person who is not here. Raise Halted if the kill switch stops the turn,
        and WrongCell if the tenant moves."""
        headway = self.active_headway
        channel, reader = await headway.feed.open(self.scope.tenant_id, self.scope.conversation_id, None)
        reader.follow_turn(turns.get_turn_id(job), reader.after)
        begin()
        loop = asyncio.get_running_loop()
        watch: asyncio.Task[None] | None = None
        try:
            async with self.attend(job, view) as people:
                loop.add_signal_handler(signal.SIGINT, lambda: people.screen.locked() or loop.create_task(self.cancel(job)))
                if job.state != "running":  # it may have begun to wait in another process
                    await people.load(turns.get_turn_id(job))
                watch = loop.create_task(self.leave_when_stuck(job, reader, people))
                async for events in headway.feed.follow(channel, reader):
                    async with people.screen:
                        for event in events:
                            data = event.decode_data()
                            if event.kind == TENANT_MOVED:
                                raise build_moved_error(data, turns.get_turn_id(job))
                            people.hear(event.kind, data)
                            view.show(event.kind, data)
                            people.show_next()
                            if event.kind in END_EVENTS:
                                return
        finally:
            if watch:
                watch.cancel()
            loop.remove_signal_handler(signal.SIGINT)
            headway.feed.leave(channel, reader)
        if people.is_unattended:
            view.note(people.explain(self.scope.conversation_id))
            return
        await self.database.read(halts.check)
        raise Halted

    @asynccontextmanager
    async def attend(self, job: Job, view: TurnView) -> AsyncIterator[PersonPrompts]:
        """Read the lines that a person types on the terminal: answers to what the turn asks, and otherwise messages to the turn."""
        people = PersonPrompts(self.active_headway, self.scope.tenant_id, view)
        if not isinstance(view, LiveTurnView):
            yield people
            return
        sending: list[asyncio.Task[None]] = []

        def take(line: str) -> None:
            if people.wants():
                work = people.answer(line)
            elif is_attach_line(line) and not self.once:
                work = self.attach_during_turn(line, view)
            elif is_command(line):
                view.note(f"Not sent: {line} (commands work between turns; Ctrl-C stops this one)")
                return
            else:
                work = self.send(job, line, view)
            sending.append(asyncio.create_task(work))

        with read_typed_lines(TypedLine(view.show_draft, take, people.postpone)) as people.keyboard:
            yield people
        await asyncio.gather(*sending)
        view.hide_question()
        if view.draft and self.once:
            view.note(f"Not sent: {view.draft}")
        self.draft = view.draft
        view.show_draft("")

    async def send(self, job: Job, line: str, view: TurnView) -> None:
        try:
            content, tenant_id = parse_message(line), self.scope.tenant_id
            await self.database.write(lambda tx: steering.send_to_turn(tx, tenant_id, turns.get_turn_id(job), content, SENDER))
        except HeadwayError as error:
            view.note(f"Not sent: {line} ({error})")

    def attach(self, line: str) -> str:
        """Attach the files that a line names to the next message, and return what to tell the person."""
        files = read_attached(line, self.attachments)
        self.attachments += files
        return describe_attached(files)

    async def attach_during_turn(self, line: str, view: TurnView) -> None:
        try:
            view.note(await asyncio.to_thread(self.attach, line))
        except HeadwayError as error:
            view.note(str(error))

    def take_draft(self) -> str:
        draft, self.draft = self.draft, ""
        return draft

    async def leave_when_stuck(self, job: Job, reader: FeedReader, people: PersonPrompts) -> None:
        """Close the reader once nothing runs here any more: a turn that is halted, or waits for a person, publishes no events."""
        while not await self.is_stuck(job, people):
            await asyncio.sleep(HALT_POLL_S)
        reader.leave()

    async def is_stuck(self, job: Job, people: PersonPrompts) -> bool:
        headway = self.active_headway
        if people.is_unattended:
            return people.is_postponed or not headway.engine.tasks
        return job.id not in headway.engine.tasks and await self.database.read(halts.find_active) is not None

    async def cancel(self, job: Job) -> None:
        with suppress(TurnEnded):
            ended = await self.database.write(
                act_as_sender(
                    lambda tx: run_ends.cancel_turn(tx, self.scope.tenant_id, turns.get_turn_id(job), self.active_headway.live_text)
                )
            )
            self.active_headway.interrupt(ended)

    def document(self, tx: Transaction, turn_id: str) -> dict[str, Any]:
        messages = turns.list_messages(tx, self.scope.tenant_id, self.scope.conversation_id, 500)
        return {
            "turn": turns.show_turn(tx, self.scope.tenant_id, turn_id, self.settings.limits),
            "messages": [message.as_json() for message in messages if message.turn_id == turn_id],
        }

    def open_view(self) -> AbstractContextManager[TurnView]:
        return open_turn_view(self.settings.get_workspace(self.scope.tenant_id), quiet=self.call.as_json)

    @property
    def database(self) -> "DatabaseAccess":
        return self.active_headway.database.of(self.scope.tenant_id)

    @property
    def active_headway(self) -> "Headway":
        assert self.headway is not None
        return self.headway
