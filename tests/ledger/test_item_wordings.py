"""Items in the words of many people: the file that is right for one is accepted, and wrong ones are not."""

import json
from collections.abc import Mapping

from headway.ledger.items.doubts import ItemFinding, judge_item
from headway.ledger.items.work import MadeCall, collect_work
from tests.tables import each_row

INI = "[web]\nhost = localhost\nport = 80\n"
MENU = "Soup 4.50\nSalad 6.20\nCake 3.80\n"
NOTES = "# Notes\n\nBuy milk.\nCall Tom on Friday.\n"
GEOMETRY = 'def area(w, h):\n    return w + h\n\n\ndef name():\n    return "x"\n'
PEOPLE = "name,age,city\nAda,36,London\nBo,41,Oslo\nCy,29,Graz\n"
BOOK = "Title: Dune\nAuthor: Frank Herbert\n"
PACKAGE = '{\n  "name": "old",\n  "version": "1.0.0"\n}\n'


@each_row(
    ("item", "files", "target", "right", "wrong"),
    [
        (
            "Change the port to 90 in app.ini",
            {"app.ini": INI},
            "app.ini",
            "[web]\nhost = localhost\nport = 90\n",
            [INI, "90", "port = 90\n"],
        ),
        ("Raise the port in app.ini from 80 to 90", {"app.ini": INI}, "app.ini", "[web]\nhost = localhost\nport = 90\n", [INI]),
        (
            "In app.ini, the host should be example.org",
            {"app.ini": INI},
            "app.ini",
            "[web]\nhost = example.org\nport = 80\n",
            [INI],
        ),
        ("Make the port in app.ini 8080", {"app.ini": INI}, "app.ini", "[web]\nhost = localhost\nport = 8080\n", [INI]),
        (
            "Update app.ini so that port is 90",
            {"app.ini": INI},
            "app.ini",
            "[web]\nhost = localhost\nport = 90\n",
            [INI, "port is 90"],
        ),
        ("Change localhost to 0.0.0.0 in app.ini", {"app.ini": INI}, "app.ini", "[web]\nhost = 0.0.0.0\nport = 80\n", [INI]),
        (
            "Swap the word localhost for example.org in app.ini",
            {"app.ini": INI},
            "app.ini",
            "[web]\nhost = example.org\nport = 80\n",
            [INI],
        ),
        (
            "Rename the section web to server in app.ini",
            {"app.ini": INI},
            "app.ini",
            "[server]\nhost = localhost\nport = 80\n",
            [INI],
        ),
        ("Add a file lamp.txt with the word lantern in it", {}, "lamp.txt", "lantern", ["lantern in it"]),
        ("sum.txt: the total of the prices in menu.txt", {"menu.txt": MENU}, "sum.txt", "14.5", ["6.20"]),
        ("Save the last line of menu.txt as last.txt", {"menu.txt": MENU}, "last.txt", "Cake 3.80", ["Soup 4.50"]),
        ("Create these:\nsum.txt: the total of the prices in menu.txt", {"menu.txt": MENU}, "sum.txt", "14.5", ["6.20"]),
        ("I need the areas:\nThen calculate the area of a study of 11 by 19 feet for study.txt", {}, "study.txt", "209", ["30"]),
        ("Save the word lantern in lamp.txt", {}, "lamp.txt", "lantern", ["lamp", "the word lantern"]),
        ("Create a file called lamp.txt that says lantern", {}, "lamp.txt", "lantern", ["lamp.txt"]),
        ("Create lamp.txt with the text Lights out at ten.", {}, "lamp.txt", "Lights out at ten.", ["Lights out"]),
        ('Put "Back at noon" into door.txt', {}, "door.txt", "Back at noon", ["Closed"]),
        ("Note down the sentence The key is under the mat. in key.txt", {}, "key.txt", "The key is under the mat.", ["key"]),
        ("Store the name Mara Lind in guest.txt", {}, "guest.txt", "Mara Lind", ["guest"]),
        ("Fill name.txt with the name Mara Lind", {}, "name.txt", "Mara Lind", ["name"]),
        ("Make a file hours.txt containing Mon-Fri 9-17", {}, "hours.txt", "Mon-Fri 9-17", ["hours"]),
        ("Work out 23 times 19 and put the answer into prod.txt", {}, "prod.txt", "437", ["436", "23 times 19"]),
        ("Put the result of 512 minus 137 into diff.txt", {}, "diff.txt", "375", ["385", "512 minus 137"]),
        (
            "Find out how much 6 tickets at 12.50 each cost and save the amount in tickets.txt",
            {},
            "tickets.txt",
            "75",
            ["18.5", "85"],
        ),
        ("A box holds 24 bottles. Write how many bottles are in 15 boxes to bottles.txt", {}, "bottles.txt", "360", ["15", "350"]),
        ("Compute the total of 12, 30 and 45 and store it in total.txt", {}, "total.txt", "87", ["97", "12, 30 and 45"]),
        ("Convert 3 hours 25 minutes to minutes and write the number to min.txt", {}, "min.txt", "205", ["325", "185"]),
        ("Write 18 percent of 250 to vat.txt", {}, "vat.txt", "45", ["18", "250", "42"]),
        ("Calculate the area of a room of 4 by 6 metres and write it to area.txt", {}, "area.txt", "24", ["10", "46"]),
        ("Divide 144 by 12 and save the quotient in q.txt", {}, "q.txt", "12", ["132", "144/12"]),
        ("Write the average of 4, 8 and 15 to avg.txt", {}, "avg.txt", "9", ["27", "8"]),
        ("Write 2 to the power of 8 to pow.txt", {}, "pow.txt", "256", ["16", "28"]),
        (
            "Look up the price of the salad in menu.txt and write it to salad.txt",
            {"menu.txt": MENU},
            "salad.txt",
            "6.20",
            ["4.50", "Salad 6.20", MENU],
        ),
        ("Take the price of Cake from menu.txt and save it as cake.txt", {"menu.txt": MENU}, "cake.txt", "3.80", ["4.50", "Cake"]),
        ("Write how many dishes menu.txt lists to count.txt", {"menu.txt": MENU}, "count.txt", "3", ["4", "dishes"]),
        ("Count the lines of menu.txt and write the number into lines.txt", {"menu.txt": MENU}, "lines.txt", "3", ["4"]),
        (
            "Write the name of the cheapest dish in menu.txt to cheap.txt",
            {"menu.txt": MENU},
            "cheap.txt",
            "Cake",
            ["Cake 3.80", "3.80", "cheapest"],
        ),
        ("Copy menu.txt to copy.txt", {"menu.txt": MENU}, "copy.txt", MENU, ["Soup 4.50", "menu.txt"]),
        ("Put the last line of menu.txt into last.txt", {"menu.txt": MENU}, "last.txt", "Cake 3.80", ["Soup 4.50"]),
        ("Add up the prices in menu.txt and write the sum to sum.txt", {"menu.txt": MENU}, "sum.txt", "14.5", ["14", "4.50"]),
        ("Write the prices from menu.txt in reverse order to rev.txt", {"menu.txt": MENU}, "rev.txt", "3.80\n6.20\n4.50", [MENU]),
        ("Append the line Tea 2.10 to menu.txt", {"menu.txt": MENU}, "menu.txt", MENU + "Tea 2.10\n", ["Tea 2.10", MENU]),
        (
            "Add a line with Tea 2.10 to the end of menu.txt",
            {"menu.txt": MENU},
            "menu.txt",
            MENU + "Tea 2.10\n",
            ["Tea 2.10", MENU],
        ),
        ("Delete the line about Salad from menu.txt", {"menu.txt": MENU}, "menu.txt", "Soup 4.50\nCake 3.80\n", [MENU, "Salad"]),
        ("Remove Cake from menu.txt", {"menu.txt": MENU}, "menu.txt", "Soup 4.50\nSalad 6.20\n", [MENU, "Cake"]),
        (
            "Correct the spelling of Sallad in m.txt",
            {"m.txt": "Sallad and soup\n"},
            "m.txt",
            "Salad and soup\n",
            ["Sallad and soup\n"],
        ),
        (
            "The price of Soup in menu.txt should become 4.90",
            {"menu.txt": MENU},
            "menu.txt",
            "Soup 4.90\nSalad 6.20\nCake 3.80\n",
            [MENU, "4.90"],
        ),
        (
            "Update the price of Soup to 4.90 in menu.txt",
            {"menu.txt": MENU},
            "menu.txt",
            "Soup 4.90\nSalad 6.20\nCake 3.80\n",
            [MENU, "4.90"],
        ),
        ("Write the capital of Norway to cap.txt", {}, "cap.txt", "Oslo", ["capital of Norway", "Norway"]),
        ("Save the chemical symbol for silver in ag.txt", {}, "ag.txt", "Ag", ["silver", "chemical symbol"]),
        ("Write which planet is closest to the sun into p.txt", {}, "p.txt", "Mercury", ["planet"]),
        (
            'Create config.json with {"debug": true, "level": 3}',
            {},
            "config.json",
            '{"debug": true, "level": 3}',
            ['{"debug": false}', "debug"],
        ),
        (
            "Write a Python function twice(n) that returns n times 2 to t.py",
            {},
            "t.py",
            "def twice(n):\n    return n * 2\n",
            ["twice(n)", "def double(n):\n    return n*2"],
        ),
        ("Translate the word house into German and write it to h.txt", {}, "h.txt", "Haus", ["house", "word house"]),
        ("Write the opposite of heavy to o.txt", {}, "o.txt", "light", ["heavy", "opposite of heavy"]),
        (
            "Summarise notes.txt in one sentence in s.txt",
            {"notes.txt": "We meet on Monday.\nBring the plan.\n"},
            "s.txt",
            "The team meets on Monday with the plan.",
            ["notes.txt", ""],
        ),
        (
            "Read list.txt and write the entries sorted alphabetically to sorted.txt",
            {"list.txt": "pear\napple\nfig\n"},
            "sorted.txt",
            "apple\nfig\npear\n",
            ["pear\napple\nfig\n"],
        ),
        ("Write the larger of 318 and 381 to big.txt", {}, "big.txt", "381", ["318", "699"]),
        ("Save today's motto, which is Keep it simple, in motto.txt", {}, "motto.txt", "Keep it simple", ["motto"]),
        ("Write Room 12 is closed to sign.txt", {}, "sign.txt", "Room 12 is closed", []),
        (
            "Write the email address of Ben from team.txt to ben.txt",
            {"team.txt": "Anna: anna@x.org, desk 4\nBen: ben@x.org, desk 7\n"},
            "ben.txt",
            "ben@x.org",
            ["Ben: ben@x.org, desk 7", "anna@x.org"],
        ),
        (
            "Store the number of people in team.txt in size.txt",
            {"team.txt": "Anna\nBen\nCleo\n"},
            "size.txt",
            "3",
            ["Anna", "team.txt"],
        ),
        (
            "Set the colour to green in theme.yaml",
            {"theme.yaml": "colour: red\nfont: serif\n"},
            "theme.yaml",
            "colour: green\nfont: serif\n",
            ["colour: red\nfont: serif\n", "green", "colour: blue\nfont: serif\n"],
        ),
        (
            "Turn debug on in s.ini by changing false to true",
            {"s.ini": "debug = false\nlog = info\n"},
            "s.ini",
            "debug = true\nlog = info\n",
            ["debug = false\nlog = info\n"],
        ),
        ("Double the quantity 35 and write it to dbl.txt", {}, "dbl.txt", "70", ["35", "37"]),
        ("If a shirt costs 40 and is 25% off, write the new price to shirt.txt", {}, "shirt.txt", "30", ["10", "40", "15"]),
        (
            "Add a section about installation to README.md",
            {"README.md": "# Tool\n\nIt does things.\n"},
            "README.md",
            "# Tool\n\nIt does things.\n\n## Installation\n\nRun pip install tool.\n",
            ["# Installation"],
        ),
        (
            "Fix the bug in geometry.py so that area returns the product",
            {"geometry.py": GEOMETRY},
            "geometry.py",
            'def area(w, h):\n    return w * h\n\n\ndef name():\n    return "x"\n',
            [GEOMETRY],
        ),
        (
            "Rename the function name in geometry.py to title",
            {"geometry.py": GEOMETRY},
            "geometry.py",
            'def area(w, h):\n    return w + h\n\n\ndef title():\n    return "x"\n',
            [],
        ),
        (
            "Write tests for geometry.py in test_geometry.py",
            {"geometry.py": GEOMETRY},
            "test_geometry.py",
            "from geometry import area\n\ndef test_area():\n    assert area(2, 3) == 6\n",
            [],
        ),
        (
            "Summarise notes.md in two sentences in summary.txt",
            {"notes.md": NOTES},
            "summary.txt",
            "You need to buy milk. On Friday you call Tom.",
            [],
        ),
        (
            "Write a haiku about rain to rain.txt",
            {},
            "rain.txt",
            "Soft rain on the roof\nThe garden drinks in silence\nClouds drift to the sea",
            ["a haiku about rain"],
        ),
        (
            "Write three facts about cats to cats.txt",
            {},
            "cats.txt",
            "1. Cats sleep a lot.\n2. They purr.\n3. They hunt mice.",
            ["cats"],
        ),
        ("Create a shopping list with milk, eggs and bread in list.txt", {}, "list.txt", "milk\neggs\nbread\n", ["shopping list"]),
        (
            "Make a list of the months with 30 days in months.txt",
            {},
            "months.txt",
            "April\nJune\nSeptember\nNovember\n",
            ["months"],
        ),
        ("Write today's menu to menu.txt: soup, fish, cake", {}, "menu.txt", "soup, fish, cake", []),
        ("Write the ages from people.csv to ages.txt", {"people.csv": PEOPLE}, "ages.txt", "36\n41\n29\n", []),
        (
            "Write the name of the oldest person in people.csv to oldest.txt",
            {"people.csv": PEOPLE},
            "oldest.txt",
            "Bo",
            ["Bo,41,Oslo", "41"],
        ),
        ("Write where Cy lives according to people.csv to cy.txt", {"people.csv": PEOPLE}, "cy.txt", "Graz", ["London", "Cy"]),
        ("Save the average age in people.csv to avg.txt", {"people.csv": PEOPLE}, "avg.txt", "35.33", ["36", "106"]),
        ("Write the city of Ada, as given in people.csv, to ada.txt", {"people.csv": PEOPLE}, "ada.txt", "London", []),
        ("Put the number 42 in answer.txt", {}, "answer.txt", "42", ["43"]),
        ("Write the numbers from 1 to 5 to nums.txt", {}, "nums.txt", "1\n2\n3\n4\n5\n", []),
        ("Write the letters A to E into letters.txt, one per line", {}, "letters.txt", "A\nB\nC\nD\nE", []),
        ("Store the date 2026-11-19 in date.txt", {}, "date.txt", "2026-11-19", ["2026"]),
        ("Write the phone number 030-1234 to phone.txt", {}, "phone.txt", "030-1234", []),
        ("Create an HTML page index.html with the heading Welcome", {}, "index.html", "<!doctype html>\n<h1>Welcome</h1>\n", []),
        ("Write a greeting for Anna to anna.txt", {}, "anna.txt", "Hello Anna!", ["Anna"]),
        ("Convert 5 km to metres and write the number to m.txt", {}, "m.txt", "5000", ["5"]),
        ("Write the price 12.50 EUR into price.txt", {}, "price.txt", "12.50 EUR", ["12"]),
        ("How much is 15% of 80? Save it in tip.txt", {}, "tip.txt", "12", ["95"]),
        ("Note that the meeting is on Monday in meeting.txt", {}, "meeting.txt", "The meeting is on Monday.", []),
        ("Write a sentence saying that we are closed on Sunday to closed.txt", {}, "closed.txt", "We are closed on Sunday.", []),
        (
            "Write the title of the book in book.txt to title.txt",
            {"book.txt": BOOK},
            "title.txt",
            "Dune",
            ["Frank Herbert", "Title: Dune"],
        ),
        (
            "Replace the title in book.txt with Emma",
            {"book.txt": BOOK},
            "book.txt",
            "Title: Emma\nAuthor: Frank Herbert\n",
            ["Emma"],
        ),
        (
            "Change the author in book.txt to Jane Austen",
            {"book.txt": BOOK},
            "book.txt",
            "Title: Dune\nAuthor: Jane Austen\n",
            ["Jane Austen", BOOK],
        ),
        (
            "Change every comma in people.csv to a semicolon",
            {"people.csv": PEOPLE},
            "people.csv",
            "name;age;city\nAda;36;London\nBo;41;Oslo\nCy;29;Graz\n",
            [],
        ),
        (
            "Add a row for Di, aged 50, from Rome to people.csv",
            {"people.csv": PEOPLE},
            "people.csv",
            PEOPLE + "Di,50,Rome\n",
            ["Di,50,Rome"],
        ),
        (
            "Remove the row of Bo from people.csv",
            {"people.csv": PEOPLE},
            "people.csv",
            "name,age,city\nAda,36,London\nCy,29,Graz\n",
            [PEOPLE],
        ),
        ("Delete all empty lines in notes.md", {"notes.md": NOTES}, "notes.md", "# Notes\nBuy milk.\nCall Tom on Friday.\n", []),
        ("Sort the names in names.txt alphabetically", {"names.txt": "Zoe\nAl\nMia\n"}, "names.txt", "Al\nMia\nZoe\n", []),
        (
            "Increase Bo's age in people.csv to 42",
            {"people.csv": PEOPLE},
            "people.csv",
            "name,age,city\nAda,36,London\nBo,42,Oslo\nCy,29,Graz\n",
            [PEOPLE],
        ),
        (
            "Set timeout to 30 in c.toml",
            {"c.toml": "[net]\ntimeout = 10\nretries = 2\n"},
            "c.toml",
            "[net]\ntimeout = 30\nretries = 2\n",
            ["timeout = 30"],
        ),
        (
            'Set "name" to "demo" in package.json',
            {"package.json": PACKAGE},
            "package.json",
            '{\n  "name": "demo",\n  "version": "1.0.0"\n}\n',
            ['{"name": "demo"}'],
        ),
        (
            "Bump the version in package.json from 1.0.0 to 1.1.0",
            {"package.json": PACKAGE},
            "package.json",
            '{\n  "name": "old",\n  "version": "1.1.0"\n}\n',
            ["1.1.0"],
        ),
        (
            "Update the version in package.json to 2.0.0",
            {"package.json": PACKAGE},
            "package.json",
            '{\n  "name": "old",\n  "version": "2.0.0"\n}\n',
            ['{"version": "2.0.0"}'],
        ),
        (
            "Write a function is_even(n) to even.py that returns True for even numbers",
            {},
            "even.py",
            "def is_even(n):\n    return n % 2 == 0\n",
            ["is_even(n)"],
        ),
        ("Compute 7 factorial and save it as fact.txt", {}, "fact.txt", "5040", ["7"]),
        ("Write the square root of 144 to root.txt", {}, "root.txt", "12", ["144", "20736"]),
        ("Write how many days February has in a leap year to feb.txt", {}, "feb.txt", "29", ["February"]),
        ("Write the year the Berlin Wall fell to wall.txt", {}, "wall.txt", "1989", ["Berlin Wall"]),
        ("Write the word apple backwards to rev.txt", {}, "rev.txt", "elppa", []),
        ("Write the word sun in capital letters to sun.txt", {}, "sun.txt", "SUN", ["sun"]),
        ("Add up 12, 15 and 20 and note the sum in sum.txt", {}, "sum.txt", "47", ["27"]),
        ("In list.txt, cross out milk", {"list.txt": "milk\neggs\n"}, "list.txt", "~~milk~~\neggs\n", []),
    ],
)
def test_a_right_file_is_accepted_in_many_wordings(
    item: str, files: Mapping[str, str], target: str, right: str, wrong: list[str]
) -> None:
    def judge(content: str) -> ItemFinding | None:
        reads = [
            MadeCall("read_file", {"path": path}, json.dumps({"content": text}), succeeded=True) for path, text in files.items()
        ]
        write = MadeCall("write_file", {"path": target, "content": content}, f"Wrote {target}.", succeeded=True)
        return judge_item(item, collect_work([*reads, write]), lambda path: path in files)

    finding = judge(right)
    assert finding is not None
    assert finding.is_done, finding.reason
    assert [content for content in wrong if (found := judge(content)) is None or found.is_done] == []


CARD = "Tea 3.20\nCoffee 3.80\nSoup of the day: carrot\nOpen Monday to Friday\n"
SETTINGS = "name = demo\nport = 80\ndebug = false\nhost: localhost\n"
SIGN = "The shop is open form nine to five.\nAsk for Ana at the desk.\n"


@each_row(
    ("item", "path", "text", "old", "new"),
    [
        ("In menu.txt, Coffee should cost 4.10", "menu.txt", CARD, "3.80", "4.10"),
        ("Coffee costs 4.10 now, change that in menu.txt", "menu.txt", CARD, "3.80", "4.10"),
        ("Raise the price of Tea to 3.50 in menu.txt", "menu.txt", CARD, "3.20", "3.50"),
        ("In menu.txt we need leek instead of carrot", "menu.txt", CARD, "carrot", "leek"),
        ("Move the closing day in menu.txt from Friday to Saturday", "menu.txt", CARD, "Friday", "Saturday"),
        ("Change Monday to Tuesday in menu.txt", "menu.txt", CARD, "Monday", "Tuesday"),
        ('Change "Monday" to "Tuesday" in menu.txt', "menu.txt", CARD, "Monday", "Tuesday"),
        ("Change 'carrot' into 'leek' in menu.txt", "menu.txt", CARD, "carrot", "leek"),
        ("Replace carrot with leek in the file menu.txt", "menu.txt", CARD, "carrot", "leek"),
        ("Swap carrot for leek in menu.txt", "menu.txt", CARD, "carrot", "leek"),
        ("Set the soup of the day to leek in menu.txt", "menu.txt", CARD, "carrot", "leek"),
        ("Turn debug on in app.ini", "app.ini", SETTINGS, "debug = false", "debug = true"),
        ("Set debug to true in app.ini", "app.ini", SETTINGS, "false", "true"),
        ("Switch debug to true in app.ini", "app.ini", SETTINGS, "false", "true"),
        ("Change port 80 to port 8080 in app.ini", "app.ini", SETTINGS, "80", "8080"),
        ("Change the port number to 8080 in app.ini", "app.ini", SETTINGS, "80", "8080"),
        ("Set the port in app.ini to 8080", "app.ini", SETTINGS, "80", "8080"),
        ("Rename the demo to shop in app.ini", "app.ini", SETTINGS, "demo", "shop"),
        ("Correct form to from in note.txt", "note.txt", SIGN, "form", "from"),
        ("Fix the typo form in note.txt, it should be from", "note.txt", SIGN, "form", "from"),
        ("Correct the name Ana to Anna in note.txt", "note.txt", SIGN, "Ana", "Anna"),
        ("In note.txt, spell Ana as Anna", "note.txt", SIGN, "Ana", "Anna"),
        ("Change nine to ten in note.txt", "note.txt", SIGN, "nine", "ten"),
        ("Edit note.txt so that the shop opens at ten", "note.txt", SIGN, "nine", "ten"),
        ("Update note.txt: the person to ask is Ben", "note.txt", SIGN, "Ana", "Ben"),
        ("Replace the second line of note.txt with Ask for Ben.", "note.txt", SIGN, "Ask for Ana at the desk.", "Ask for Ben."),
        ("Add Milk 1.00 to menu.txt", "menu.txt", CARD, "Tea 3.20", "Tea 3.20\nMilk 1.00"),
        ("Append Milk 1.00 to menu.txt", "menu.txt", CARD, "Friday\n", "Friday\nMilk 1.00\n"),
        ('Add the line "Milk 1.00" below Tea in menu.txt', "menu.txt", CARD, "Tea 3.20", "Tea 3.20\nMilk 1.00"),
        ("Insert Milk 1.00 after the line Tea 3.20 in menu.txt", "menu.txt", CARD, "Tea 3.20", "Tea 3.20\nMilk 1.00"),
        ("Remove the line Coffee 3.80 from menu.txt", "menu.txt", CARD, "Coffee 3.80\n", ""),
        ("Strike the coffee from menu.txt", "menu.txt", CARD, "Coffee 3.80\n", ""),
        ("Double the price of Tea in menu.txt", "menu.txt", CARD, "3.20", "6.40"),
        ("Lower the price of Coffee in menu.txt by 0.30", "menu.txt", CARD, "3.80", "3.50"),
        ("Lower Coffee in menu.txt to 3.50", "menu.txt", CARD, "3.80", "3.50"),
    ],
)
def test_an_edit_is_accepted_in_many_wordings(item: str, path: str, text: str, old: str, new: str) -> None:
    def judge(tool: str, **arguments: str) -> ItemFinding | None:
        read = MadeCall("read_file", {"path": path}, json.dumps({"content": text}), succeeded=True)
        change = MadeCall(tool, {"path": path, **arguments}, f"Changed {path}.", succeeded=True)
        return judge_item(item, collect_work([read, change]), lambda name: name == path)

    for finding in (judge("edit_file", old=old, new=new), judge("write_file", content=text.replace(old, new))):
        assert finding is not None
        assert finding.is_done, finding.reason
    for finding in (judge("write_file", content=text), judge("write_file", content=new or old)):
        assert finding is not None
        assert not finding.is_done
