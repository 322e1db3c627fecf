"""`headway memory`: list, search, show, add, edit and delete what agents recall."""

from headway.actions.access import local_tenant
from headway.actions.turns import memory
from headway.actions.turns.memory import NewMemory
from headway.ledger.scope import Scope
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from tests.surfaces.shell import Shell, get_error_line


def test_entries_are_added_listed_searched_edited_and_deleted(headway: Shell) -> None:
    headway.ok("conversation", "new", "--key", "home")
    assert headway.ok("memory", "list") == "no memory entries\n"
    assert headway.ok("memory", "add", "Ada", "likes", "tea.") == "#1\tnote\ttenant-wide, by cli\tAda likes tea.\n"
    headway.ok("memory", "add", "-", "--kind", "fact", "--conversation", "home", stdin="The door code\nis 4711.\n")
    edited = headway.ok("memory", "edit", "#1", "--text", "Ada likes coffee.", "--kind", "fact")

    assert edited == "#1\tfact\ttenant-wide, edited by cli\tAda likes coffee.\n"
    assert headway.ok("memory", "list") == f"#2\tfact\tconversation 1, by cli\tThe door code is 4711.\n{edited}"
    assert headway.ok("memory", "search", "COFFEE", "ada", "--conversation", "home") == edited
    assert headway.ok("memory", "search", "tea") == "no memory entry has all these words\n"
    assert headway.ok("memory", "show", "2").endswith("\n    The door code\n    is 4711.\n")
    assert headway.ok("memory", "rm", "1", "2", "1", "--yes") == "deleted #1, #2\n"
    assert headway.json("memory", "list") == {"entries": [], "next_cursor": None, "searched_all": True}


def test_the_origin_of_an_agents_entry_is_shown(headway: Shell) -> None:
    headway.ok("conversation", "new")

    def note(tx: Transaction) -> None:
        scope = Scope(local_tenant.ensure_local(tx).id, 1, "a-turn", "researcher")
        memory.remember(tx, scope, "It is dark.", tenant_wide=True)

    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        database.write(note)

    assert headway.ok("memory", "list") == "#1\tnote\ttenant-wide, by researcher\tIt is dark.\n"
    assert "  written in conversation 1\n  turn       a-turn\n" in headway.ok("memory", "show", "1")
    assert headway.json("memory", "show", "1")["entry"]["origin"]["agent_id"] == "researcher"


def test_a_search_on_the_command_line_covers_the_whole_memory(headway: Shell) -> None:
    headway.ok("memory", "add", "a needle")

    def fill(tx: Transaction) -> None:
        for _ in range(memory.SEARCH_LIMIT):
            memory.add_note(tx, local_tenant.ensure_local(tx).id, NewMemory("hay"), "cli")

    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        database.write(fill)

    assert headway.ok("memory", "search", "needle") == "#1\tnote\ttenant-wide, by cli\ta needle\n"


def test_what_cannot_be_is_refused_in_one_sentence(headway: Shell) -> None:
    headway.ok("memory", "add", "kept")

    assert get_error_line(headway("memory", "show", "7"), 3) == "headway: No memory entry #7."
    assert "Nothing to change. Give --text, --kind or both." in get_error_line(headway("memory", "edit", "1"), 2)
    assert get_error_line(headway("memory", "add", " "), 2) == "headway: text must not be blank."
    assert get_error_line(headway("memory", "rm", "1", "7", "--yes"), 3) == "headway: No memory entry #7."
    assert headway.ok("memory", "list").startswith("#1\tnote\ttenant-wide, by cli\tkept")
