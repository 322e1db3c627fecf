"""`headway why` and /v1/why: the same explanation, with the people who acted."""

from headway.actions.runs import jobs
from headway.actions.turns import turns
from headway.ledger.run import Run
from headway.storage.transaction import Transaction
from tests.surfaces.server_harness import Client
from tests.surfaces.shell import Shell, get_error_line
from tests.tables import each_row


def test_why_prints_numbered_lines_and_ends_with_the_present_state(headway: Shell) -> None:
    headway.ok("todo", "add", "dig\x1b[31m")
    headway.ok("todo", "done", "1", "--outcome", "a hole")
    printed = headway.ok("why", "todo", "1").splitlines()
    document = headway.json("why", "todo:1")

    assert [line.split("  ", 2)[2] for line in printed[:2]] == [
        "“dig\N{REPLACEMENT CHARACTER}[31m” was created by cli in the tenant's list.",
        "It was completed by cli: a hole",
    ]
    assert printed[2:] == ["Todo #1 is completed. Set it back to pending to reopen it: `headway todo reopen 1`."]
    assert [f"{line['seq']}" for line in document["why"][:-1]] == [line.split()[0] for line in printed[:2]]
    assert (document["why"][-1]["seq"], document["why"][-1]["text"], document["left_out"]) == (None, printed[2], 0)


def test_an_import_is_named_as_the_author_and_long_records_are_shortened(headway: Shell) -> None:
    headway.ok("todo", "import", "-", "--format", "md", stdin="- [ ] dig\n")
    for number in range(30):
        headway.ok("todo", "edit", "1", "--subject", f"dig {number}")
    printed = headway.ok("why", "todo", "#1").splitlines()

    assert printed[0].endswith("“dig” was created by import by cli in the tenant's list.")
    assert printed[1].strip() == "… 7 lines are left out: --all prints them"
    assert (len(printed), len(headway.ok("why", "todo", "1", "--all").splitlines())) == (26, 32)


@each_row(
    ("arguments", "code", "message"),
    [
        (["12"], 2, "12 can be a todo or a goal. Write todo:12 or goal:12."),
        (["todo", "12"], 3, "No todo 12."),
        (["todo:x"], 2, "'x' is not the id of a todo; ids look like 14 or #14."),
        (["goal", "7"], 3, "No goal #7."),
        (["nothing"], 3, "No turn or job 'nothing'."),
        (["agent", "12"], 2, "Name one todo, turn, goal or job, such as `headway why todo 12`. Try `headway why --help`."),
    ],
)
def test_a_wrong_reference_is_explained(headway: Shell, arguments: list[str], code: int, message: str) -> None:
    assert get_error_line(headway("why", *arguments), code) == f"headway: {message}"


def test_rest_explains_todos_turns_and_jobs(client: Client) -> None:
    todo = client.ok("POST", "/v1/todos", 201, json={"subject": "dig"})["todo"]
    client.ok("PATCH", f"/v1/todos/{todo['id']}", json={"status": "completed"})
    why = client.ok("GET", f"/v1/why/todo/{todo['id']}")
    conversation_id = client.conversation()

    def start_later(tx: Transaction, tenant_id: int) -> Run:
        """Start a turn that the server does not take at once."""
        started = turns.start_turn(tx, tenant_id, conversation_id, turns.TurnRequest("go"))
        jobs.delay(tx, jobs.get_job(tx, tenant_id, started.id))
        return started

    run = client.desk.write(start_later)
    client.ok("POST", f"/v1/turns/{run.turn_id}/cancel")
    of_turn, of_job = (client.ok("GET", f"/v1/why/{path}")["why"] for path in (f"turn/{run.turn_id}", f"job/{run.id}"))

    assert [line["text"] for line in why["why"][:2]] == [
        "“dig” was created by a test in the tenant's list.",
        "It was completed by a test.",
    ]
    assert all(set(line) == {"seq", "at", "text"} for line in why["why"])
    assert "The turn was canceled by a test." in [line["text"] for line in of_turn]
    assert [line for line in of_turn if line["seq"]] == [line for line in of_job if line["seq"]]
    assert of_job[-1]["text"] == "The job is canceled. Nothing changes it any more."
    assert len(client.ok("GET", f"/v1/why/todo/{todo['id']}", params={"limit": 2})["why"]) == 2
    client.refused("GET", "/v1/why/todo/987654321", 404, "not_found")
    client.refused("GET", "/v1/why/todo/x", 422, "invalid")
    client.refused("GET", f"/v1/why/todo/{todo['id']}", 422, "invalid", params={"limit": 1})
