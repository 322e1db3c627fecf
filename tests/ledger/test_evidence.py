"""What calls prove about an item, and which writes are doubted."""

from collections.abc import Iterable

from headway.ledger.items.doubts import find_doubts, judge_item
from headway.ledger.items.work import MadeCall, collect_work
from tests.tables import each_row

READ_MENU = MadeCall("read_file", {"path": "menu.txt"}, "soup\nsalad\npie\n", succeeded=True)
READ_CONF = MadeCall("read_file", {"path": "app.ini"}, "host = a\nport = 80\n", succeeded=True)
READ_JSON = MadeCall("read_file", {"path": "app.json"}, '{\n  "port": 80,\n  "host": "a"\n}\n', succeeded=True)
READ_STAFF = MadeCall("read_file", {"path": "staff.txt"}, "Ann Lee: 41 Mill Lane\nBob Ray: 7 High Street\n", succeeded=True)
HUGE = "9" * 200
SET_PORT = "In app.ini set the port to 90, so that the line is port = 90"
ADDRESS = "write the address of Bob Ray in staff.txt to bob.txt"


def wrote(path: str, content: str) -> MadeCall:
    return MadeCall("write_file", {"path": path, "content": content}, f"Wrote {path}.", succeeded=True)


def edited(path: str, old: str, new: str) -> MadeCall:
    return MadeCall("edit_file", {"path": path, "old": old, "new": new}, f"Wrote {path}.", succeeded=True)


def calculated(expression: str, result: float) -> MadeCall:
    return MadeCall("calculate", {"expression": expression}, f'{{"result": {result}}}', succeeded=True)


def judge(item: str, calls: Iterable[MadeCall], existing: Iterable[str] = (), others: Iterable[str] = ()) -> tuple[bool, str]:
    finding = judge_item(item, collect_work(calls), set(existing).__contains__, {"menu.txt": [*others]} if others else {})
    assert finding is not None
    return finding.is_done, finding.reason


@each_row(
    ("item", "calls", "existing", "expected"),
    [
        ("Write hello to a.txt", [], [], (False, "a.txt was not written")),
        ("Write hello to a.txt", [wrote("./a.txt", "hello")], [], (True, "wrote a.txt")),
        ("Write the names to a.txt and b.txt", [wrote("a.txt", "x")], [], (False, "b.txt was not written")),
        ("Correct a.txt", [], ["a.txt"], (False, "a.txt was not changed")),
        ("Correct a.txt", [edited("a.txt", "x", "y")], ["a.txt"], (True, "wrote a.txt")),
        ("Copy old.txt to new.txt", [wrote("new.txt", "invented")], [], (False, "there is no old.txt")),
        ("Save the report to a.txt", [MadeCall("save", {"file": "a.txt"}, "{}", succeeded=True)], [], (True, "wrote a.txt")),
        ("Write hello to a.txt", [wrote("a.txt", "x")._replace(succeeded=False)], [], (False, "a.txt was not written")),
    ],
)
def test_an_item_is_done_when_its_files_show_it(
    item: str, calls: list[MadeCall], existing: list[str], expected: tuple[bool, str]
) -> None:
    assert judge(item, calls, existing) == expected


def test_words_prove_nothing_and_need_no_proof() -> None:
    assert judge_item("Explain a.txt", collect_work([]), lambda _path: False) is None


def test_one_change_of_a_shared_file_proves_only_its_own_item() -> None:
    calls = [READ_MENU, edited("menu.txt", "soup", "tomato soup")]
    first, second = "replace soup by tomato soup in menu.txt", "replace pie by cake in menu.txt"
    assert judge(first, calls, ["menu.txt"], [second]) == (True, "wrote menu.txt")
    assert judge(second, calls, ["menu.txt"], [first]) == (False, "menu.txt was not changed")


def test_each_edit_of_a_shared_file_is_judged_by_the_whole_file() -> None:
    calls = [READ_MENU, edited("menu.txt", "soup", "tomato soup"), edited("menu.txt", "pie", "cake")]
    soup, pie = "replace soup by tomato soup in menu.txt", "replace pie by cake in menu.txt"
    assert judge(soup, calls, ["menu.txt"], [pie]) == (True, "wrote menu.txt")
    assert judge(pie, calls, ["menu.txt"], [soup]) == (True, "wrote menu.txt")
    without_salad = [READ_MENU, wrote("menu.txt", "tomato soup\ncake")]
    reason = "menu.txt was written, but is not verified: Lines that were in menu.txt are missing."
    assert judge(pie, without_salad, ["menu.txt"], [soup]) == (False, reason)


def test_a_source_that_was_changed_proves_nothing() -> None:
    item = "Correct a.py so that the tests in b.py pass"
    read = [MadeCall("read_file", {"path": path}, "assert 1 > 2\n", succeeded=True) for path in ("a.py", "b.py")]
    assert judge(item, [*read, wrote("a.py", "x = 1")], ["a.py", "b.py"]) == (True, "wrote a.py")
    reason = "b.py is only to be read, but was changed"
    assert judge(item, [*read, wrote("a.py", "x = 1"), wrote("b.py", "")], ["a.py", "b.py"]) == (False, reason)


@each_row(
    ("item", "path", "content", "calls", "existing", "doubts"),
    [
        ("Copy a.txt to b.txt", "b.txt", "hello", [], ["a.txt"], ["unread"]),
        ("Copy menu.txt to b.txt", "menu.txt", "hello", [READ_MENU], ["menu.txt"], ["source"]),
        ("Write the text hello to a.txt", "a.txt", "hello", [], ["a.txt"], ["overwritten"]),
        ("replace x by y in a.txt", "a.txt", "y", [], [], ["absent"]),
        ("Write the text hello to a.txt", "a.txt", "hello world", [], [], ["literal"]),
        ("Write the text hello to a.txt", "a.txt", "hello.\n", [], [], ["literal"]),
        ("Write the text hello to a.txt", "a.txt", "hello\n", [], [], []),
        ("Write the summary to a.txt", "a.txt", "{{summary}}", [], [], ["placeholder"]),
        (
            "Write the first line of menu.txt to a.txt",
            "a.txt",
            "soup\nsalad\npie\n",
            [READ_MENU],
            ["menu.txt"],
            ["whole", "stated"],
        ),
        ("Copy menu.txt to a.txt", "a.txt", "soup\nsalad\npie\n", [READ_MENU], ["menu.txt"], []),
        ("Add 34 and 18 and write the sum to a.txt", "a.txt", "34 + 18 = 52", [], [], ["expression"]),
        ("Add 34 and 18 and write the sum to a.txt", "a.txt", "53", [], [], ["number"]),
        ("Add 34 and 18 and write the sum to a.txt", "a.txt", "52", [], [], []),
        ("34 hours at 18.5 less 9: write the total to a.txt", "a.txt", "620", [calculated("34 * 18.5 - 9", 620)], [], []),
        ("34 hours at 18: write the wage to a.txt", "a.txt", "700", [calculated("350 + 350", 700)], [], ["number"]),
        ("Count the lines of menu.txt and write the number to a.txt", "a.txt", "3", [READ_MENU], ["menu.txt"], []),
        ("Write the number of legs of a spider to legs.txt", "legs.txt", "8", [], [], []),
        ("Write prime.py, which prints the sum of 1 and 2", "prime.py", "print(1 + 2)", [], [], []),
        ("Write the poem to a.txt", "a.txt", " ", [], [], ["empty"]),
        ("Append the line cake to menu.txt", "menu.txt", "cake", [READ_MENU], ["menu.txt"], ["lost"]),
        ("Append the line cake to menu.txt", "menu.txt", "soup\nsalad\npie\ncake\n", [READ_MENU], ["menu.txt"], []),
        ("Append the line cake to menu.txt", "menu.txt", "soup\nsalad\npie cake\n", [READ_MENU], ["menu.txt"], ["literal"]),
        ("Append the line cake to menu.txt", "menu.txt", "soup\ncake\nsalad\npie", [READ_MENU], ["menu.txt"], ["literal"]),
        ("Add the line cake to menu.txt", "menu.txt", "soup\ncake\nsalad\npie", [READ_MENU], ["menu.txt"], []),
        ("Copy menu.txt to a.txt", "a.txt", "soup", [READ_MENU], ["menu.txt"], ["copy"]),
        ("Copy menu.txt to a.txt", "a.txt", "soup\nsalad\npie", [READ_MENU], ["menu.txt"], []),
        ("Copy the date from old.txt to new.txt", "new.txt", "1 May", [], [], ["absent"]),
        ("Write the opposite of hot to a.txt", "a.txt", "Opposite of hot.", [], [], ["echo"]),
        ("Write one word into each file:\nWrite the opposite of hot to a.txt", "a.txt", "It is cold", [], [], ["echo"]),
        ("Write the opposite of hot to a.txt", "a.txt", "cold", [], [], []),
        ("Write the opposite of day to op_day.txt", "op_day.txt", "op_day", [], [], ["echo"]),
        ("Set the port to 8080 and the limit to 20 in a.conf", "a.conf", "8080", [], [], []),
        ("Change the price per kilo from 3 to 4 in a.txt", "a.txt", "4", [], ["a.txt"], ["overwritten"]),
        ("Write Best of luck to a.txt", "a.txt", "Best of luck", [], [], []),
        ("Copy the first line of menu.txt to a.txt", "a.txt", "soup", [READ_MENU], ["menu.txt"], []),
        ("Write the square of 27 to a.txt", "a.txt", "27", [], [], ["number"]),
        ("Write the square of 27 to a.txt", "a.txt", "54", [], [], ["number"]),
        ("Write the square of 27 to a.txt", "a.txt", "27", [calculated("27", 27)], [], ["number"]),
        ("Write the square of 27 to a.txt", "a.txt", "729", [], [], []),
        (f"Write the square of {HUGE} to a.txt", "a.txt", HUGE, [], [], ["number"]),
        ("9 boxes of 15 kg: write the total weight to a.txt", "a.txt", "135", [], [], []),
        ("9 boxes of 15 kg: write the total weight to a.txt", "a.txt", "24", [], [], ["number"]),
        ("9 boxes of 15 kg: write the total weight to a.txt", "a.txt", "219", [calculated("7 * 12 + 15 * 9", 219)], [], ["number"]),
        ("A van needs 8 l per 100 km. Write the need for 450 km to a.txt", "a.txt", "36", [], [], []),
        ("A van drives 450 km with 8 l per 100 km. Write the need to a.txt", "a.txt", "36", [], [], []),
        ("A van needs 8 l per 0 km. Write the need for 450 km to a.txt", "a.txt", "36", [], [], ["number"]),
        ("Subtract 204 from 322 and write the result to a.txt", "a.txt", "-118", [], [], ["number"]),
        ("set port = 90 in app.ini", "app.ini", "host = a\nport = 90", [READ_CONF], ["app.ini"], []),
        ("set the port to 90 in app.ini", "app.ini", "host = a\nport = 90", [READ_CONF], ["app.ini"], []),
        (SET_PORT, "app.ini", "host = a\nport=90", [READ_CONF], ["app.ini"], ["literal"]),
        (SET_PORT, "app.ini", "port = 90", [READ_CONF], ["app.ini"], ["lost", "stated"]),
        (SET_PORT, "app.ini", "host = a\nport = 80", [READ_CONF], ["app.ini"], ["literal", "stated"]),
        (
            "set the port to 90 in app.ini",
            "app.ini",
            '{"host": "a", "port": 90}',
            [READ_CONF],
            ["app.ini"],
            ["lost", "stated", "stated"],
        ),
        ("set the port to 90 in app.json", "app.json", '{\n  "port": 90,\n  "host": "a"\n}', [READ_JSON], ["app.json"], []),
        (ADDRESS, "bob.txt", "7 High Street", [READ_STAFF], ["staff.txt"], []),
        (ADDRESS, "bob.txt", "Bob Ray: 7 High Street", [READ_STAFF], ["staff.txt"], ["whole"]),
        ("write the line of Bob Ray in staff.txt to bob.txt", "bob.txt", "Bob Ray: 7 High Street", [READ_STAFF], ["staff.txt"], []),
        ("Write the name of the planet with the sign Ve to a.txt", "a.txt", "Ve", [], [], ["echo"]),
        ("Write the name of seat 4 to a.txt", "a.txt", "4", [], [], ["echo"]),
        ("Write the average of 2, 3 and 4 to a.txt", "a.txt", "3", [], [], []),
        ("Write the larger of 3 and 5 to a.txt", "a.txt", "5", [], [], []),
        ("Then, 9 boxes of 15 kg: write the weight to a.txt", "a.txt", "9 boxes of 15 kg.", [], [], ["echo"]),
        ("Write the average of 2 and 6 to a.txt", "a.txt", "8", [calculated("2 + 6", 8)], [], ["number"]),
        ("Write the average of 2 and 6 to a.txt", "a.txt", "4", [calculated("(2 + 6) / 2", 4)], [], []),
        ("Write 15 percent of 60 to a.txt", "a.txt", "4", [calculated("60 / 15", 4)], [], ["number"]),
        ("Write 15 percent of 60 to a.txt", "a.txt", "9", [], [], []),
        ("Write the capital of Peru to a.txt", "a.txt", "The capital of Peru is Lima.", [], [], ["echo", "words"]),
        ("Correct the spelling in menu.txt", "menu.txt", "soup\nsalad\npie", [READ_MENU], ["menu.txt"], ["lost", "whole"]),
        ("Write the sentence We are open. into a.txt", "a.txt", "We are open", [], [], ["literal"]),
        ("Write the answer to a.txt", "a.txt", "Wrote a.txt.", [], [], ["placeholder"]),
        ("Write hello in a fitting way to a.txt", "a.txt", "hello fitting people", [], [], ["words"]),
    ],
)
def test_a_write_that_cannot_be_right_is_doubted(
    item: str, path: str, content: str, calls: list[MadeCall], existing: list[str], doubts: list[str]
) -> None:
    found = find_doubts(item, "write_file", path, content, collect_work(calls), set(existing).__contains__)
    assert [kind for kind, _ in found] == doubts


def test_a_doubt_that_remains_leaves_the_item_open() -> None:
    done, reason = judge("Add 34 and 18 and write the sum to a.txt", [wrote("a.txt", "53")])
    assert not done
    assert reason.startswith("a.txt was written, but is not verified: It is not clear where 53 comes from.")


LETTER = MadeCall("read_file", {"path": "letter.txt"}, "Dear Ada,\nthank you.\nYours, Bo\n", succeeded=True)
PRICES = MadeCall("read_file", {"path": "prices.csv"}, "nails,40\nscrews,250\nbolts,40\n", succeeded=True)
RADIO = MadeCall("read_file", {"path": "radio.ini"}, "radio: off\nlight: off\n", succeeded=True)
BILL = MadeCall("read_file", {"path": "bill.txt"}, "bread 3\nmilk 2\nrice 4\n", succeeded=True)


@each_row(
    ("item", "calls", "reason"),
    [
        ("Write the first line of letter.txt to a.txt", [LETTER, wrote("a.txt", "Dear Ada,")], ""),
        ("Write the first line of letter.txt to a.txt", [LETTER, wrote("a.txt", "Dear Bo,")], "must be exactly: Dear Ada,"),
        (
            "Write the last line of letter.txt to a.txt",
            [LETTER, wrote("a.txt", "Yours, Bo\nYours, Bo")],
            "must be exactly: Yours, Bo",
        ),
        ("Look up prices.csv and write only the number:\nscrews to screws.txt", [PRICES, wrote("screws.txt", "250")], ""),
        ("Look up prices.csv and write only the number:\nscrews to screws.txt", [PRICES, wrote("screws.txt", "40")], "screws,250"),
        (
            "Look up prices.csv and write only the number:\nscrews to screws.txt",
            [PRICES, wrote("screws.txt", "ok")],
            "Write only the number.",
        ),
        ("Add the amounts in bill.txt and write the total to a.txt", [BILL, wrote("a.txt", "9")], ""),
        ("Add the amounts in bill.txt and write the total to a.txt", [BILL, wrote("a.txt", "4")], "not clear where 4 comes from"),
        ('Write the JSON {"b": 1} to a.json', [wrote("a.json", '{ "b": 1 }\n')], ""),
        ('Write the JSON {"b": 1} to a.json', [wrote("a.json", '{"b": 2}')], 'must be exactly: {"b": 1}'),
        ("Write the settings to a.json", [wrote("a.json", "{'b': 1}")], "must be valid JSON"),
        ("Write a function double(x) to a.py", [wrote("a.py", "def double(x):\n    return 2 * x")], ""),
        ("Write a function double(x) to a.py", [wrote("a.py", "Here: def double(x): 2x")], "must be valid Python"),
        ("Write a function double(x) to a.py", [wrote("a.py", "double")], "must define the function double"),
        ("Write two lines about rain to a.txt", [wrote("a.txt", "Rain falls.\n\nIt stops.")], ""),
        ("Write two lines about rain to a.txt", [wrote("a.txt", "Rain falls.")], "must have 2 lines, not 1"),
        ("Add two lines to letter.txt", [LETTER, wrote("letter.txt", "Dear Ada,\nthank you.\nYours, Bo\nx\ny")], ""),
        ("In radio.ini change the line radio: off to radio: on", [RADIO, edited("radio.ini", "radio: off", "radio: on")], ""),
        (
            "In radio.ini change the line radio: off to radio: on",
            [RADIO, wrote("radio.ini", "radio: on")],
            "are missing",
        ),
        (
            "In radio.ini change the line radio: off to radio: on",
            [RADIO, wrote("radio.ini", "radio: off\nradio: on\nlight: off")],
            "radio: off is still in radio.ini",
        ),
        ("Write the opposite of hot to a.txt", [wrote("a.txt", "Done.")], "not a placeholder"),
        ("Write the opposite of hot to a.txt", [wrote("a.txt", "Here is the word: cold")], "not a placeholder"),
        ("Write the opposite of hot to a.txt", [wrote("a.txt", "Write the opposite of hot to a.txt.")], "only repeats"),
        ("Write the opposite of hot to a.txt", [wrote("a.txt", "a.txt")], "only the name of the file"),
        ("Write the text Done. to a.txt", [wrote("a.txt", "Done.")], ""),
    ],
)
def test_what_an_item_states_is_compared_with_its_file(item: str, calls: list[MadeCall], reason: str) -> None:
    is_done, found = judge(item, calls, ["letter.txt", "prices.csv", "radio.ini", "bill.txt"])
    assert is_done == (not reason)
    assert reason in found


@each_row(
    ("content",), [("[" * 100_000,), ("(" * 10_000,), ("1" * 9_000,), ("-" * 19_000 + "1",), ("a." * 9_000 + "a",), ("\x00",)]
)
def test_hostile_files_are_judged(content: str) -> None:
    for path in ("a.py", "a.json"):
        judge(f"Write the result to {path}", [wrote(path, content)])
