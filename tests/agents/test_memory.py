"""Memory: agents store entries, and agents in the same scope find them."""

from headway.actions.turns import memory
from headway.actions.turns.memory import MemoryChange, NewMemory
from headway.ledger.scope import TENANT_WIDE
from headway.testing import FixedClock, TenantHarness
from tests.agents.agent_harness import Agent
from tests.agents.external_tools import ToolCaller, build_caller
from tests.tables import each_row


def recall_texts(caller: ToolCaller, query: str = "", limit: int = 10) -> list[str]:
    return [entry["text"] for entry in caller("recall", query=query, limit=limit)["entries"]]


def test_memories_come_back_newest_first_with_author_and_time(agent: Agent, clock: FixedClock) -> None:
    caller = build_caller(agent)
    caller("remember", text="The door code is 4711.", kind="fact")
    clock.advance(60)
    caller("remember", text="Ada likes tea.")

    newest, oldest = caller("recall")["entries"]
    assert (newest["text"], newest["kind"], newest["agent_id"]) == ("Ada likes tea.", "note", "ada")
    assert (oldest["text"], oldest["kind"]) == ("The door code is 4711.", "fact")
    assert newest["created_at"] - oldest["created_at"] == 60
    assert recall_texts(caller, limit=1) == ["Ada likes tea."]


def test_every_word_of_a_query_has_to_occur_in_any_case(agent: Agent) -> None:
    caller = build_caller(agent)
    for text in ("Größe: 100% of ÄPFEL", "apples_and pears", "apples and pears", r"C:\temp 'quoted'"):
        caller("remember", text=text)

    assert recall_texts(caller, "PEARS Apples") == ["apples and pears", "apples_and pears"]
    assert recall_texts(caller, "äpfel GRÖSSE") == ["Größe: 100% of ÄPFEL"]
    assert recall_texts(caller, "pears oranges") == []


@each_row(("query", "found"), [("%", ["100%"]), ("_", ["a_b"]), ("\\", ["a\\b"]), ("'", ["it's"]), ("a%b", [])])
def test_signs_of_search_patterns_mean_themselves(agent: Agent, query: str, found: list[str]) -> None:
    agent = agent.another()  # with an empty list
    caller = build_caller(agent)
    for text in ("100%", "a_b", "a\\b", "it's", "axb"):
        caller("remember", text=text)

    assert recall_texts(caller, query) == found


def test_a_conversation_sees_its_own_and_tenant_wide_memories(agent: Agent) -> None:
    here, elsewhere = build_caller(agent), build_caller(agent.another())
    everywhere = ToolCaller(
        agent.execution._replace(scope=agent.execution.scope._replace(conversation_id=TENANT_WIDE)), here.box.tools.values()
    )
    everywhere("remember", text="wide")
    here("remember", text="mine")
    elsewhere("remember", text="theirs")

    assert recall_texts(here) == ["mine", "wide"]
    assert recall_texts(elsewhere) == ["theirs", "wide"]
    assert recall_texts(everywhere) == ["wide"]


def test_another_tenant_sees_nothing(agent: Agent) -> None:
    stranger = agent.another(TenantHarness(agent.desk.database, "globex"))
    build_caller(agent)("remember", text="secret")

    assert recall_texts(build_caller(stranger)) == []
    same_conversation = stranger.execution.scope._replace(conversation_id=agent.conversation.id)
    assert agent.desk.database.read(lambda tx: memory.recall(tx, same_conversation)) == []
    assert recall_texts(build_caller(agent)) == ["secret"]


def test_a_search_looks_only_so_far_back(sqlite_agent: Agent) -> None:
    scope = sqlite_agent.execution.scope
    sqlite_agent.desk.database.write(lambda tx: [memory.remember(tx, scope, f"n{n}") for n in range(memory.SEARCH_LIMIT + 1)])

    assert recall_texts(build_caller(sqlite_agent), "n0") == []
    assert recall_texts(build_caller(sqlite_agent), "n1", limit=1) == ["n1999"]


@each_row(
    "arguments",
    [
        {"text": " "},
        {"text": "x" * 10_001},
        {"text": "a\0b"},
        {"text": "\ud800"},
        {"text": "a", "kind": "\n"},
        {"text": "a", "kind": "x" * 201},
        {"text": "a", "tenant_id": 1},
    ],
)
def test_text_that_cannot_be_stored_is_refused_and_nothing_is_stored(agent: Agent, arguments: dict[str, str]) -> None:
    assert build_caller(agent).refused("remember", **arguments)
    assert agent.desk.count("memory_entries") == 0


@each_row("arguments", [{"query": "a\0b"}, {"query": "x" * 1_001}, {"limit": 0}, {"limit": 51}])
def test_a_query_that_cannot_be_is_refused(agent: Agent, arguments: dict[str, str]) -> None:
    assert build_caller(agent).refused("recall", **arguments)


# Origin


def test_models_read_who_wrote_and_who_edited_an_entry_but_no_ids_of_runs(agent: Agent) -> None:
    caller = build_caller(agent)
    noted = caller("remember", text="The door is green.")["remembered"]
    agent.desk.write(memory.change_note, noted["id"], MemoryChange("The door is red."), "grace")
    written = agent.desk.write(memory.add_note, NewMemory("Ask for Ada."), "grace")

    entries = caller("recall")["entries"]
    assert set(noted) == {"id", "conversation_id", "agent_id", "kind", "text", "created_at"}
    assert entries[0] == {
        "id": written.id,
        "conversation_id": 0,
        "person": "grace",
        "kind": "note",
        "text": "Ask for Ada.",
        "created_at": written.created_at // 1000,
    }
    assert entries[1] == {**noted, "text": "The door is red.", "person": "grace"}
