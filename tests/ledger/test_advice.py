"""Which call a small model is told to make next."""

from headway.ledger.items.advice import advise_call, correct_path
from headway.ledger.items.work import MadeCall, collect_work
from tests.tables import each_row

READ_BILL = MadeCall("read_file", {"path": "bill.txt"}, '{"content": "rent 700\\nheat 80\\n"}', succeeded=True)
TOTAL = "Add the amounts in bill.txt and write the total to total.txt."


def calculated(expression: str, result: int) -> MadeCall:
    return MadeCall("calculate", {"expression": expression}, f'{{"result": {result}}}', succeeded=True)


@each_row(
    ("item", "tools", "calls", "advice"),
    [
        ("Write the text wine to a.txt", "write_file", [], "Call write_file with the path a.txt and the content: wine"),
        ("Write a poem to a.txt", "write_file", [], "Call write_file with the path a.txt."),
        ('Write the JSON {"b": 1} to a.json', "write_file", [], 'Call write_file with the path a.json and the content: {"b": 1}'),
        (
            "Replace soup by stew in menu.txt",
            "edit_file write_file",
            [],
            'Call edit_file with the path menu.txt, old "soup" and new "stew".',
        ),
        ("Correct the spelling in menu.txt", "edit_file write_file", [], "Call edit_file with the path menu.txt."),
        (
            "Append the line cake to bill.txt",
            "edit_file write_file",
            [READ_BILL],
            "Call write_file with the path bill.txt and its whole new content.",
        ),
        (
            "Write the last line of bill.txt to a.txt",
            "write_file",
            [READ_BILL],
            "Call write_file with the path a.txt and the content: heat 80",
        ),
        (
            "Write 318 plus 467 to a.txt",
            "calculate write_file",
            [],
            "Call calculate with the numbers of the item first, then write its result.",
        ),
        (
            "Raise the heat in bill.txt from 80 to 90",
            "edit_file write_file",
            [READ_BILL],
            'Call edit_file with the path bill.txt, old "heat 80" and new "heat 90".',
        ),
        (
            "Set heat: 90 in bill.txt",
            "edit_file write_file",
            [MadeCall("read_file", {"path": "bill.txt"}, '{"content": "rent: 700\\nheat: 80\\n"}', succeeded=True)],
            'Call edit_file with the path bill.txt, old "heat: 80" and new "heat: 90".',
        ),
        (
            "In bill.txt set the heat to 90",
            "edit_file write_file",
            [MadeCall("read_file", {"path": "bill.txt"}, "rent = 700\nheat = 80\n", succeeded=True)],
            'Call edit_file with the path bill.txt, old "heat = 80" and new "heat = 90".',
        ),
        (
            "Set heat to 90 in bill.json",
            "edit_file write_file",
            [MadeCall("read_file", {"path": "bill.json"}, '{\n  "heat": "80",\n  "rent": 700\n}\n', succeeded=True)],
            'Call edit_file with the path bill.json, old "\\"heat\\": \\"80\\"," and new "\\"heat\\": \\"90\\",".',
        ),
        (
            "Replace soup by stew in menu.txt",
            "edit_file write_file",
            [MadeCall("read_file", {"path": "menu.txt"}, "soup: 3\npie: 4\n", succeeded=True)],
            'Call edit_file with the path menu.txt, old "soup" and new "stew".',
        ),
        (
            "Write the average of 2 and 6 to a.txt",
            "calculate write_file",
            [calculated("2 + 6", 8)],
            "Call calculate with the numbers of the item first, then write its result.",
        ),
        (
            TOTAL,
            "calculate write_file",
            [READ_BILL],
            "Call calculate with the numbers of the item first, then write its result.",
        ),
        (
            TOTAL,
            "calculate write_file",
            [READ_BILL, calculated("700 + 80", 780)],
            "Call write_file with the path total.txt and the content: 780",
        ),
        (TOTAL, "write_file", [READ_BILL, calculated("1 + 1", 2)], "Call write_file with the path total.txt."),
        ("Write the text wine to a.txt and b.txt", "write_file", [], ""),
        ("Write the text wine to a.txt", "read_file", [], ""),
        ("Tell me about a.txt", "write_file", [], ""),
    ],
)
def test_the_next_call_is_named(item: str, tools: str, calls: list[MadeCall], advice: str) -> None:
    assert advise_call(item, collect_work(calls), calls, tools.split()) == advice


@each_row(
    ("path", "meant"),
    [
        ("workspace/a.txt", "a.txt"),
        ("a.txt", "a.txt"),
        ("notes/b.txt", "notes/b.txt"),
        ("other/notes/b.txt", "notes/b.txt"),
        ("b.txt", "b.txt"),
        ("old/menu.txt", "old/menu.txt"),
    ],
)
def test_folders_that_no_item_names_are_removed(path: str, meant: str) -> None:
    assert correct_path(["Write the text x to a.txt", "Copy menu.txt to notes/b.txt"], path) == meant
