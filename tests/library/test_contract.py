"""The methods of the library, the same for every way to use it."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from headway import AgentResult, CheckFailed, Client, Conflict, Halted, Invalid, LeaseLost, NotFound, Todo, TurnReport
from headway.ledger.errors import Leased, NameTaken, TurnEnded, TurnRunning
from tests.library.contract import Variant

OUTCOME_CHECK = {"kind": "outcome", "schema": {"type": "string", "pattern": "^done"}}


def subjects(todos: object) -> list[str]:
    return [todo.subject for todo in todos]  # type: ignore[attr-defined]


# Todos


@pytest.mark.both_databases
def test_todos_are_added_listed_changed_and_ended(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        before = datetime.now(UTC) - timedelta(seconds=2)
        first = await headway.todos.add("write", description="a page", completion_criteria="it reads well")
        assert isinstance(first, Todo)
        assert (first.status, first.description, first.is_open, first.completed_at) == ("pending", "a page", True, None)
        assert before <= first.created_at
        second, third = await headway.todos.add_many(["proofread", {"subject": "print", "depends_on": [first.id]}])
        assert third.depends_on == (first.id,)
        assert subjects(await headway.todos.ready()) == ["write", "proofread"]
        page = await headway.todos.list(limit=2)
        assert (subjects(page), len(page), page[0].id) == (["write", "proofread"], 2, first.id)
        assert subjects(await headway.todos.list(limit=2, cursor=page.next_cursor)) == ["print"]
        assert subjects([todo async for todo in headway.todos.iterate()]) == ["write", "proofread", "print"]

        renamed = await headway.todos.update(second.id, subject="proofread twice", position=0, agent_type="editor")
        assert (renamed.subject, renamed.agent_type, renamed.description) == ("proofread twice", "editor", "")
        assert (await headway.todos.update(second.id, agent_type=None)).agent_type is None
        assert (await headway.todos.start(first.id)).status == "in_progress"
        done = await headway.todos.complete(first.id, "two pages")
        assert (done.status, done.outcome, done.is_open, done.completed_by) == ("completed", "two pages", False, "person")
        assert done.completed_at is not None
        assert subjects(await headway.todos.ready()) == ["proofread twice", "print"]
        assert (await headway.todos.cancel(third.id, "no paper")).outcome == "no paper"
        assert (await headway.todos.reopen(third.id)).status == "pending"
        assert subjects(await headway.todos.list(status="completed")) == ["write"]
        await headway.todos.delete(third.id)
        with pytest.raises(NotFound, match=f"No todo {third.id}"):
            await headway.todos.get(third.id)
        assert repr(await headway.todos.get(first.id)).startswith(f"Todo(id={first.id}, subject='write', status='completed', ")

    variant.run(scenario)


def test_refusals_are_the_same_errors_with_the_same_sentences(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        todo = await headway.todos.add("write")
        for call, error, sentence in (
            (headway.todos.get(404), NotFound, "No todo 404."),
            (headway.todos.add("   "), Invalid, "A todo needs a subject"),
            (headway.todos.add("a", checks=[{"kind": "x"}]), Invalid, "checks.0.kind: must be one of command, file, http"),
            (headway.todos.list(limit=501), Invalid, "limit"),
            (headway.todos.list(cursor="nonsense"), Invalid, "This list did not give out that cursor"),
            (headway.todos.list(conversation_id=404), NotFound, "No conversation 404."),
            (headway.todos.add("a", depends_on=[404]), NotFound, "404"),
            (headway.todos.update(todo.id, depends_on=[todo.id]), Invalid, "wait for each other"),
            (headway.todos.complete(404), NotFound, "No todo 404."),
            (headway.todos.delete(404), NotFound, "No todo 404."),
            (headway.conversations.get("nobody"), NotFound, "No conversation with the key 'nobody'."),
            (headway.turns.get("nothing"), NotFound, "No turn 'nothing'."),
            (headway.goals.get(404), NotFound, "No goal #404."),
            (headway.jobs.get("nothing"), NotFound, "nothing"),
            (headway.schedules.get("nothing"), NotFound, "nothing"),
            (headway.agents.get("nothing"), NotFound, "nothing"),
            (headway.approvals.approve(404), NotFound, "404"),
            (headway.memory.get(404), NotFound, "404"),
            (headway.memory.add(" "), Invalid, ""),
            (
                headway.schedules.put("both", cron="* * * * *", every_s=5, goal={"description": "x"}),
                Invalid,
                "either cron or every",
            ),
            (headway.goals.add("x", deadline=datetime(2001, 1, 1, tzinfo=UTC)), Invalid, "deadline"),
        ):
            with pytest.raises(error) as caught:
                await call
            assert sentence in str(caught.value)

    variant.run(scenario)


def test_a_claim_is_a_lease(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        assert await headway.todos.claim("ada") is None
        todo = await headway.todos.add("write")
        claim = await headway.todos.claim("ada", lease_s=30)
        assert claim is not None
        assert (claim.todo.id, claim.todo.agent_id, claim.todo.status) == (todo.id, "ada", "in_progress")
        assert claim.lease.expires_at > datetime.now(UTC)
        assert await headway.todos.claim("bob") is None
        longer = await headway.todos.heartbeat(claim, lease_s=3600)
        assert longer.lease.expires_at > claim.lease.expires_at
        with pytest.raises(Leased):
            await headway.todos.complete(todo.id)
        await headway.todos.complete(todo.id, "done", lease_token=claim.lease.token)
        with pytest.raises(LeaseLost):
            await headway.todos.heartbeat(claim)

    variant.run(scenario)


def test_checks_run_before_a_todo_is_completed(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        todo = await headway.todos.add("prove it", checks=[OUTCOME_CHECK])
        assert (todo.proof, todo.checks[0]["kind"]) == ("unproven", "outcome")
        with pytest.raises(CheckFailed) as caught:
            await headway.todos.complete(todo.id, "no")
        assert len(caught.value.failures) == 1
        assert (await headway.todos.get(todo.id)).status == "pending"
        assert (await headway.todos.complete(todo.id, "done")).proof == "proven"
        newest, oldest = await headway.todos.receipts(todo.id)
        assert (newest.ok, oldest.ok, oldest.checks[0].ok) == (True, False, False)
        assert (await headway.todos.verify(todo.id)).ok
        other = await headway.todos.add("believe it", checks=[OUTCOME_CHECK])
        assert (await headway.todos.complete(other.id, "no", override="I saw it")).proof == "overridden"

    variant.run(scenario)


def test_todos_have_comments(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        todo = await headway.todos.add("write")
        first = await headway.todos.comment(todo.id, "  Mind the *gap*.\n")
        second = await headway.todos.comment(todo.id, "Done?")
        assert (first.text, first.todo_id) == ("Mind the *gap*.", todo.id)
        assert first.person
        page = await headway.todos.comments(todo.id, limit=1)
        assert [comment.id for comment in page] == [first.id]
        assert [comment.text for comment in await headway.todos.comments(todo.id, cursor=page.next_cursor)] == ["Done?"]
        edited = await headway.todos.edit_comment(todo.id, second.id, "Is it done?")
        assert (edited.text, edited.created_at, second.edited_at) == ("Is it done?", second.created_at, None)
        assert edited.edited_at is not None
        await headway.todos.delete_comment(todo.id, second.id)
        assert len(await headway.todos.comments(todo.id)) == 1
        for call, error, sentence in (
            (headway.todos.comment(404, "x"), NotFound, "No todo 404."),
            (headway.todos.comment(todo.id, "  "), Invalid, ""),
            (headway.todos.delete_comment(todo.id, second.id), NotFound, f"No comment {second.id} on todo {todo.id}."),
        ):
            with pytest.raises(error) as caught:
                await call
            assert sentence in str(caught.value)

    variant.run(scenario)


# Asking


@pytest.mark.both_databases
def test_a_question_is_answered_with_a_report(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        report = await headway.ask("Calculate 12*7, then write the result to notes.txt", "user-42")
        assert isinstance(report, TurnReport)
        assert (report.status, report.outcome) == ("finished", "drained")
        assert "84" in report.answer
        assert [todo.status for todo in report.todos] == ["completed", "completed"]
        assert report.usage.input_tokens > report.usage.output_tokens > 0
        assert report.usage.total_tokens == report.usage.input_tokens + report.usage.output_tokens
        assert (report.cost_usd, report.models) == (0, ("rehearsal",))
        assert report.duration_s > 0
        (file,) = await headway.files.list(turn_id=report.id)
        assert (file.path, file.version.turn_id, await headway.files.read(file.id)) == ("notes.txt", report.id, b"84")
        assert [version.n for version in await headway.files.versions(file.id)] == [1]
        assert [found.id async for found in headway.files.iterate("notes")] == [file.id]
        with pytest.raises(NotFound):
            await headway.files.read(file.id, 404)
        again = await headway.ask("hello", "user-42")
        assert again.conversation_id == report.conversation_id == (await headway.conversations.get("user-42")).id
        with pytest.raises(NotFound, match="No conversation 404"):
            await headway.ask("hello", 404)
        with pytest.raises(Invalid):
            await headway.ask("  ", "user-43")
        assert [message.role for message in await headway.conversations.messages(report.conversation_id)].count("user") == 2
        (agent,) = await headway.agents.list(turn_id=report.id)
        assert (agent.status, agent.turn_id) == ("completed", report.id)
        tools = [call.tool async for step in headway.agents.steps(agent.id) for call in step.calls]
        assert "calculate" in tools
        costs = await headway.costs.get()
        assert (costs.spent_usd, [spent.model for spent in costs.by_model]) == (0, ["rehearsal"])

    variant.run(scenario)


def test_an_answer_is_streamed(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        stream = headway.ask_stream("Calculate 12*7, then write the result to notes.txt", "streamed")
        with pytest.raises(Conflict, match="has not started"):
            await stream.cancel()
        events = [event async for event in stream]
        kinds = [event.kind for event in events]
        assert (kinds[0], kinds[-1]) == ("turn_started", "turn_finished")
        assert {"tool_call", "tool_result", "todos_updated", "message"} <= set(kinds)
        report = await stream.report()
        assert (report.id, events[0].turn_id) == (stream.turn_id, stream.turn_id)
        said = "".join(event.text for event in events)
        assert report.answer in said
        numbers = [event.number for event in events if event.number is not None]
        assert numbers == sorted(set(numbers))

        assert "the outcome drained." in await headway.turns.why(report.id)
        assert f"Todo #{report.todos[0].id} is completed." in await headway.todos.why(report.todos[0].id)

        again = [event async for event in headway.turns.stream(report.id)]
        assert [event.number for event in again] == numbers
        rest = [event async for event in headway.turns.stream(report.id, after=numbers[-3])]
        assert [event.number for event in rest] == numbers[-2:]
        assert (await headway.turns.wait(report.id)).answer == report.answer

    variant.run(scenario)


def test_a_turn_is_steered_and_canceled(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        turn = await headway.turns.start("Calculate 2*3, then write the result to secret.txt", "slow")
        async for event in headway.turns.stream(turn.id):
            if event.kind == "approval_requested":
                break
        (approval,) = await headway.approvals.list()
        assert (approval.turn_id, approval.tool, approval.state) == (turn.id, "write_file", "proposed")
        waiting = await headway.turns.get(turn.id)
        assert (waiting.status, waiting.waiting_for and waiting.waiting_for.id) == ("waiting", approval.id)
        with pytest.raises(TurnRunning):
            await headway.ask("hello", "slow")
        sent = await headway.turns.send_message(turn.id, "Blue, by the way.")
        assert (sent.content, sent.turn_id) == ("Blue, by the way.", turn.id)
        await headway.send_message("Or green.", "slow")
        assert [message.content for message in await headway.turns.sent_messages(turn.id)] == ["Blue, by the way.", "Or green."]
        canceled = await headway.turns.cancel(turn.id)
        assert (canceled.status, canceled.answer) == ("canceled", None)
        assert canceled.ended_at is not None
        with pytest.raises(TurnEnded):
            await headway.turns.cancel(turn.id)
        with pytest.raises(Conflict, match="No turn is running"):
            await headway.send_message("Too late.", "slow")
        assert (await headway.turns.report(turn.id)).status == "canceled"
        assert (await headway.approvals.get(approval.id)).state == "canceled"

    variant.run(scenario)


# Conversations, goals, schedules, notes


def test_conversations_are_found_by_key_renamed_deleted_and_restored(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        assert await headway.conversations.find("user-1") is None
        opened = await headway.conversations.add("Party", key="user-1")
        assert await headway.conversations.ensure("user-1") == opened
        with pytest.raises(NameTaken):
            await headway.conversations.add(key="user-1")
        other = await headway.conversations.ensure("user-2")
        assert [found.key for found in await headway.conversations.list()] == ["user-2", "user-1"]
        assert [found.id async for found in headway.conversations.iterate("party")] == [opened.id]
        assert (await headway.conversations.rename(other.id, "Work")).title == "Work"
        until = await headway.conversations.delete(other.id)
        assert until > datetime.now(UTC)
        with pytest.raises(NotFound):
            await headway.conversations.get(other.id)
        assert (await headway.conversations.restore(other.id)).title == "Work"
        todo = await headway.todos.add("cake", conversation_id=opened.id)
        assert [found.id async for found in headway.todos.iterate(conversation_id=opened.id)] == [todo.id]
        assert len(await headway.todos.list(conversation_id="tenant")) == 0
        turn = await headway.turns.open(opened.id)
        assert (turn.status, turn.conversation_id) == ("running", opened.id)

    variant.run(scenario)


def test_a_goal_is_pursued_to_its_end(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        goal = await headway.goals.add("Calculate 6*7, then write the result to answer.txt")
        assert (goal.status, goal.source, goal.budget_usd, goal.deadline) == ("active", "operator-injected", None, None)
        ended = await headway.goals.wait(goal.id)
        assert (ended.status, ended.progress.total) == ("completed", len(ended.sub_goals))
        assert ended.ended_at is not None
        done = ended.sub_goals[0].outcome
        assert done is not None
        assert (done.status, done.error) == ("completed", None)
        assert done.summary
        main = await headway.agents.get(ended.run_id or "")
        assert main.result is None or isinstance(main.result, AgentResult)
        assert (await headway.goals.journal(goal.id))[0].n == 1
        assert await headway.goals.why(goal.id)
        assert [found.id async for found in headway.goals.iterate(status="completed")] == [goal.id]
        with pytest.raises(Conflict):
            await headway.goals.pause(goal.id)
        repeated = await headway.goals.run_again(goal.id)
        assert (repeated.description, repeated.id) != (goal.description, goal.id)
        assert (await headway.goals.wait(repeated.id)).status == "completed"

    variant.run(scenario)


def test_goals_are_paused_decided_and_abandoned(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        deadline = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
        work = "Calculate 6*7, then write the result to secret.txt"  # needs an approval, so the goal cannot end during the test
        goal = await headway.goals.add(work, success_criteria="It is written.", budget_usd=2, deadline=deadline, priority=3)
        assert goal.success_criteria == "It is written."
        assert (goal.deadline, goal.budget_usd, goal.priority) == (deadline, 2, 3)
        changed = await headway.goals.update(goal.id, priority=4, deadline=None, budget_usd=3)
        assert (changed.priority, changed.deadline, changed.budget_usd) == (4, None, 3)
        paused = await headway.goals.pause(goal.id)
        assert (paused.status, paused.pause_kind) == ("paused", "operator")
        assert (await headway.goals.wait(goal.id)).status == "paused"
        assert (await headway.goals.decide(goal.id, "continue")).status == "active"
        assert (await headway.goals.abandon(goal.id)).status == "abandoned"

    variant.run(scenario)


def test_schedules_notes_and_costs(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        schedule = await headway.schedules.put("nightly", cron="0 6 * * *", timezone="Europe/Berlin", goal={"description": "tidy"})
        assert (schedule.cron, schedule.timezone, schedule.paused) == ("0 6 * * *", "Europe/Berlin", False)
        assert schedule.goal is not None
        assert schedule.goal["description"] == "tidy"
        assert (await headway.schedules.pause("nightly")).next_at is None
        assert (await headway.schedules.resume("nightly")).next_at is not None
        tool = {"name": "todo_add", "arguments": {"subject": "from a schedule"}}
        await headway.schedules.put("often", every_s=3600, tool=tool)
        ran = await headway.schedules.run("often")
        assert ran.last_job is not None
        assert (await headway.jobs.get(ran.last_job)).kind == "tool"
        assert "The schedule often started it." in await headway.jobs.why(ran.last_job)
        assert ran.last_job in {job.id for job in await headway.jobs.list(kind="tool")}
        with pytest.raises(Conflict):
            await headway.jobs.delete(ran.last_job)
        assert [found.name for found in await headway.schedules.list()] == ["nightly", "often"]
        await headway.schedules.delete("nightly")

        note = await headway.memory.add("Zoe likes tea", kind="taste")
        assert [found.id for found in await headway.memory.list("tea")] == [note.id]
        edited = await headway.memory.update(note.id, text="Zoe likes coffee", revision=note.revision)
        assert (edited.revision, edited.kind) == (1, "taste")
        with pytest.raises(Conflict):
            await headway.memory.update(note.id, text="Zoe likes milk", revision=note.revision)
        await headway.memory.delete(note.id)
        assert (await headway.costs.set_limit(2.5)).limit_usd == 2.5

    variant.run(scenario)


def test_the_name_of_a_schedule_fits_into_an_address(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        name = "a?b #c%2Fä"
        assert (await headway.schedules.put(name, every_s=3600, goal={"description": "tidy"})).name == name
        assert (await headway.schedules.pause(f" {name} ")).paused
        assert (await headway.schedules.get(name)).name == name
        for wrong in ("a/b", ".", "..", "", "/"):
            for call in (
                headway.schedules.put(wrong, every_s=3600, goal={"description": "tidy"}),
                headway.schedules.get(wrong),
                headway.schedules.run(wrong),
                headway.schedules.delete(wrong),
            ):
                with pytest.raises(Invalid, match="name"):
                    await call
        assert [schedule.name for schedule in await headway.schedules.list()] == [name]

    variant.run(scenario)


# Operators


def test_webhooks_are_added_changed_and_deleted(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        created = await headway.webhooks.add("https://receiver.example/hook", kinds=["turn_finished"], description="ours")
        assert created.secret is not None
        assert created.secret.startswith("whsec_")
        assert created.secret not in repr(created)
        webhook = created.webhook
        assert (webhook.kinds, webhook.state, webhook.paused, webhook.retry_at) == (("turn_finished",), "active", False, None)
        changed = await headway.webhooks.update(webhook.id, kinds=["turn_failed", "goal_changed"], description="theirs")
        assert (changed.kinds, changed.description, changed.url) == (("turn_failed", "goal_changed"), "theirs", webhook.url)
        assert (await headway.webhooks.pause(webhook.id)).state == "paused"
        assert (await headway.webhooks.resume(webhook.id)).state == "active"
        rotated = await headway.webhooks.rotate_secret(webhook.id, overlap_s=0)
        assert rotated.secret not in (None, created.secret)
        assert (await headway.webhooks.replay(webhook.id, 0)).id == webhook.id
        assert await headway.webhooks.deliveries(webhook.id) == ()
        assert [found.id for found in await headway.webhooks.list()] == [webhook.id]
        await headway.webhooks.delete(webhook.id)
        for call, error, sentence in (
            (headway.webhooks.get(webhook.id), NotFound, "No webhook"),
            (headway.webhooks.add("http://127.0.0.1/hook"), Invalid, ""),
            (headway.webhooks.add("https://receiver.example", conversation_id=404), NotFound, "No conversation 404."),
        ):
            with pytest.raises(error) as caught:
                await call
            assert sentence in str(caught.value)

    variant.run(scenario)


def test_tokens_are_issued_rotated_and_revoked(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        created = await headway.tokens.add("a dashboard", scope="read", expires_s=3600)
        token = created.token
        assert created.secret is not None
        assert created.secret.startswith("hw_")
        assert created.secret not in repr(created)
        assert (token.label, token.scopes, token.revoked_at) == ("a dashboard", ("read",), None)
        assert token.expires_at is not None
        assert token.expires_at > datetime.now(UTC)
        rotated = await headway.tokens.rotate(token.id, overlap_s=0)
        assert (rotated.token.label, rotated.token.scopes) == (token.label, token.scopes)
        active = {found.id for found in await headway.tokens.list()}
        assert rotated.token.id in active
        assert token.id not in active
        assert {found.id: found.replaced_by for found in await headway.tokens.list(state="all")}[token.id] == rotated.token.id
        assert (await headway.tokens.revoke(rotated.token.id)).revoked_at is not None
        with pytest.raises(NotFound):
            await headway.tokens.rotate(token.id)

    variant.run(scenario)


def test_all_work_is_halted_and_continues(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        assert not (await headway.halt.get()).halted
        halted = await headway.halt.start("a test")
        try:
            assert (halted.halted, halted.why) == (True, "a test")
            assert halted.since is not None
            with pytest.raises(Halted, match="a test"):
                await headway.ask("hello")
        finally:
            assert not (await headway.halt.end()).halted
        assert (await headway.ask("hello")).status == "finished"

    variant.as_operator().run(scenario)


# Events


@pytest.mark.both_databases
def test_events_are_replayed_filtered_and_followed(variant: Variant) -> None:
    async def scenario(headway: Client) -> None:
        await headway.todos.add("one")
        two = await headway.todos.add("two")
        conversation = await headway.conversations.add(key="elsewhere")
        seen = []
        async for event in headway.events.follow(kinds="todo_changed", after=0):
            assert event.kind == "todo_changed"
            seen.append((event.data["change"], event.data["todo"]["subject"]))
            if len(seen) == 2:
                await headway.todos.complete(two.id)  # after the replay come new events
            if len(seen) == 3:
                break
        assert seen == [("created", "one"), ("created", "two"), ("updated", "two")]
        assert event.number is not None

        with pytest.raises(Invalid, match="Did you mean todo_changed"):
            await anext(headway.events.follow(kinds="todo_change"))  # type: ignore[arg-type]  # as a program without types

        last: int = event.number
        late = [last]
        three = asyncio.create_task(headway.todos.add("three", conversation_id=conversation.id))
        async for event in headway.events.follow(conversation_id=conversation.id, after=last):
            late.append(event.number or 0)
            if event.kind == "todo_changed":
                assert event.data["todo"]["id"] == (await three).id
                break
        assert late == sorted(late)
        with pytest.raises(NotFound):
            await anext(aiter(headway.events.follow(conversation_id=404)))

    variant.run(scenario)
