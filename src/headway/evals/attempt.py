"""One attempt at a case: starts the turn or the goal in a separate Headway, answers for the people, and runs the checks."""

import asyncio
import re
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway.actions import conversations, goal_views, goals, spending, turn_plan, turns
from headway.actions.access import tenants
from headway.actions.goals import NewGoal
from headway.actions.turn_plan import PlanItem
from headway.agents.checks.runner import CheckRunner, CheckSubject, Opinion
from headway.agents.loop.calls.proofs import ask_opinion
from headway.agents.tools.builtin import ExternalAccess
from headway.agents.tools.execution import ResolvedScope
from headway.assembly import Headway
from headway.evals.isolation import TENANT_ID, build_settings, choose_role, extend_prompt, name_folder, prepare_home
from headway.evals.matrix import Attempt
from headway.evals.recordings import RecordedCalls, Recording, load_recording
from headway.evals.results import AttemptResult, AttemptStatus
from headway.evals.suite import PlannedItem, Suite
from headway.evals.traces import TraceCollector
from headway.ledger.check import CheckResult, describe_check, encode_checks
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.permission import FILE_NAME as POLICY_FILE_NAME
from headway.ledger.run import to_dollars
from headway.ledger.scope import Scope
from headway.ledger.text import to_one_line
from headway.settings import Settings
from headway.storage.transaction import Transaction

ANSWER_LIMIT: Final = 4_000  # characters of an answer that a result keeps
QUOTE_LIMIT: Final = 300
PERSON: Final = "eval"  # who decides and answers
REJECTION: Final = "No person is available to approve it: this is an evaluation."
NO_SANDBOX: Final = "It was not run: there is no sandbox here. Install bubblewrap (see `headway doctor`)."
RULE_LINE: Final = re.compile(rf"{re.escape(POLICY_FILE_NAME)}, line (\d{{1,9}})")


class Workbench(NamedTuple):
    """What the attempts of a run share."""

    suite: Suite
    settings: Settings  # the operator's
    folder: Path
    replay: bool = False
    keep: bool = False
    models: Mapping[str, Any] = {}  # models that a program has built, by name


class Ending(NamedTuple):
    """How a turn or a goal ended."""

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
        conversation = await self.headway.database.of(TENANT_ID).write(lambda tx: conversations.add(tx, TENANT_ID))
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
            run = turns.start(tx, TENANT_ID, self.scope.conversation_id, request)
            turn_id = run.turn_id or ""
            if plan:
                items = [PlanItem(item.title, checks=encode_checks(item.checks)) for item in plan]
                turn_plan.create(tx, self.scope._replace(turn_id=turn_id), turn_id, items)
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
            goal = await self.headway.database.of(TENANT_ID).write(lambda tx: goals.add(tx, TENANT_ID, new_goal, limits))
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
        """Follow the events from now on. Those of tool calls are collected."""
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
                entries = goal_views.list_entries(tx, TENANT_ID, self.goal_id, 1)
                data = entries[-1].as_json()["data"] if entries else {}
                return str(data.get("summary") or data.get("reason") or "")
            turn = turns.show(tx, TENANT_ID, self.scope.turn_id or "", self.headway.settings.limits)
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
    """Run an attempt from its empty home to its checks. What goes wrong here is an error in the result, not an exception."""
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
        await headway.database.write(tenants.ensure_local)
        headway.start_agents()
        await headway.agents_ready()
        try:
            yield AttemptRun(headway, bench, attempt, policy_lines, recorded)
        finally:
            await headway.stop_agents()
    finally:
        headway.close()
