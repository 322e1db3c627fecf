"""Running writs: each result comes back in its own frame, in the wording of the specification."""

from typing import Any

import pytest

from headway.actions.todos import todo_lists
from headway.agents import writs
from headway.agents.instructions import roles
from headway.ledger.scope import Scope, Selection
from headway.ledger.tenancy import Conversation
from headway.ledger.todo import Todo
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.tables import each_row


class Writer:
    """An agent that writes text, inside or outside a conversation."""

    def __init__(self, desk: TenantHarness, conversation: Conversation | None = None, role: str = "index") -> None:
        self.desk = desk
        self.scope = Scope(desk.tenant.id, conversation.id if conversation else 0, None, "ada")
        self.role = roles.Roles().find(role)

    def __call__(self, text: str) -> str:
        return self.desk.database.write(lambda tx: writs.run_text(tx, self.scope, self.role, text)).output

    def lines(self, text: str) -> list[str]:
        """Return the lines inside the result's only frame."""
        head, *lines, end = self(text).split("\n")
        assert head.startswith("[/todo")
        assert end == "[END TODO]"
        return lines

    def add(self, subject: str, **fields: Any) -> Todo:
        return self.desk.add(subject, conversation_id=self.scope.conversation_id, **fields)

    def todos(self) -> list[Todo]:
        return self.desk.read(todo_lists.list_todos, Selection(self.scope.conversation_id), 500).todos


@pytest.fixture
def writer(desk: TenantHarness) -> Writer:
    return Writer(desk, desk.conversation())


# Listing


def test_a_list_looks_exactly_like_this(writer: Writer) -> None:
    ticket = writer.desk.add("file the rollback ticket")
    review = writer.add("review the canary deploy status")
    report = writer.add("write the post-mortem")
    writer.desk.change(review, status="in_progress")

    assert writer("/todo list") == (
        "[/todo list]\n"
        "3 open (1 in progress, 2 pending):\n"
        f"▶ #{review.id} [in_progress] review the canary deploy status\n"
        f"#{report.id} [pending] write the post-mortem\n"
        f"#{ticket.id} [pending] file the rollback ticket (tenant-wide)\n"
        "[END TODO]"
    )


def test_an_empty_list_says_so(writer: Writer) -> None:
    writer.desk.change(writer.add("done"), status="completed")

    assert writer("/todo list") == "[/todo list]\nno open todos\n[END TODO]"


def test_the_counts_always_have_both_numbers(writer: Writer) -> None:
    todo = writer.add("look")
    assert writer.lines("/todo list")[0] == "1 open (0 in progress, 1 pending):"

    writer.desk.change(todo, status="in_progress")
    assert writer.lines("/todo list")[0] == "1 open (1 in progress, 0 pending):"


def test_work_in_progress_comes_first_then_by_position_the_conversations_own_before_tenant_wide(writer: Writer) -> None:
    wide, wide_going = writer.desk.add("wide"), writer.desk.add("wide going")
    first, second, going = writer.add("first"), writer.add("second"), writer.add("going")
    front = writer.add("front", position=1)
    for todo in (wide_going, going):
        writer.desk.change(todo, status="in_progress")
    writer.desk.add("elsewhere", conversation_id=writer.desk.conversation().id)

    assert writer.lines("/todo list") == [
        "6 open (2 in progress, 4 pending):",
        f"▶ #{going.id} [in_progress] going",
        f"▶ #{wide_going.id} [in_progress] wide going (tenant-wide)",
        f"#{front.id} [pending] front",
        f"#{first.id} [pending] first",
        f"#{second.id} [pending] second",
        f"#{wide.id} [pending] wide (tenant-wide)",
    ]


def test_outside_of_a_conversation_the_list_is_the_tenant_wide_one(desk: TenantHarness) -> None:
    desk.add("elsewhere", conversation_id=desk.conversation().id)
    wide = desk.add("wide")

    assert Writer(desk).lines("/todo list") == ["1 open (0 in progress, 1 pending):", f"#{wide.id} [pending] wide (tenant-wide)"]


def test_a_long_list_says_how_many_it_leaves_out(writer: Writer) -> None:
    for n in range(53):
        writer.add(f"todo {n}")
    counts, *rows, more = writer.lines("/todo list")

    assert counts == "53 open (0 in progress, 53 pending):"
    assert (len(rows), more) == (50, "… and 3 more")


# Adding


def test_an_added_todo_is_the_conversations_under_the_agents_name(writer: Writer) -> None:
    (line,) = writer.lines("/todo add review the deploy status")
    (todo,) = writer.todos()

    assert line == f"added #{todo.id} [pending] review the deploy status"
    assert (todo.agent_id, todo.description, todo.turn_id) == ("ada", "", None)


def test_a_body_is_the_description(writer: Writer) -> None:
    writer("/todo add write the post-mortem\nwhat happened\n\n/todo list\n```\nwhy\n/endtodo\n")
    (todo,) = writer.todos()

    assert (todo.subject, todo.description) == ("write the post-mortem", "what happened\n\n/todo list\n```\nwhy")


@each_row("body", ["half of it", "half of it\n/endtod", "half\n/todo list\n/endtodo soon"])
def test_an_add_without_its_terminator_commits_nothing_and_says_so(writer: Writer, body: str) -> None:
    assert writer(f"/todo add write it\n{body}") == "[/todo add]\nERR: missing /endtodo terminator\n[END TODO]"
    assert writer.desk.count("todos") == 0


@each_row("text", ["/todo add", "/todo add   ", "/todo add\nbody\n/endtodo", f"/todo add {'x' * 1_001}"])
def test_an_add_without_a_subject_or_with_too_long_a_one_commits_nothing(writer: Writer, text: str) -> None:
    (line,) = writer.lines(text)

    assert line.startswith("ERR: ")
    assert writer.desk.count("todos") == 0


# Verbs


def test_a_todo_is_started_and_done_and_another_canceled(writer: Writer) -> None:
    look, build = writer.add("look"), writer.add("build")

    assert writer.lines(f"/todo start {look.id}") == [f"▶ #{look.id} [in_progress] look"]
    assert writer.lines(f"/todo done #{look.id}") == [f"#{look.id} [completed] look"]
    assert writer.lines("/todo cancel build") == [f"#{build.id} [canceled] build"]
    assert [writer.desk.get(todo).status for todo in (look, build)] == ["completed", "canceled"]
    assert writer.desk.get(look).completed_at > 0


def test_an_illegal_transition_is_refused_with_the_legal_ones(writer: Writer) -> None:
    todo = writer.add("look")
    writer(f"/todo done {todo.id}")

    assert writer.lines(f"/todo done {todo.id}") == [f"ERR: Todo {todo.id} is already completed."]
    (line,) = writer.lines(f"/todo cancel {todo.id}")
    assert line == f"ERR: Todo {todo.id} is completed and cannot become canceled; it can become pending or in_progress."
    (line,) = writer.lines(f"/todo start {todo.id}")
    assert line.startswith(f"ERR: Todo {todo.id} is completed and cannot be started. Reopen it first: set its status to pending")
    assert writer.desk.get(todo).status == "completed"


def test_describe_and_subject_change_the_words(writer: Writer) -> None:
    todo = writer.add("review the deploy status")
    writer(f"/todo describe {todo.id}: bumped to follow up: next sprint")
    (line,) = writer.lines("/todo subject review the deploy: review the canary: deploy status")

    changed = writer.desk.get(todo)
    assert changed.description == "bumped to follow up: next sprint"
    assert changed.subject == "review the canary: deploy status"
    assert line == f"#{todo.id} [pending] review the canary: deploy status"


def test_only_a_colon_followed_by_a_space_ends_the_id(writer: Writer) -> None:
    todo = writer.add("see http://example.com:80/x first")
    writer("/todo describe see http://example.com:80/x first: it is down")

    assert writer.desk.get(todo).description == "it is down"


@each_row("rest", ["{id}", "{id}:", "{id}: ", "{id}:text", ": text", "", "look at it"])
def test_describe_and_subject_without_an_id_and_a_text_change_nothing(writer: Writer, rest: str) -> None:
    todo = writer.add("look", description="as it was")
    for verb in ("describe", "subject"):
        (line,) = writer.lines(f"/todo {verb} {rest.format(id=todo.id)}")
        assert line.startswith("ERR: ")
    assert writer.desk.get(todo) == todo


@each_row("rest", ["", " ", "dance", "LIST", "reopen 1", "add\u00a0x"])
def test_an_unknown_verb_is_an_error_that_names_the_known_ones(writer: Writer, rest: str) -> None:
    (line,) = writer.lines(f"/todo {rest}".rstrip(" "))

    assert line.startswith("ERR: unknown verb")
    assert "add, list, start, done, cancel, describe, subject" in line


# Finding the todo


@each_row("reference", ["{id}", "#{id}", "  #{id}  "])
def test_a_number_is_an_id(writer: Writer, reference: str) -> None:
    todo = writer.add("look")
    writer(f"/todo done {reference.format(id=todo.id)}")

    assert writer.desk.get(todo).status == "completed"


@each_row("number", ["987654321", "#987654321", "0", "9" * 19, "9" * 5_000])
def test_a_number_never_falls_through_to_a_subject(writer: Writer, number: str) -> None:
    todo = writer.add(number[:1000])
    also = writer.add(f"{number[:900]} bottles")
    (line,) = writer.lines(f"/todo done {number}")

    assert line.startswith("ERR: No todo")
    assert len(line) < 60
    assert {writer.desk.get(row).status for row in (todo, also)} == {"pending"}


def test_a_subject_matches_exactly_then_in_any_case_then_by_its_beginning(writer: Writer) -> None:
    exact, lower, longer = writer.add("Deploy"), writer.add("deploy"), writer.add("deploy the canary")

    writer("/todo start Deploy")
    assert [writer.desk.get(row).status for row in (exact, lower, longer)] == ["in_progress", "pending", "pending"]
    writer("/todo done deploy the")
    assert writer.desk.get(longer).status == "completed"
    writer("/todo done deploy")
    assert [writer.desk.get(row).status for row in (exact, lower)] == ["in_progress", "completed"]
    writer("/todo done DEPLOY")
    assert writer.desk.get(exact).status == "completed"


@pytest.mark.parametrize(
    ("subjects", "reference"), [(["look", "look"], "look"), (["Look", "lOOK"], "look"), (["look a", "Look b"], "LOOK")]
)
def test_several_matches_are_ambiguous_and_nothing_changes(writer: Writer, subjects: list[str], reference: str) -> None:
    first, second = (writer.add(subject) for subject in subjects)

    assert writer.lines(f"/todo done {reference}") == [f"ERR: ambiguous: #{first.id}, #{second.id} match; use the id"]
    assert {writer.desk.get(row).status for row in (first, second)} == {"pending"}


def test_open_todos_come_before_ended_ones_and_ended_ones_are_found_too(writer: Writer) -> None:
    ended, open_one = writer.add("look"), writer.add("look around")
    writer.desk.change(ended, status="completed")

    writer("/todo start look")
    assert writer.desk.get(open_one).status == "in_progress"
    writer("/todo done look around")
    assert writer.lines("/todo done look around") == [f"ERR: Todo {open_one.id} is already completed."]


def test_an_unknown_subject_is_not_found(writer: Writer) -> None:
    writer.add("look")

    assert writer.lines("/todo done build") == ["ERR: no todo with that subject"]
    assert writer.lines("/todo done") == ["ERR: name a todo by its id or its subject"]


def test_tenant_wide_todos_are_in_reach_and_another_conversations_are_not(writer: Writer) -> None:
    wide = writer.desk.add("wide")
    elsewhere = writer.desk.add("elsewhere", conversation_id=writer.desk.conversation().id)

    assert writer.lines("/todo start wide") == [f"▶ #{wide.id} [in_progress] wide (tenant-wide)"]
    assert writer.lines(f"/todo done {elsewhere.id}") == [f"ERR: No todo {elsewhere.id}."]
    assert writer.lines("/todo done elsewhere") == ["ERR: no todo with that subject"]


def test_another_tenants_todos_are_out_of_reach(writer: Writer, database: DirectDatabase) -> None:
    theirs = TenantHarness(database, "rival").add("theirs")

    assert writer.lines(f"/todo done {theirs.id}") == [f"ERR: No todo {theirs.id}."]
    assert writer.lines("/todo done theirs") == ["ERR: no todo with that subject"]
    assert writer.lines("/todo list") == ["no open todos"]


# Several writs, and permissions


def test_a_writ_that_fails_leaves_the_others_alone(writer: Writer) -> None:
    answer = writer("/todo add first\n/todo done 987654321\n/todo add \n/todo add third\n/todo list\n")

    frames = answer.split("[END TODO]\n")
    assert len(frames) == 5
    assert [("ERR: " in frame) for frame in frames] == [False, True, True, False, False]
    assert "2 open (0 in progress, 2 pending):" in frames[-1]
    assert writer.desk.subjects(Selection(writer.scope.conversation_id)) == ["first", "third"]


def test_a_text_without_writs_has_no_output(writer: Writer) -> None:
    assert writer("plain text\n```\n/todo list\n```\n") == ""


def test_a_text_runs_only_so_many_writs(writer: Writer) -> None:
    answer = writer("/todo add look\n" * 202)

    assert writer.desk.count("todos") == 200
    assert answer.endswith("[/todo]\nERR: at most 200 writs in one text; the last 2 did not run\n[END TODO]")


@each_row("role", ["index", "researcher", "coder", "writer", "reviewer"])
def test_every_built_in_role_may_write_todos(desk: TenantHarness, role: str) -> None:
    assert Writer(desk, role=role).lines("/todo list") == ["no open todos"]


@each_row("text", ["/todo add look", "/todo list", "/todo add look\nbody without end", "/todo dance"])
def test_a_missing_grant_is_named_and_nothing_runs(writer: Writer, text: str) -> None:
    writer.role = writer.role._replace(name="mute", writs=frozenset())

    assert writer.lines(text) == ["ERR: the role mute needs the grant `todos` for this"]
    assert writer.desk.count("todos") == 0


# Writs that need more than the ledger


@each_row(
    ("text", "answer"),
    [
        ("/agent coder fix it", "[/agent coder]\nERR: /agent is not available here\n[END AGENT]"),
        (
            "/schedule daily 0 6 * * *",
            "[/schedule daily]\nERR: write it as NAME CRON: TEXT, or NAME every 30m: TEXT\n[END SCHEDULE]",
        ),
        ("/schedule list", "[/schedule list]\nno schedules\n[END SCHEDULE]"),
        (
            "/parallel\n/agent coder fix\u2028it\n\n/agent writer tell\n/endparallel",
            "[/agent coder]\nERR: /agent is not available here\n[END AGENT]\n"
            "[/agent writer]\nERR: /agent is not available here\n[END AGENT]",
        ),
        ("/parallel\n/agent coder fix it", "[/parallel]\nERR: missing /endparallel terminator\n[END AGENT]"),
    ],
)
def test_a_writ_that_cannot_run_here_gets_an_error_frame(writer: Writer, text: str, answer: str) -> None:
    assert writer(text) == answer
