"""One attempt of a case, in a separate home."""

import asyncio
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway.actions.access import local_tenant, spending
from headway.actions.goals import goals, views
from headway.actions.goals.goals import NewGoal
from headway.actions.todos import conversations
from headway.actions.turns import plan as plan_turn
from headway.actions.turns import turns
from headway.actions.turns.plan import PlanItem
from headway.agents.checks.runner import CheckRunner, CheckSubject, Opinion
from headway.agents.instructions import role_files
from headway.agents.instructions.roles import INDEX, SUPERVISOR, Role, Roles
from headway.agents.loop.calls.proofs import ask_opinion
from headway.agents.models.prices import Prices, load_prices
from headway.agents.models.providers import build_model
from headway.agents.policy_file import format_rule, read_text
from headway.agents.tools import catalogue
from headway.agents.tools.builtin import ExternalAccess
from headway.agents.tools.execution import ResolvedScope
from headway.agents.tools.programs.tools import RUN_COMMAND, RUN_PYTHON
from headway.evals.recordings import RecordedCalls, Recording, TraceCollector, load_recording
from headway.evals.results import AttemptResult, AttemptStatus
from headway.evals.suite import Attempt, Case, MatrixCell, PlannedItem, Suite
from headway.ledger.check import CheckResult, describe_check, encode_checks
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.money import to_dollars, to_nanos
from headway.ledger.permission import FILE_NAME as POLICY_FILE_NAME
from headway.ledger.scope import Scope
from headway.ledger.text import to_one_line
from headway.ledger.tiers import TierParameters
from headway.outbound import is_host_allowed
from headway.process.assembly import Headway
from headway.settings import Settings
from headway.storage.transaction import Transaction

CONFIGURATION: Final = ("agents", "tools", "skills", "prices.toml")  # what agents are, without what they have done
MCP_FILE_NAME: Final = "mcp.json"
UNUSED_HOST: Final = "recorded.invalid"  # makes http_get available in a replay, where no request is made
TENANT_ID: Final = 1  # the local tenant of a new database


def check_access(settings: Settings, case: Case) -> None:
    """Raise Invalid if a case wants programs or hosts that the operator's settings do not allow."""
    case_name = f"Case {case.name!r}"
    if missing := [name for name in case.commands if name not in settings.commands]:
        raise Invalid(
            f"{case_name}: commands: {missing[0][:80]!r} is not allowed here. The operator allows it with HEADWAY_COMMANDS."
        )
    hosts = [host for host in case.http_allow if host not in settings.http_allow and "*" not in settings.http_allow]
    if refused := [host for host in hosts if host.startswith("*") or not is_host_allowed(host, settings.http_allow)]:
        raise Invalid(
            f"{case_name}: http_allow: {refused[0][:80]!r} is not allowed here. The operator allows it with HEADWAY_HTTP_ALLOW."
        )


def check_cells(settings: Settings, suite: Suite, cells: Sequence[MatrixCell]) -> None:
    """Raise an error for a model that cannot be used or a role that does not exist, before anything runs."""
    for name in {cell.model for cell in cells}:
        build_model(name)
    tools = catalogue.build_toolbox(folder=Path(settings.home, "tools")).tools
    roles = Roles(role_files.load(Path(settings.home, "agents"), tools))
    for role in {*(cell.role for cell in cells), *(case.role for case in suite.cases)} - {""}:
        roles.find(role)


def list_unpriced(settings: Settings, cells: Sequence[MatrixCell]) -> list[str]:
    """List the models whose calls count as $0, so that no budget stops them."""
    prices = Prices(load_prices(Path(settings.home, "prices.toml")))
    return prices.list_unpriced(cell.model for cell in cells)


def choose_role(attempt: Attempt) -> str:
    role = attempt.cell.role or attempt.case.role or INDEX
    return INDEX if role == SUPERVISOR else role


def extend_prompt(roles: Roles, name: str, addition: str) -> Roles:
    """Append a text to the prompt of a role."""
    role: Role = roles.find(name)
    changed = role._replace(prompt=f"{role.prompt}\n{addition}".strip())
    return Roles([*roles.by_name.values(), changed]) if addition else roles


def build_settings(settings: Settings, attempt: Attempt, home: Path, budget_usd: float, calls: Sequence[Any] | None) -> Settings:
    """Derive the settings of an attempt. In a replay, `calls` come from the recording."""
    case, workspace = attempt.case, str(home / "workspace")
    settings = choose_model(settings, attempt.cell.model)._replace(
        home=str(home),
        database_url=f"sqlite:///{home / 'headway.db'}",
        dispatch="",  # an external one would deliver the jobs to workers of another database
        workspace=workspace,
        limits=settings.limits._replace(budget=to_nanos(budget_usd)),
        http_allow=case.http_allow,
        commands=case.commands,
        sandbox=settings.sandbox._replace(hidden=(*settings.sandbox.hidden, str(home), workspace)),
        notify=(),
    )
    if calls is None:
        return settings
    programs = {call["arguments"]["command"][0] for call in calls if call["tool"] == RUN_COMMAND}
    interpreters = {"python3" for call in calls if call["tool"] == RUN_PYTHON}
    return settings._replace(http_allow=(UNUSED_HOST,), commands=tuple(sorted({"true", *programs, *interpreters, *case.commands})))


def choose_model(settings: Settings, name: str) -> Settings:
    """Use a model for every tier. A cheap tier that the operator has chosen separately stays, because it judges."""
    if name == settings.model:
        return settings
    cheap = name if settings.model_cheap == settings.model else settings.model_cheap
    names = {"strong": name, "mid": name, "cheap": cheap}
    parameters = {
        tier: known if names[tier] == cheap != name else TierParameters(max_output_tokens=known.max_output_tokens)
        for tier, known in settings.model_parameters.items()
    }
    return settings._replace(model=name, model_mid=name, model_cheap=cheap, model_parameters=parameters)


def name_folder(attempt: Attempt) -> str:
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', attempt.case.name)[:40].strip('-')}-{attempt.repetition}-{attempt.key[:8]}"


def prepare_home(home: Path, settings: Settings, suite: Suite, case: Case) -> int:
    """Create the home of an attempt. Returns the number of lines of the operator's policy: later rules are the case's."""
    shutil.rmtree(home, ignore_errors=True)  # what a killed run has left
    home.mkdir(parents=True)
    for name in (*CONFIGURATION, *((MCP_FILE_NAME,) if case.mcp else ())):
        source = Path(settings.home, name)
        if source.is_dir():
            shutil.copytree(source, home / name, symlinks=True)
        elif source.is_file():
            shutil.copy(source, home / name)
    write_files(home / "workspace" / str(TENANT_ID), suite, case)
    policy = read_text(os.path.join(settings.home, POLICY_FILE_NAME)).rstrip("\n")
    rules = [line for rule in case.policy for line in format_rule(rule)]
    if policy or rules:
        (home / POLICY_FILE_NAME).write_text("\n".join([policy, *rules]) + "\n", encoding="utf-8")
    return len(policy.split("\n"))


def write_files(workspace: Path, suite: Suite, case: Case) -> None:
    if isinstance(case.files, str):
        shutil.copytree(suite.find_file(case.files), workspace, symlinks=True)
        return
    workspace.mkdir(parents=True)
    for name, content in case.files.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="")


# One attempt at a case: starts the turn or the goal in a separate Headway, answers for the people, and runs the checks.


ANSWER_LIMIT: Final = 4_000  # characters of an answer that a result keeps
QUOTE_LIMIT: Final = 300
PERSON: Final = "eval"  # who decides and answers
REJECTION: Final = "No person is available to approve it: this is an evaluation."
NO_SANDBOX: Final = "It was not run: there is no sandbox here. Install bubblewrap (see `headway doctor`)."
RULE_LINE: Final = re.compile(rf"{re.escape(POLICY_FILE_NAME)}, line (\d{{1,9}})")


class Workbench(NamedTuple):
    """Resources that the attempts of a run share."""

    suite: Suite
    settings: Settings  # the operator's
    folder: Path
    replay: bool = False
    keep: bool = False
    models: Mapping[str, Any] = {}  # models that a program has built, by name


class Ending(NamedTuple):
    """The end of a turn or a goal."""

    end: str
    problem: str = ""  # what an outcome alone does not say


class AttemptRun:
    """An attempt at work."""

    def __init__(
        self, headway: Headway, bench: Workbench, attempt: Attempt, policy_lines: int, recorded: RecordedCalls | None
    ) -> None:
        self.headway = headway
        self.bench = bench
        self.attempt = attempt
        self.case = attempt.case
        self.policy_lines = policy_lines
        self.recorded = recorded
        self.trace = TraceCollector()
        self.answers = list(attempt.case.answers)
        self.scope = Scope(TENANT_ID)
        self.conversation_uuid: str | None = None
        self.run_id = ""
        self.goal_id = 0
        self.extra_cost = 0

    async def work(self) -> Ending:
        """Start the case and follow it to its end."""
        if self.case.goal:
            return await self.pursue_goal()
        conversation = await self.headway.database.of(TENANT_ID).write(lambda tx: conversations.add_conversation(tx, TENANT_ID))
        self.scope, self.conversation_uuid = Scope(TENANT_ID, conversation.id), conversation.uuid
        for message in self.case.before:
            ending = await self.answer_message(message, ())
            if ending.problem:
                return ending
        self.trace = TraceCollector()
        return await self.answer_message(self.case.message, self.case.plan)

    async def answer_message(self, message: str, plan: tuple[PlannedItem, ...]) -> Ending:
        limits = self.headway.settings.limits
        request = turns.TurnRequest(
            message, self.case.mode, choose_role(self.attempt), limit=limits.iterations, attempts=limits.attempts
        )

        def begin(tx: Transaction) -> tuple[str, str]:
            run = turns.start_turn(tx, TENANT_ID, self.scope.conversation_id, request)
            turn_id = run.turn_id or ""
            if plan:
                items = [PlanItem(item.title, checks=encode_checks(item.checks)) for item in plan]
                plan_turn.create_plan(tx, self.scope._replace(turn_id=turn_id), turn_id, items)
            return run.id, turn_id

        async with self.follow() as events:
            self.run_id, turn_id = await self.headway.database.of(TENANT_ID).write(begin)
            self.scope = self.scope._replace(turn_id=turn_id)
            self.headway.nudge()
            async for kind, data in events:
                if data.get("turn_id") == turn_id and (ending := find_turn_ending(kind, data)):
                    return ending
                if problem := await self.react(kind, data):
                    return problem
        raise Invalid("The event log ended before the turn did.")

    async def pursue_goal(self) -> Ending:
        new_goal, limits = NewGoal(self.case.goal, self.case.criteria), self.headway.settings.limits
        async with self.follow() as events:
            goal = await self.headway.database.of(TENANT_ID).write(lambda tx: goals.add_goal(tx, TENANT_ID, new_goal, limits))
            self.goal_id, self.run_id = goal.id, goal.run_id or ""
            self.headway.nudge()
            async for kind, data in events:
                if kind == "goal_changed" and data["goal"]["id"] == goal.id and data["goal"]["status"] != "active":
                    return Ending(data["goal"]["status"])
                if problem := await self.react(kind, data):
                    return problem
        raise Invalid("The event log ended before the goal did.")

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[AsyncIterator[tuple[str, dict[str, Any]]]]:
        """Follow the events from now on, and collect the events of tool calls."""
        feed = self.headway.feed
        channel, reader = await feed.open(TENANT_ID, None, None)

        async def iterate() -> AsyncIterator[tuple[str, dict[str, Any]]]:
            async for batch in feed.follow(channel, reader, text=False):
                for event in batch:
                    if not event.is_broadcast and event.kind != "ping":
                        data = event.decode_data()
                        self.trace.take(event.kind, data)
                        yield event.kind, data

        try:
            yield iterate()
        finally:
            feed.leave(channel, reader)

    async def react(self, kind: str, data: dict[str, Any]) -> Ending | None:
        """Decide about approvals and answer questions. Returns an ending if the attempt cannot continue."""
        if kind == "approval_requested":
            await self.decide(data["approval"])
        elif kind == "question_asked":
            return await self.answer_question(data["question"])
        elif kind == "tool_result" and self.recorded and self.recorded.missing:
            return Ending("needs_live", f"The recording has no result of this call: {self.recorded.missing}")
        return None

    async def decide(self, approval: dict[str, Any]) -> None:
        """Approve a call only if a rule of the case has asked about it, and the case says so."""
        line = RULE_LINE.fullmatch(approval["why"])
        is_case_rule = line is not None and int(line[1]) > self.policy_lines
        if is_case_rule and any(fnmatchcase(approval["tool"], glob) for glob in self.case.approve):
            await self.headway.as_caller(actor=PERSON).approvals.approve(approval["id"])
        else:
            await self.headway.as_caller(actor=PERSON).approvals.reject(approval["id"], REJECTION)

    async def answer_question(self, question: dict[str, Any]) -> Ending | None:
        asked = to_one_line(question["question"])[:QUOTE_LIMIT]
        if not self.answers:
            return Ending("unanswered", f"The agent asked {asked!r}, and the case has no answer for it.")
        try:
            await self.headway.as_caller(actor=PERSON).questions.answer(question["id"], self.answers.pop(0))
        except Invalid as error:
            return Ending("unanswered", f"The agent asked {asked!r}, and the case's answer does not fit: {error}")
        return None

    # After the end

    async def load_answer(self) -> str:
        def load(tx: Transaction) -> str:
            if self.goal_id:
                entries = views.list_entries(tx, TENANT_ID, self.goal_id, 1)
                data = entries[-1].as_json()["data"] if entries else {}
                return str(data.get("summary") or data.get("reason") or "")
            turn = turns.show_turn(tx, TENANT_ID, self.scope.turn_id or "", self.headway.settings.limits)
            return str(turn["answer"] or turn["error"] or "")

        return await self.headway.database.of(TENANT_ID).read(load)

    async def run_checks(self, answer: str) -> tuple[CheckResult, ...]:
        """Run the checks with the programs and hosts that the operator allows, whatever the case allows its agent."""
        settings = self.bench.settings
        runner = CheckRunner(ExternalAccess(settings.http_allow, settings.commands, settings.sandbox), self.headway.toolbox)
        scope = ResolvedScope(self.scope, self.conversation_uuid)
        execution = self.headway.execution(scope, self.headway.roles.find(choose_role(self.attempt)))
        results: list[CheckResult] = []

        async def judge(rubric: str, subject: CheckSubject) -> Opinion:
            opinion = await ask_opinion(self.headway.runtime.models, rubric, subject, is_last_attempt=True)
            self.extra_cost += opinion.call.cost if opinion.call else 0
            return opinion

        for check in self.case.checks:
            if runner.needs_approval([check]):
                results.append(CheckResult(check, ok=False, detail=NO_SANDBOX))
                continue
            subject = CheckSubject("todo", 0, self.case.message or self.case.goal, [check], answer)
            results += (await runner.run(subject, execution, PERSON, judge)).receipt.results
        return tuple(results)

    def list_problems(self, ending: Ending, checks: tuple[CheckResult, ...]) -> list[str]:
        problems: list[str] = []
        if ending.end not in self.case.ends:
            problems.append(ending.problem or f"It ended as {ending.end}, not as {' or '.join(self.case.ends)}.")
        tools = self.trace.tools
        problems += [f"It did not call {name}." for name in self.case.must_call if name not in tools]
        problems += [f"It called {name}." for name in self.case.must_not_call if name in tools]
        problems += [f"Check failed: {describe_check(result.check)}: {result.detail}" for result in checks if not result.ok]
        return problems

    async def load_usage(self) -> dict[str, Any]:
        """Sum up the model calls of all agents."""
        costs = await self.headway.database.of(TENANT_ID).read(lambda tx: spending.build_costs(tx, TENANT_ID, 0))
        total = {
            name: sum(row[name] for row in costs["by_model"]) for name in ("input_tokens", "output_tokens", "cost_usd", "calls")
        }
        total["steps"] = total.pop("calls")
        total["cost_usd"] += to_dollars(self.extra_cost)
        return total


def find_turn_ending(kind: str, data: dict[str, Any]) -> Ending | None:
    match kind:
        case "turn_finished":
            return Ending(data["outcome"])
        case "turn_failed":
            return Ending("failed", f"The turn failed: {data['error']}")
        case "turn_canceled":
            return Ending("canceled", "The turn was canceled.")
        case "turn_paused":
            return Ending("budget", f"It has used up its budget: {data['reason']}")
    return None


async def run_attempt(bench: Workbench, attempt: Attempt, budget_usd: float) -> AttemptResult:
    """Run an attempt from its empty home to its checks. A failure here is an error in the result, not an exception."""
    home = bench.folder / name_folder(attempt)
    begin = time.monotonic()
    blank = AttemptResult(attempt.key, attempt.case.name, attempt.cell, attempt.repetition, "error", "error")
    try:
        async with open_attempt(bench, attempt, home, budget_usd) as run:
            result = await finish_attempt(run, blank)
    except (HeadwayError, OSError) as error:
        result = blank._replace(problems=(f"The attempt could not be made: {error}",))
    finally:
        if not bench.keep:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
    return result._replace(duration_s=round(time.monotonic() - begin, 3))


async def finish_attempt(run: AttemptRun, blank: AttemptResult) -> AttemptResult:
    try:
        async with asyncio.timeout(run.case.timeout_s):
            ending = await run.work()
    except TimeoutError:
        ending = Ending("timeout", f"It was not done after {run.case.timeout_s:g} seconds.")
    answer = await run.load_answer() if run.run_id else ""
    checks = await run.run_checks(answer)
    problems = run.list_problems(ending, checks)
    status: AttemptStatus = "failed" if problems else "passed"
    redact = run.headway.redact
    steps = [
        step._replace(arguments=redact(step.arguments), result=redact(step.result))
        for step in run.trace.list_steps(run.run_id, answer)
    ]
    return blank._replace(
        status=status,
        end=ending.end,
        problems=tuple(redact(problem) for problem in problems),
        checks=tuple(result.as_json() for result in checks),
        answer=redact(answer)[:ANSWER_LIMIT],
        trace=tuple(steps),
        **await run.load_usage(),
    )


@asynccontextmanager
async def open_attempt(bench: Workbench, attempt: Attempt, home: Path, budget_usd: float) -> AsyncIterator[AttemptRun]:
    """Open the Headway of an attempt."""
    case, recording = attempt.case, Recording()
    if bench.replay and case.recording:
        recording = await asyncio.to_thread(load_recording, bench.suite.find_file(case.recording))
    policy_lines = await asyncio.to_thread(prepare_home, home, bench.settings, bench.suite, case)
    settings = build_settings(bench.settings, attempt, home, budget_usd, recording.calls if bench.replay else None)
    headway = Headway(settings, bench.models)
    recorded = RecordedCalls(recording.calls) if bench.replay else None
    if recorded:
        headway.toolbox.substitute(recorded.substitute)
    headway.roles = extend_prompt(headway.roles, choose_role(attempt), attempt.cell.prompt_text)
    try:
        headway.start()
        await headway.database.write(local_tenant.ensure_local)
        headway.start_agents()
        await headway.agents_ready()
        try:
            yield AttemptRun(headway, bench, attempt, policy_lines, recorded)
        finally:
            await headway.stop_agents()
    finally:
        headway.close()
