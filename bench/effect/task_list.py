"""The tasks, by kind. No two tasks name the same file."""

from collections.abc import Mapping
from typing import Final

from bench.effect.fresh_tasks import FRESH_TASKS
from bench.effect.tasks import (
    Item,
    Kind,
    Task,
    TaskSet,
    Wording,
    document,
    edit,
    edits,
    fact,
    function,
    impossible,
    number,
    split_in_sets,
    write,
)

TASKS: Final[dict[str, Task]] = {}


def add(kind: Kind, name: str, wording: Wording, introduction: str, *items: Item, files: Mapping[str, str] | None = None) -> None:
    assert name not in TASKS, f"two tasks are called {name}"
    TASKS[name] = Task(name, kind, wording, items, introduction, files or {})


def list_words(text: str) -> list[str]:
    return text.split()


# One item

add(
    "one",
    "opening",
    "paragraphs",
    "We put a note on the door",
    write("opening.txt", "The bakery opens at seven.", "write the sentence The bakery opens at seven. into opening.txt"),
)
add(
    "one",
    "tally",
    "first then",
    "I counted the seats",
    number("tally.txt", 785, "add 318 and 467 and write only the result to tally.txt", "318 + 467"),
)
BADGE = "Name: Ada Brandt\nRole: Guest\nDay: Friday\n"
add(
    "one",
    "badge",
    "paragraphs",
    "A badge is wrong",
    edit("badge.txt", BADGE, "Guest", "Speaker", "replace the word Guest by Speaker in badge.txt"),
    files={"badge.txt": BADGE},
)
MOTTO = "Small steps, every day.\n"
add(
    "one",
    "poster",
    "commas",
    "Please do this",
    write("poster.txt", MOTTO, "copy the text of motto.txt to poster.txt", reads=("motto.txt",)),
    files={"motto.txt": MOTTO},
)
add(
    "one",
    "address",
    "bullets",
    "One file is missing",
    document("address.json", {"city": "Graz", "zip": 8010}, 'write the JSON {"city": "Graz", "zip": 8010} to address.json'),
)
add(
    "one",
    "planet",
    "numbered",
    "For the quiz",
    fact("planet.txt", "Jupiter", "write the name of the largest planet of the solar system to planet.txt"),
)

# Given text


def texts(pairs: Mapping[str, str]) -> tuple[Item, ...]:
    """Files with a given text each: `{path: text}`."""
    return tuple(write(path, text, f"write the text {text} to {path}", f"{text} into {path}") for path, text in pairs.items())


add(
    "given",
    "instruments",
    "commas",
    "Write each of these words into a file of its own",
    *texts({"violin.txt": "strings", "flute.txt": "wind", "drum.txt": "percussion", "organ.txt": "keys"}),
)
add(
    "given",
    "rooms",
    "numbered",
    "Make these notes in the workspace",
    *texts({"cellar.txt": "wine", "attic.txt": "trunks", "garage.txt": "bicycle", "pantry.txt": "flour", "porch.txt": "swing"}),
)
add(
    "given",
    "drinks",
    "bullets",
    "Please prepare the cards for the bar",
    *texts(
        {
            "card_tea.txt": "Tea 3.20",
            "card_coffee.txt": "Coffee 3.80",
            "card_juice.txt": "Juice 4.10",
            "card_water.txt": "Water 2.00",
            "card_cocoa.txt": "Cocoa 4.50",
            "card_milk.txt": "Milk 2.40",
        }
    ),
)
add(
    "given",
    "signs",
    "paragraphs",
    "The library needs new signs",
    *texts({"sign_door.txt": "Please close the door", "sign_hall.txt": "Quiet in the hall", "sign_desk.txt": "Ask at the desk"}),
)
add(
    "given",
    "weekdays",
    "first then",
    "I plan the meals of a week",
    *texts(
        {
            "meal_mon.txt": "soup",
            "meal_tue.txt": "rice",
            "meal_wed.txt": "pasta",
            "meal_thu.txt": "curry",
            "meal_fri.txt": "fish",
            "meal_sat.txt": "pizza",
            "meal_sun.txt": "roast",
        }
    ),
)
add(
    "given",
    "seeds",
    "commas",
    "Label the seed boxes, one file for each",
    *texts(
        {
            "box_1.txt": "carrot",
            "box_2.txt": "radish",
            "box_3.txt": "leek",
            "box_4.txt": "chard",
            "box_5.txt": "pea",
            "box_6.txt": "bean",
            "box_7.txt": "beet",
            "box_8.txt": "kale",
        }
    ),
)

# Computed

add(
    "computed",
    "parcels",
    "numbered",
    "Calculate the weights of the parcels in kilograms, and write only the number to the file",
    number("parcel_a.txt", 84, "12 boxes of 7 kg: write the total weight to parcel_a.txt", "12 * 7"),
    number("parcel_b.txt", 135, "9 boxes of 15 kg: write the total weight to parcel_b.txt", "9 * 15"),
    number("parcel_c.txt", 104, "8 boxes of 13 kg: write the total weight to parcel_c.txt", "8 * 13"),
    number("parcel_d.txt", 198, "11 boxes of 18 kg: write the total weight to parcel_d.txt", "11 * 18"),
)
add(
    "computed",
    "wages",
    "bullets",
    "Work out the wages and write each as a plain number",
    number("wage_ann.txt", 612, "Ann worked 34 hours at 18 an hour: write her wage to wage_ann.txt", "34 * 18"),
    number("wage_ben.txt", 609, "Ben worked 29 hours at 21 an hour: write his wage to wage_ben.txt", "29 * 21"),
    number("wage_cleo.txt", 779, "Cleo worked 41 hours at 19 an hour: write her wage to wage_cleo.txt", "41 * 19"),
    number("wage_dan.txt", 576, "Dan worked 24 hours at 24 an hour: write his wage to wage_dan.txt", "24 * 24"),
    number("wage_eve.txt", 851, "Eve worked 37 hours at 23 an hour: write her wage to wage_eve.txt", "37 * 23"),
)
add(
    "computed",
    "tickets",
    "paragraphs",
    "The theatre sold tickets on three evenings",
    number("evening1.txt", 1632, "multiply 136 tickets by 12 and write the result to evening1.txt", "136 * 12"),
    number("evening2.txt", 1788, "multiply 149 tickets by 12 and write the result to evening2.txt", "149 * 12"),
    number("evening3.txt", 1404, "multiply 117 tickets by 12 and write the result to evening3.txt", "117 * 12"),
)
add(
    "computed",
    "averages",
    "first then",
    "We need the average grade of each class, as a number",
    number("class_1.txt", 3, "write the average of 2, 3 and 4 to class_1.txt", "(2 + 3 + 4) / 3"),
    number("class_2.txt", 2.5, "write the average of 1, 2, 3 and 4 to class_2.txt", "(1 + 2 + 3 + 4) / 4"),
    number("class_3.txt", 4, "write the average of 3, 4 and 5 to class_3.txt", "(3 + 4 + 5) / 3"),
    number("class_4.txt", 1.5, "write the average of 1, 1, 2 and 2 to class_4.txt", "(1 + 1 + 2 + 2) / 4"),
)
add(
    "computed",
    "percent",
    "commas",
    "Write these results as plain numbers",
    *(
        number(
            f"share_{part}.txt",
            part * whole // 100,
            f"write {part} percent of {whole} to share_{part}.txt",
            f"{whole} * {part} / 100",
            f"{part} percent of {whole} to share_{part}.txt",
        )
        for part, whole in ((15, 240), (30, 90), (45, 160), (60, 35), (75, 84))
    ),
)
add(
    "computed",
    "seconds",
    "numbered",
    "Convert the times into seconds and write only the number",
    *(
        number(
            f"time_{minutes}.txt",
            minutes * 60 + rest,
            f"write {minutes} minutes and {rest} seconds as a number of seconds to time_{minutes}.txt",
            f"{minutes} * 60 + {rest}",
        )
        for minutes, rest in ((3, 20), (7, 45), (12, 5), (16, 30), (21, 15), (28, 50))
    ),
)

# Edits

SETTINGS = "host = localhost\nport = 5000\ndebug = true\ncolour = grey\nretries = 2\n"
add(
    "edits",
    "settings",
    "numbered",
    "The settings have to change",
    *edits(
        "settings.ini",
        SETTINGS,
        {
            "in settings.ini set the port to 8443, so that the line is port = 8443": ("port = 5000", "port = 8443"),
            "in settings.ini set debug to false, so that the line is debug = false": ("debug = true", "debug = false"),
            "in settings.ini set the colour to teal, so that the line is colour = teal": ("colour = grey", "colour = teal"),
            "in settings.ini set the retries to 6, so that the line is retries = 6": ("retries = 2", "retries = 6"),
        },
    ),
    files={"settings.ini": SETTINGS},
)
MENU = "Monday: potato soup\nTuesday: green salad\nWednesday: fish pie\nThursday: noodles\n"
add(
    "edits",
    "menu",
    "paragraphs",
    "The cook changed the menu",
    *edits(
        "menu.txt",
        MENU,
        {
            "replace potato soup by tomato soup in menu.txt": ("potato soup", "tomato soup"),
            "replace green salad by bean salad in menu.txt": ("green salad", "bean salad"),
            "replace fish pie by apple pie in menu.txt": ("fish pie", "apple pie"),
        },
    ),
    files={"menu.txt": MENU},
)
PRICES = {
    f"price_{name}.txt": f"item: {name}\nprice: {price}\n"
    for name, price in (("pen", 2), ("ink", 6), ("pad", 4), ("cap", 9), ("mug", 7))
}
add(
    "edits",
    "prices",
    "commas",
    "Change the price in each of these files",
    *(
        edit(path, text, text.splitlines()[1], f"price: {new}", f"set price: {new} in {path}")
        for (path, text), new in zip(PRICES.items(), (3, 8, 5, 11, 10), strict=True)
    ),
    files=PRICES,
)
CREW = "captain: Olsen\npilot: Reyes\ncook: Marsh\nmedic: Tanaka\ndeck: Novak\n"
add(
    "edits",
    "crew",
    "first then",
    "The crew of the ship changed",
    *edits(
        "crew.txt",
        CREW,
        {
            "replace Olsen by Lindqvist in crew.txt": ("Olsen", "Lindqvist"),
            "replace Reyes by Okafor in crew.txt": ("Reyes", "Okafor"),
            "replace Marsh by Dubois in crew.txt": ("Marsh", "Dubois"),
            "replace Tanaka by Haddad in crew.txt": ("Tanaka", "Haddad"),
        },
    ),
    files={"crew.txt": CREW},
)
LOGS = {f"log_{name}.txt": f"start of {name}\nend of {name}\n" for name in ("north", "south", "west")}
add(
    "edits",
    "appendices",
    "bullets",
    "Add a last line to each log, and keep what is there",
    *(
        edit(
            path,
            text,
            text.splitlines()[1],
            f"{text.splitlines()[1]}\nchecked by {person}",
            f"append the line checked by {person} to {path}",
        )
        for (path, text), person in zip(LOGS.items(), ("Ines", "Jonas", "Kim"), strict=True)
    ),
    files=LOGS,
)
PAGE = '<html>\n<title>Old title</title>\n<h1>Welcome</h1>\n<p>We are closed.</p>\n<a href="/a">more</a>\n</html>\n'
add(
    "edits",
    "homepage",
    "numbered",
    "Please correct the page",
    *edits(
        "homepage.html",
        PAGE,
        {
            "in homepage.html change the title from Old title to Harbour Museum": ("Old title", "Harbour Museum"),
            "in homepage.html change the heading from Welcome to Good morning": ("Welcome", "Good morning"),
            "in homepage.html replace We are closed. by We are open daily.": ("We are closed.", "We are open daily."),
            "in homepage.html change the link from /a to /exhibitions": ('/a"', '/exhibitions"'),
        },
    ),
    files={"homepage.html": PAGE},
)

# Read, then write

NOTES = {
    "note_a.txt": "buy paint\n",
    "note_b.txt": "call the plumber\n",
    "note_c.txt": "return the ladder\n",
    "note_d.txt": "order tiles\n",
}
add(
    "read",
    "copies",
    "numbered",
    "Make copies of the notes, with exactly the same text",
    *(write(f"copy_of_{path}", text, f"copy {path} to copy_of_{path}", reads=(path,)) for path, text in NOTES.items()),
    files=NOTES,
)
LISTS = {
    f"list_{name}.txt": "\n".join(lines) + "\n"
    for name, lines in (
        ("oak", ["one", "two", "three"]),
        ("elm", ["a", "b", "c", "d", "e"]),
        ("fir", ["x", "y"]),
        ("yew", ["k", "l", "m", "n"]),
    )
}
add(
    "read",
    "counts",
    "bullets",
    "Count the lines of the lists, and write only the number",
    *(
        number(
            f"count_{path[5:]}",
            text.count("\n"),
            f"count the lines of {path} and write the number to count_{path[5:]}",
            reads=(path,),
        )
        for path, text in LISTS.items()
    ),
    files=LISTS,
)
LETTERS = {
    f"letter{place}.txt": f"{first}\nThe rest of letter {place}.\n"
    for place, first in enumerate(("Dear Mrs Kowalski,", "Hello Tom,", "To the council,"), 1)
}
add(
    "read",
    "salutations",
    "paragraphs",
    "Each letter begins with a salutation in its first line",
    *(
        write(
            f"salutation{path[6:]}", text.splitlines()[0], f"write the first line of {path} to salutation{path[6:]}", reads=(path,)
        )
        for path, text in LETTERS.items()
    ),
    files=LETTERS,
)
ORDERS = "product,quantity\nnails,400\nscrews,250\nhinges,36\nbolts,120\nwashers,900\n"
add(
    "read",
    "orders",
    "commas",
    "Look up the quantities in orders.csv and write only the number",
    *(
        number(
            f"{row.split(',')[0]}.txt",
            int(row.split(",")[1]),
            f"write the quantity of {row.split(',')[0]} in orders.csv to {row.split(',')[0]}.txt",
            brief=f"{row.split(',')[0]} to {row.split(',')[0]}.txt",
            reads=("orders.csv",),
        )
        for row in ORDERS.splitlines()[1:]
    ),
    files={"orders.csv": ORDERS},
)
CONTACTS = "Mia Berg, mia@berg.example\nLuis Ortega, luis@ortega.example\nPia Roth, pia@roth.example\nSam Cole, sam@cole.example\n"
add(
    "read",
    "contacts",
    "first then",
    "The addresses are in contacts.txt",
    *(
        write(
            f"mail_{row.split()[0].lower()}.txt",
            row.split(", ")[1],
            f"find the address of {row.split(',')[0]} in contacts.txt and write only that to mail_{row.split()[0].lower()}.txt",
            reads=("contacts.txt",),
        )
        for row in CONTACTS.splitlines()
    ),
    files={"contacts.txt": CONTACTS},
)
BILLS = {
    "bill_june.txt": "rent 700\nheat 80\nphone 25\n",
    "bill_july.txt": "rent 700\nheat 20\nphone 31\n",
    "bill_august.txt": "rent 720\nheat 15\nphone 28\n",
}
add(
    "read",
    "totals",
    "numbered",
    "Add up the amounts of each bill, and write only the total",
    *(
        number(
            f"total_{path[5:]}",
            sum(map(int, text.split()[1::2])),
            f"add the amounts in {path} and write the total to total_{path[5:]}",
            " + ".join(text.split()[1::2]),
            reads=(path,),
        )
        for path, text in BILLS.items()
    ),
    files=BILLS,
)

# Mixed

DESK = "lamp: on\nradio: off\n"
add(
    "mixed",
    "office",
    "numbered",
    "Prepare the office",
    write("plate.txt", "Room 14", "write the text Room 14 to plate.txt"),
    number("chairs.txt", 72, "6 rooms have 12 chairs each: write the number of all chairs to chairs.txt", "6 * 12"),
    edit("desk.txt", DESK, "radio: off", "radio: on", "in desk.txt change the line radio: off to radio: on"),
    write("inventory.txt", "desk 4\nshelf 9\n", "copy stock.txt to inventory.txt", reads=("stock.txt",)),
    document("staff.json", {"manager": "Vera", "people": 8}, 'write the JSON {"manager": "Vera", "people": 8} to staff.json'),
    files={"desk.txt": DESK, "stock.txt": "desk 4\nshelf 9\n"},
)
BEDS = "bed 1: tulips\nbed 2: weeds\nbed 3: roses\n"
add(
    "mixed",
    "garden",
    "paragraphs",
    "The garden club meets tomorrow",
    edit("beds.txt", BEDS, "weeds", "dahlias", "replace weeds by dahlias in beds.txt"),
    number(
        "fence.txt", 46, "calculate the fence around a garden of 9 by 14 metres and write the number to fence.txt", "2 * (9 + 14)"
    ),
    write("invitation.txt", "Meeting at six", "write the text Meeting at six to invitation.txt"),
    fact("season.txt", "winter", "write the season that follows autumn to season.txt"),
    write("tools_copy.txt", "spade\nrake\n", "copy tools.txt to tools_copy.txt", reads=("tools.txt",)),
    number("members.txt", 3, "count the lines of people.txt and write the number to members.txt", reads=("people.txt",)),
    files={"beds.txt": BEDS, "tools.txt": "spade\nrake\n", "people.txt": "Ola\nPer\nUlf\n"},
)
ROUTE = "start: Lyon\nstop: Dijon\nend: Metz\n"
add(
    "mixed",
    "trip",
    "first then",
    "We prepare the trip",
    write("packing.txt", "tent, stove, rope", "write the text tent, stove, rope to packing.txt"),
    edit("route.txt", ROUTE, "stop: Dijon", "stop: Nancy", "in route.txt change the line stop: Dijon to stop: Nancy"),
    number("fuel.txt", 63, "9 litres for 100 km and 700 km to drive: write the litres to fuel.txt", "9 * 700 / 100"),
    write("goal.txt", "Metz", "read route.txt and write only the name of the town at its end to goal.txt", reads=("route.txt",)),
    fact("currency.txt", "euro", "write the name of the currency of France to currency.txt"),
    files={"route.txt": ROUTE},
)
SHELF = "top: empty\nmiddle: jars\nbottom: sacks\n"
add(
    "mixed",
    "shop",
    "bullets",
    "Get the shop ready",
    write("greeting.txt", "Welcome to the shop", "write the text Welcome to the shop to greeting.txt"),
    edit("shelf.txt", SHELF, "top: empty", "top: honey", "in shelf.txt change the line top: empty to top: honey"),
    number("takings.txt", 918, "add 402, 287 and 229 and write the sum to takings.txt", "402 + 287 + 229"),
    number("sorts.txt", 4, "count the lines of sortiment.txt and write the number to sorts.txt", reads=("sortiment.txt",)),
    write("first_sort.txt", "rye", "write the first line of sortiment.txt to first_sort.txt", reads=("sortiment.txt",)),
    document("till.json", {"open": True, "coins": 50}, 'write the JSON {"open": true, "coins": 50} to till.json'),
    write("closing.txt", "Closed on Sunday", "write the text Closed on Sunday to closing.txt"),
    files={"shelf.txt": SHELF, "sortiment.txt": "rye\nspelt\noat\nwheat\n"},
)

# Impossible items: a file that is needed does not exist

add(
    "impossible",
    "archive",
    "numbered",
    "Update the archive",
    write("year_1.txt", "founded", "write the text founded to year_1.txt"),
    impossible("year_2.txt", "copy the text of old_register.txt to year_2.txt", "old_register.txt"),
    write("year_3.txt", "moved", "write the text moved to year_3.txt"),
)
add(
    "impossible",
    "survey",
    "bullets",
    "Evaluate the survey",
    number("answers_a.txt", 57, "add 23 and 34 and write the sum to answers_a.txt", "23 + 34"),
    impossible("answers_b.txt", "count the lines of survey_b.csv and write the number to answers_b.txt", "survey_b.csv"),
    number("answers_c.txt", 91, "multiply 7 by 13 and write the product to answers_c.txt", "7 * 13"),
)
add(
    "impossible",
    "recipes",
    "commas",
    "Collect the recipes",
    write("recipe_bread.txt", "flour", "write the text flour to recipe_bread.txt"),
    write("recipe_soup.txt", "leek", "write the text leek to recipe_soup.txt"),
    impossible("recipe_cake.txt", "copy the first line of grandmothers_cake.txt to recipe_cake.txt", "grandmothers_cake.txt"),
)
RULES = "rule 1: no smoking\n"
add(
    "impossible",
    "rules",
    "first then",
    "The house rules are renewed",
    edit("rules.txt", RULES, "no smoking", "no fireworks", "replace no smoking by no fireworks in rules.txt"),
    impossible("rules_signed.txt", "copy the signature from signature.txt to rules_signed.txt", "signature.txt"),
    write("rules_date.txt", "1 May", "write the text 1 May to rules_date.txt"),
    files={"rules.txt": RULES},
)
add(
    "impossible",
    "keys",
    "paragraphs",
    "Hand out the keys",
    write("key_front.txt", "Nora", "write the text Nora to key_front.txt"),
    impossible(
        "key_back.txt", "find out in key_holders.txt who has the back key and write the name to key_back.txt", "key_holders.txt"
    ),
    write("key_roof.txt", "Emil", "write the text Emil to key_roof.txt"),
)
add(
    "impossible",
    "meter",
    "numbered",
    "Record the meters, each as a number",
    impossible("meter_gas.txt", "read the gas reading in readings_gas.txt and write it to meter_gas.txt", "readings_gas.txt"),
    number("meter_water.txt", 118, "subtract 204 from 322 and write the result to meter_water.txt", "322 - 204"),
    number("meter_power.txt", 75, "subtract 950 from 1025 and write the result to meter_power.txt", "1025 - 950"),
)

# Long

LETTER_WORDS = list_words(
    "apple bridge candle desert engine forest guitar hammer island jacket kettle lemon mirror "
    "needle orange pencil quartz ribbon saddle tunnel"
)
add(
    "long",
    "alphabet",
    "numbered",
    "Make a picture book, one file for each word",
    *texts({f"page_{word[0]}.txt": word for word in LETTER_WORDS}),
)
add(
    "long",
    "squares",
    "bullets",
    "Write these squares, only the number in each file",
    *(number(f"square_{n}.txt", n * n, f"write the square of {n} to square_{n}.txt", f"{n} * {n}") for n in range(11, 29)),
)
STICKERS = list_words(
    "ant bee cat dog eel fox gnu hen ibis jay kid lynx mole newt owl pig quail rat seal toad urchin vole wasp yak"
)
add(
    "long",
    "stickers",
    "commas",
    "Print the stickers, each word into its own file",
    *texts({f"sticker_{place:02}.txt": animal for place, animal in enumerate(STICKERS, 1)}),
)
MODULES = {
    f"{name}.cfg": f"name: {name}\nversion: 1.{place}\n"
    for place, name in enumerate(list_words("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron"))
}
add(
    "long",
    "versions",
    "numbered",
    "Raise the version in each of these files",
    *(
        edit(path, text, text.splitlines()[1], f"version: 2.{place}", f"set version: 2.{place} in {path}")
        for place, (path, text) in enumerate(MODULES.items())
    ),
    files=MODULES,
)
add(
    "long",
    "lockers",
    "paragraphs",
    "The lockers get new owners",
    *(
        write(f"locker_{place:02}.txt", name, f"write the name {name} to locker_{place:02}.txt")
        for place, name in enumerate(
            list_words(
                "Aino Bela Cira Davi Elif Faro Gita Hugo Ilya Jana Kofi Lale Mika Nils Orla Pavo Rhea Sami "
                "Tove Umar Vito Wanda Xenia Yara Zeno Arlo Bo Cleo Duke Enid"
            ),
            1,
        )
    ),
)
REGISTER = "".join(
    f"seat {n}: {name}\n"
    for n, name in enumerate(
        list_words("Bach Chopin Dvorak Elgar Faure Grieg Handel Ives Janacek Kodaly Liszt Mahler Nielsen Orff Puccini Ravel"), 1
    )
)
add(
    "long",
    "seating",
    "first then",
    "The seats are listed in register.txt",
    *(
        write(
            f"seat_{row.split()[1].strip(':')}.txt",
            row.split(": ")[1],
            f"write the name of {row.split(':')[0]} to seat_{row.split()[1].strip(':')}.txt",
            reads=("register.txt",),
        )
        for row in REGISTER.splitlines()
    ),
    files={"register.txt": REGISTER},
)

# Code

add(
    "code",
    "lengths",
    "numbered",
    "Write three small Python modules without imports",
    function(
        "miles.py",
        "def to_km(miles):\n    return miles * 1.5\n",
        {"to_km(2)": 3.0, "to_km(10)": 15.0},
        "write miles.py with a function to_km(miles) that returns miles * 1.5",
    ),
    function(
        "longest.py",
        "def longest(words):\n    return max(words, key=len)\n",
        {"longest(['a', 'ccc', 'bb'])": "ccc"},
        "write longest.py with a function longest(words) that returns the longest word of a list",
    ),
    function(
        "evens.py",
        "def evens(numbers):\n    return [n for n in numbers if n % 2 == 0]\n",
        {"evens([1, 2, 3, 4])": [2, 4], "evens([])": []},
        "write evens.py with a function evens(numbers) that returns the list of the even numbers",
    ),
)
DISCOUNT = "def discount(price):\n    return price * 2\n"
LEAP = "def is_leap(year):\n    return year % 4 == 0\n"
add(
    "code",
    "repairs",
    "paragraphs",
    "Two functions do not pass their tests",
    function(
        "discount.py",
        "def discount(price):\n    return price / 2\n",
        {"discount(10)": 5.0, "discount(3)": 1.5},
        "rewrite discount.py so that the tests in test_discount.txt pass",
        reads=("discount.py", "test_discount.txt"),
    ),
    function(
        "leap.py",
        "def is_leap(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n",
        {"is_leap(2024)": True, "is_leap(1900)": False, "is_leap(2000)": True},
        "rewrite leap.py so that the tests in test_leap.txt pass",
        reads=("leap.py", "test_leap.txt"),
    ),
    files={
        "discount.py": DISCOUNT,
        "test_discount.txt": "assert discount(10) == 5.0\nassert discount(3) == 1.5\n",
        "leap.py": LEAP,
        "test_leap.txt": "assert is_leap(2024)\nassert not is_leap(1900)\nassert is_leap(2000)\n",
    },
)
add(
    "code",
    "strings",
    "first then",
    "We need text functions in Python, without imports",
    function(
        "shout.py",
        "def shout(text):\n    return text.upper() + '!'\n",
        {"shout('hi')": "HI!"},
        "write shout.py with a function shout(text) that returns the text in capitals with an exclamation mark at its end",
    ),
    function(
        "vowels.py",
        "def vowels(text):\n    return sum(letter in 'aeiou' for letter in text.lower())\n",
        {"vowels('Audio')": 4, "vowels('xyz')": 0},
        "write vowels.py with a function vowels(text) that counts the letters a, e, i, o and u, in capitals, too",
    ),
    function(
        "mirror.py",
        "def mirror(text):\n    return text[::-1]\n",
        {"mirror('abc')": "cba"},
        "write mirror.py with a function mirror(text) that returns the text backwards",
    ),
    write("modules.txt", "shout\nvowels\nmirror", "write the names shout, vowels and mirror to modules.txt, one on each line"),
)
SHAPES = "def area(width, height):\n    return width + height\n"
add(
    "code",
    "shapes",
    "bullets",
    "Finish the shapes library, Python without imports",
    edit("shapes.py", SHAPES, "width + height", "width * height", "in shapes.py replace width + height by width * height"),
    function(
        "circle.py",
        "def diameter(radius):\n    return 2 * radius\n",
        {"diameter(4)": 8},
        "write circle.py with a function diameter(radius) that returns 2 * radius",
    ),
    function(
        "cube.py",
        "def volume(side):\n    return side ** 3\n",
        {"volume(3)": 27, "volume(1)": 1},
        "write cube.py with a function volume(side) that returns the volume of a cube",
    ),
    files={"shapes.py": SHAPES},
)

# Facts


def facts(pairs: Mapping[str, tuple[str, str]]) -> tuple[Item, ...]:
    """Files with one word each: `{path: (question, answer)}`."""
    return tuple(
        fact(path, answer, f"write {question} to {path}", f"{question} to {path}") for path, (question, answer) in pairs.items()
    )


add(
    "facts",
    "capitals",
    "commas",
    "Write only the name into each file",
    *facts(
        {
            "fact_it.txt": ("the capital of Italy", "Rome"),
            "fact_jp.txt": ("the capital of Japan", "Tokyo"),
            "fact_eg.txt": ("the capital of Egypt", "Cairo"),
            "fact_ca.txt": ("the capital of Canada", "Ottawa"),
            "fact_pt.txt": ("the capital of Portugal", "Lisbon"),
        }
    ),
)
add(
    "facts",
    "numbers",
    "numbered",
    "Only the number belongs into each file",
    *(
        number(path, value, f"write {question} to {path}")
        for path, question, value in (
            ("legs.txt", "the number of legs of a spider", 8),
            ("strings.txt", "the number of strings of a violin", 4),
            ("months.txt", "the number of months of a year", 12),
            ("sides.txt", "the number of sides of a hexagon", 6),
        )
    ),
)
add(
    "facts",
    "elements",
    "paragraphs",
    "For the chemistry poster we need the names of some elements, each as one word",
    *facts(
        {
            "el_o.txt": ("the name of the element with the symbol O", "oxygen"),
            "el_fe.txt": ("the name of the element with the symbol Fe", "iron"),
            "el_au.txt": ("the name of the element with the symbol Au", "gold"),
            "el_na.txt": ("the name of the element with the symbol Na", "sodium"),
        }
    ),
)
add(
    "facts",
    "opposites",
    "first then",
    "Write one word into each file",
    *facts(
        {
            "op_hot.txt": ("the opposite of hot", "cold"),
            "op_day.txt": ("the opposite of day", "night"),
            "op_left.txt": ("the opposite of left", "right"),
            "op_loud.txt": ("the opposite of loud", "quiet"),
            "op_full.txt": ("the opposite of full", "empty"),
            "op_north.txt": ("the opposite of north", "south"),
        }
    ),
)

SET_OF_TASK: Final[dict[str, TaskSet]] = split_in_sets(TASKS.values())
SET_OF_TASK.update(dict.fromkeys(FRESH_TASKS, "fresh"))
TASKS.update(FRESH_TASKS)
