"""A todo or a memory belongs to the conversation or to the tenant: an agent chooses one, and sees both."""

from pathlib import Path

from headway.actions.runs import runs
from headway.actions.todos import conversations
from headway.actions.turns import memory
from headway.ledger.scope import MemorySelection, Scope
from headway.storage.stores.memory import MemoryOrigin
from headway.testing import TenantHarness
from tests.agents.agent_harness import Agent
from tests.agents.external_tools import build_caller
from tests.agents.sub_agent_harness import by_role, by_transcript, delegate_call, get_envelope, list_requests
from tests.agents.test_writs import Writer
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import calls, text
from tests.tables import each_row


def list_subjects(agent: Agent) -> list[str]:
    return [todo["subject"] for todo in agent("todo_list")["todos"]]


def list_notes(agent: Agent) -> list[str]:
    return [entry["text"] for entry in build_caller(agent)("recall")["entries"]]


# Todos


def test_a_todo_is_the_conversations_unless_the_agent_asks_for_the_tenant_wide_list(agent: Agent) -> None:
    """001: "Conversation-scoped (the default when a conversation is bound to the request)" and "Tenant-wide (conversation_id = 0).
    Visible from every conversation, but also surfaced inside one."."""
    mine = agent("todo_add", subject="mine")["todo"]
    wide = agent("todo_add", subject="wide", tenant_wide=True)["todo"]

    assert (mine["conversation_id"], wide["conversation_id"]) == (agent.conversation.id, 0)
    assert (wide["turn_id"], wide["agent_id"]) == (None, "ada")
    assert list_subjects(agent) == ["mine", "wide"]
    assert list_subjects(agent.another()) == ["wide"]
    assert list_subjects(agent.another(TenantHarness(agent.desk.database, "rival"))) == []


def test_the_tenant_is_never_the_agents_to_choose(agent: Agent) -> None:
    for arguments in ({"tenant_wide": "perhaps"}, {"tenant_wide": 7}, {"tenant_id": 1}, {"conversation_id": 0}):
        assert agent.refused("todo_add", subject="x", **arguments)
    assert agent.desk.count("todos") == 0


def test_a_writ_adds_a_tenant_wide_todo_with_a_flag(desk: TenantHarness) -> None:
    """001: "Useful for cross-thread initiatives the agent should remember between sessions."."""
    here, elsewhere = Writer(desk, desk.conversation()), Writer(desk, desk.conversation())
    (line,) = here.lines("/todo add --tenant-wide  migrate the logs\nby March\n/endtodo")
    (todo,) = elsewhere.todos()

    assert line == f"added #{todo.id} [pending] migrate the logs (tenant-wide)"
    assert (todo.conversation_id, todo.agent_id, todo.description) == (0, "ada", "by March")
    assert elsewhere.lines("/todo list")[1:] == [f"#{todo.id} [pending] migrate the logs (tenant-wide)"]


@each_row("rest", ["--tenant-wide", "--tenant-wide   "])
def test_the_flag_of_a_writ_is_not_a_subject(desk: TenantHarness, rest: str) -> None:
    (line,) = Writer(desk, desk.conversation()).lines(f"/todo add {rest}")

    assert line.startswith("ERR: A todo needs a subject")
    assert desk.count("todos") == 0


@each_row("subject", ["--tenant-wider view", "say --tenant-wide"])
def test_only_the_flag_itself_at_the_start_is_one(desk: TenantHarness, subject: str) -> None:
    writer = Writer(desk, desk.conversation())
    writer(f"/todo add {subject}")

    assert [(todo.subject, todo.conversation_id) for todo in writer.todos()] == [(subject, writer.scope.conversation_id)]


# Memories


def test_a_memory_is_the_conversations_unless_the_agent_keeps_it_for_the_tenant(agent: Agent) -> None:
    """001: "A conversation-scoped read sees both — pinned rows plus the unscoped pool — same OR-NULL fallback the structured
    memory layer uses."."""
    caller = build_caller(agent)
    caller("remember", text="mine")
    entry = caller("remember", text="everybody's", tenant_wide=True)["remembered"]

    assert (entry["conversation_id"], entry["agent_id"]) == (0, "ada")
    assert list_notes(agent) == ["everybody's", "mine"]
    assert list_notes(agent.another()) == ["everybody's"]
    assert list_notes(agent.another(TenantHarness(agent.desk.database, "rival"))) == []


def test_an_agent_leaves_todos_and_memories_to_another_conversation_and_its_sub_agents(sqlite_url: str, tmp_path: Path) -> None:
    """001: "Useful for cross-thread initiatives the agent should remember between sessions."."""
    leave = calls(
        ("todo_add", {"subject": "migrate the logs", "tenant_wide": True}),
        ("remember", {"text": "Logs move in March.", "tenant_wide": True}),
    )
    with open_talk(sqlite_url, tmp_path, in_order(leave, text("Noted."))) as talk:
        talk.say("Remember that the logs move in March.")
        talk.conversation_id = talk.database.write(lambda tx: conversations.add_conversation(tx, talk.tenant_id)).id
        talk.server.script = by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=text("A hole."))
        talk.say("What was I up to?")
        lines = get_envelope(list_requests(talk, "researcher")[0])
        assert lines[4].endswith("[note] Logs move in March.")
        assert lines[-1].endswith("[pending] migrate the logs (tenant-wide)")


def test_an_entry_names_the_turn_and_the_run_that_wrote_it_also_a_sub_agents(sqlite_url: str, tmp_path: Path) -> None:
    note = calls(("remember", {"text": "Dig here.", "tenant_wide": True}))
    script = by_role(
        index=by_transcript(delegate_call("dig"), calls(("remember", {"text": "Dug."})), text("Done.")),
        researcher=by_transcript(note, text("A hole.")),
    )
    with open_talk(sqlite_url, tmp_path, script) as talk:
        turn = talk.say("dig")
        entries = talk.database.read(lambda tx: memory.list_notes(tx, talk.tenant_id, MemorySelection())).entries
        run_ids = {run.role: run.id for run in talk.database.read(lambda tx: runs.list_runs(tx, talk.tenant_id, turn["id"], 10))}

    assert [(entry.text, entry.conversation_id) for entry in entries] == [("Dug.", talk.conversation_id), ("Dig here.", 0)]
    for entry, role in zip(entries, ("index", "researcher"), strict=True):
        assert entry.origin == MemoryOrigin(role, "", talk.conversation_id, turn["id"], run_ids[role], None)


def test_an_agent_can_look_up_how_to_add_a_tenant_wide_todo(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(calls(("use_tool", {"name": "todo_add"})), text("Noted."))) as talk:
        talk.say()
        (result,) = talk.server.requests[-1].tool_results
        assert "visible from every conversation" in result.content


def test_a_home_is_one_of_the_two_of_the_context() -> None:
    scope = Scope(1, 7, "turn", "ada")

    assert scope.home(tenant_wide=False) == scope
    assert scope.home(tenant_wide=True) == Scope(1, 0, None, "ada")
