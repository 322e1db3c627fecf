"""A request as items: which requests are split, and which files they name."""

from time import process_time

from headway.ledger.items.request_items import changes_file, list_literals, list_paths, list_sources, refers_back, split_request
from tests.tables import each_row


@each_row(
    ("request_text", "introduction", "items"),
    [
        (
            "Make these notes:\n1. Write the text wine to cellar.txt.\n2. Write flour to pantry.txt.",
            "Make these notes:",
            ("Write the text wine to cellar.txt.", "Write flour to pantry.txt."),
        ),
        ("- [ ] fix the test in a.py\n- [x] describe it in b.md", "", ("fix the test in a.py", "describe it in b.md")),
        ("1. Tell me a joke\n2. Write it to joke.txt", "", ("Tell me a joke", "Write it to joke.txt")),
        (
            "The signs are old. Please write Quiet to hall.txt. Then write Pull to door.txt.",
            "The signs are old.",
            ("Please write Quiet to hall.txt", "Then write Pull to door.txt"),
        ),
        (
            "The guests are in list.txt. Write the first one to a.txt. Then write the second one to b.txt.",
            "The guests are in list.txt.",
            ("Write the first one to a.txt", "Then write the second one to b.txt"),
        ),
        (
            "Read list.txt. Write the first guest to a.txt. Then write the second guest of list.txt to b.txt.",
            "",
            ("Read list.txt. Write the first guest to a.txt", "Then write the second guest of list.txt to b.txt"),
        ),
        (
            "Label the boxes: pea into box_1.txt, bean into box_2.txt",
            "Label the boxes",
            ("pea into box_1.txt", "bean into box_2.txt"),
        ),
        (
            "Fix the bug in src/app.py and add a test in tests/test_app.py",
            "",
            ("Fix the bug in src/app.py", "add a test in tests/test_app.py"),
        ),
        (
            "Can you save two words? Put sun in a.txt, and moon in b.txt.",
            "Can you save two words?",
            ("Put sun in a.txt", "put moon in b.txt"),
        ),
        (
            "Put only the plural of each word in its file: goose in a.txt and child in b.txt.",
            "Put only the plural of each word in its file",
            ("goose in a.txt", "child in b.txt"),
        ),
        (
            "First give Al tofu instead of beef in menu.csv. Then move Bo from seat 8 to seat 9 in menu.csv.",
            "",
            ("First give Al tofu instead of beef in menu.csv", "Then move Bo from seat 8 to seat 9 in menu.csv"),
        ),
        (
            "I need two files: a.txt with the word red and b.txt with the word blue.",
            "I need two files",
            ("write a.txt with the word red", "write b.txt with the word blue"),
        ),
        (
            "Look at team.csv. Who is the oldest? Write the name to a.txt. How many live in Rome? Write the number to b.txt.",
            "",
            (
                "Look at team.csv. Who is the oldest? Write the name to a.txt",
                "How many live in Rome? Write the number to b.txt",
            ),
        ),
        (
            "Add the line total to bill.txt and write the total to sum.txt",
            "",
            ("Add the line total to bill.txt", "write the total to sum.txt"),
        ),
    ],
)
def test_a_request_with_several_items_is_split(request_text: str, introduction: str, items: tuple[str, ...]) -> None:
    assert split_request(request_text) == (introduction, items)


@each_row(
    "request_text",
    [
        "",
        "Hello!",
        "What are a.txt and b.txt for?",
        "Write this list to a.txt:\n- milk\n- bread",
        "Read a.txt and b.txt and write the sum to c.txt",
        "Copy a.txt to b.txt and c.txt",
        "Read notes.txt. Write its summary to out.txt.",
        "Add the amounts in bill.txt and write the total to total.txt.",
        "Look up the salad in menu.txt and note its price in salad.txt.",
        "Write the city of Ada, as given in people.csv, to ada.txt.",
        'Write "a.txt, and put it into b.txt" to c.txt',
        "Explain Node.js and Vue.js, and compare them with www.example.com/a.html",
        "\n".join(f"- write {n} to {n}.txt" for n in range(51)),
    ],
)
def test_one_piece_of_work_is_not_split(request_text: str) -> None:
    assert split_request(request_text) == ("", ())


@each_row(
    ("text", "paths"),
    [
        ("Write ./a.txt, `b/c.md` and /tmp/x.json.", ["a.txt", "b/c.md", "tmp/x.json"]),
        ("See https://example.com/a.html, mail me@host.txt or call obj.method", []),
        ("a.txt twice: a.txt", ["a.txt"]),
        ("../secret.txt", ["../secret.txt"]),
    ],
)
def test_paths_are_recognised(text: str, paths: list[str]) -> None:
    assert list_paths(text) == paths


@each_row(
    ("text", "is_change"),
    [
        ("Write the answer to a.txt", True),
        ("Could you please correct a.py", True),
        ("It would help if you could sort a.txt", True),
        ("nails to nails.txt", True),
        ("Explain how to change a.txt", False),
        ("Is a.txt correct?", False),
        ("Make sure a.py works", False),
        ("Write a poem", False),
        ("I think utils.py should be fast enough", False),
        ("main.py is now 400 lines long", False),
        ("The limit in main.py should be 400", True),
        ("Double the limit in main.py", True),
    ],
)
def test_an_item_asks_for_a_change_or_for_words(text: str, *, is_change: bool) -> None:
    assert changes_file(text) is is_change


@each_row(
    ("text", "sources", "literals"),
    [
        ("Copy the text of motto.txt to poster.txt", ["motto.txt"], []),
        ("Read the gas in meter.txt and write it to gas.txt", ["meter.txt"], []),
        ("Correct calc.py so that the tests in test_calc.py pass", ["test_calc.py"], []),
        ("Write the text Room 14 to plate.txt", [], ["Room 14"]),
        ("replace Guest by Speaker in badge.txt", [], ["Speaker"]),
        ("in shapes.py replace width + height by width * height", [], ["width * height"]),
        ("Label the boxes:\npea into box_1.txt", [], ["pea"]),
        ("write the name of the largest planet to planet.txt", [], []),
    ],
)
def test_an_item_says_where_from_and_what(text: str, sources: list[str], literals: list[str]) -> None:
    assert (list_sources(text), list_literals(text)) == (sources, literals)


def test_an_item_that_begins_with_a_pronoun_needs_the_request() -> None:
    assert refers_back("Then write it to joke.txt")
    assert refers_back("Write that to joke.txt")
    assert not refers_back("Add 3 and 4 and write the result to sum.txt")
    assert not refers_back("Write the season that follows autumn to season.txt")


@each_row("piece", ["a/", "- x ", "write the text ", ". A", ", and then ", "in a.txt change ", '"', "a."])
def test_a_hostile_request_takes_no_long_time(piece: str) -> None:
    begun = process_time()
    split_request(piece * 20_000)
    list_literals(piece * 500)
    changes_file(piece * 20_000)
    assert process_time() - begun < 1
