"""The tasks of the set `fresh`, written in many wordings by somebody who did not know the rules of Headway."""

from typing import Final

from bench.effect.tasks import Task, document, edit, edits, fact, function, impossible, number, write

SERVER: Final = 'name = "atlas"\nregion = "eu-west"\nsize = 3\n'
THERMOSTAT: Final = "mode: heating\nday: 21\nnight: 17\nholiday: off\nunit: celsius\n"
GUESTS: Final = "name,seat,meal\nHarper,12,beef\nQuinn,14,salmon\nRowan,15,pasta\nSasha,18,risotto\n"
FLYERS: Final = {  # by name: title, old and new date
    "jazz": ("Jazz Night", "4 March", "11 March"),
    "poetry": ("Poetry Slam", "6 March", "13 March"),
    "film": ("Silent Film", "7 March", "20 March"),
    "quiz": ("Village Quiz", "9 March", "18 March"),
    "comedy": ("Open Comedy", "2 March", "25 March"),
}
FLYER_FILES: Final = {f"flyer_{name}.md": f"# {title}\n\nOn {date} in the Old Mill\n" for name, (title, date, _) in FLYERS.items()}
SHELVES: Final = "item,shelf,count\nropes,B4,38\nhooks,A2,215\nnets,C1,46\nbuoys,D3,17\n"
TEAMS: Final = {
    "red": "Amir\nBea\nCarl\nDora\nEsme\n",
    "blue": "Finn\nGreta\nHenk\n",
    "green": "Ivo\nJudith\nKenji\nLouise\nMats\nNadia\n",
    "yellow": "Oskar\nPriya\nRuben\nSilvia\n",
}
DIARY: Final = {
    "monday": "Rain all day\nFixed the bicycle\nEarly to bed\n",
    "tuesday": "Lunch with Rita\nFound the blue scarf\n",
    "wednesday": "Dentist at nine\nNo holes\nIce cream as a reward\n",
    "thursday": "Painted the fence\nThe neighbours helped\nStill green fingers\n",
}
PATIENTS: Final = "Bella: cat\nRocky: dog\nCoco: rabbit\n"
OPENING_HOURS: Final = "Mon to Fri 8 to 18\nSat 9 to 12\n"
CAMP_PLAN: Final = "# Summer camp\nmeeting point: church\nleader: Toni\nnights: 3\n"
KIT: Final = "torch\nmug\nsleeping bag\nraincoat\nwhistle\n"
MEETING: Final = "Where: Room 5\nDay: Tuesday\nTime: 10:00\n"
BIRDS: Final = [
    *("robin", "wren", "heron", "osprey", "starling", "magpie", "cuckoo", "plover", "swift", "kestrel"),
    *("goldfinch", "curlew", "nuthatch", "raven", "bittern", "skylark", "dunnock", "merlin", "siskin", "jackdaw"),
]
LEVELS: Final = {  # by member: old and new level
    "adams": (2, 7),
    "baker": (1, 4),
    "costa": (3, 5),
    "dietz": (6, 8),
    "evans": (4, 9),
    "fritz": (1, 3),
    "gomez": (5, 6),
    "hayes": (2, 4),
    "ivers": (7, 9),
    "jones": (3, 8),
    "klein": (1, 6),
    "lopez": (4, 5),
    "meyer": (2, 3),
    "nolan": (5, 7),
    "ortiz": (6, 9),
}
MEMBER_FILES: Final = {
    f"member_{name}.ini": f"owner = {name.capitalize()}\nlevel = {level}\nactive = yes\n" for name, (level, _) in LEVELS.items()
}
PLATFORMS: Final = {
    "Basel": 4,
    "Bremen": 11,
    "Calais": 7,
    "Dover": 2,
    "Essen": 16,
    "Geneva": 9,
    "Ghent": 13,
    "Hamburg": 5,
    "Innsbruck": 18,
    "Leipzig": 1,
    "Milan": 12,
    "Nantes": 8,
    "Ostend": 3,
    "Prague": 21,
    "Turin": 6,
    "Vienna": 14,
}
DEPARTURES: Final = "town,time,platform\n" + "".join(
    f"{town},{8 + place // 4:02}:{place % 4 * 15:02},{platform}\n" for place, (town, platform) in enumerate(PLATFORMS.items())
)
FAHRENHEIT: Final = "def to_fahrenheit(celsius):\n    return celsius * 9 / 5 - 32\n"
CHECK_FAHRENHEIT: Final = "assert to_fahrenheit(0) == 32\nassert to_fahrenheit(37.5) == 99.5\nassert to_fahrenheit(100) == 212\n"
WEEKEND: Final = 'def is_weekend(day):\n    return day == "Saturday"\n'

TASKS_IN_ORDER: Final = (
    Task(
        "voicemail",
        "one",
        "paragraphs",
        (
            write(
                "voicemail.txt",
                "Leave your number after the beep",
                'save the line "Leave your number after the beep" as voicemail.txt',
            ),
        ),
        "Our voicemail greeting is out of date",
        {},
    ),
    Task(
        "pool",
        "one",
        "commas",
        (
            number(
                "laps.txt",
                850,
                "work out how many metres 34 lengths of a 25 metre pool are and store just the number in laps.txt",
                "34 * 25",
            ),
        ),
        "Quick one for the swimming club",
        {},
    ),
    Task(
        "server",
        "one",
        "numbered",
        (edit("server.toml", SERVER, "eu-west", "eu-north", "swap the region eu-west for eu-north in server.toml"),),
        "We moved the machine, so",
        {"server.toml": SERVER},
    ),
    Task(
        "wardrobe",
        "given",
        "numbered",
        tuple(
            write(f"drawer_{place}.txt", clothes, f"add a file drawer_{place}.txt with the word {clothes} in it")
            for place, clothes in (
                ("top", "socks"),
                ("middle", "jumpers"),
                ("bottom", "trousers"),
                ("left", "belts"),
                ("right", "scarves"),
            )
        ),
        "I'm labelling my wardrobe and want one file per drawer",
        {},
    ),
    Task(
        "shifts",
        "given",
        "paragraphs",
        tuple(
            write(f"shift_{day}.md", shift, f'note down "{shift}" in shift_{day}.md')
            for day, shift in (
                ("tuesday", "early shift"),
                ("wednesday", "late shift"),
                ("thursday", "night shift"),
                ("friday", "day off"),
            )
        ),
        "The rota for next week is out",
        {},
    ),
    Task(
        "trees",
        "given",
        "commas",
        tuple(
            write(f"tree_{letter}.txt", tree, f"fill in {tree} in tree_{letter}.txt", f"{tree} in tree_{letter}.txt")
            for letter, tree in (("a", "Scots pine"), ("b", "silver birch"), ("c", "field maple"), ("d", "copper beech"))
        ),
        "Fill in the labels for the park, nothing but the name of the tree in each file",
        {},
    ),
    Task(
        "floors",
        "computed",
        "first then",
        (
            number("floor_hall.txt", 322, "work out the area of a hall of 14 by 23 feet and save it in floor_hall.txt", "14 * 23"),
            number("floor_study.txt", 209, "calculate the area of a study of 11 by 19 feet for floor_study.txt", "11 * 19"),
            number("floor_attic.txt", 364, "put the area of an attic of 28 by 13 feet in floor_attic.txt", "28 * 13"),
            number("floor_bath.txt", 84, "save the area of a bathroom of 7 by 12 feet in floor_bath.txt", "7 * 12"),
        ),
        "We get new floors and I need the areas in square feet, only the number per file",
        {},
    ),
    Task(
        "fair",
        "computed",
        "bullets",
        (
            number("stall_cakes.txt", 470, "stall_cakes.txt: the total of 146, 89 and 235", "146 + 89 + 235"),
            number("stall_books.txt", 325, "stall_books.txt: how much of 512 is left after paying 187", "512 - 187"),
            number("stall_games.txt", 304, "stall_games.txt: the takings from 76 tickets at 4 each", "76 * 4"),
            number("stall_drinks.txt", 72, "stall_drinks.txt: the share of one class when 6 classes split 432 equally", "432 / 6"),
        ),
        "Create these files with the money from the school fair. One plain number in each, nothing else",
        {},
    ),
    Task(
        "conversions",
        "computed",
        "commas",
        tuple(
            number(path, value, f"convert {amount} ({path})", expression, f"{amount} ({path})")
            for path, value, amount, expression in (
                ("hike.txt", 420, "7 hours into minutes", "7 * 60"),
                ("growing.txt", 98, "14 weeks into days", "14 * 7"),
                ("rope.txt", 2300, "23 metres into centimetres", "23 * 100"),
                ("plank.txt", 216, "18 feet into inches", "18 * 12"),
            )
        ),
        "Convert these and save only the resulting number, each in the file named in brackets",
        {},
    ),
    Task(
        "thermostat",
        "edits",
        "paragraphs",
        edits(
            "thermostat.yaml",
            THERMOSTAT,
            {
                "raise the day temperature in thermostat.yaml from 21 to 23": (" 21", " 23"),
                "lower the night temperature in thermostat.yaml from 17 to 15": (" 17", " 15"),
                "change the mode in thermostat.yaml from heating to cooling": ("heating", "cooling"),
                'turn the line "holiday: off" of thermostat.yaml into "holiday: on"': ("holiday: off", "holiday: on"),
            },
        ),
        "My thermostat needs its summer values",
        {"thermostat.yaml": THERMOSTAT},
    ),
    Task(
        "guests",
        "edits",
        "first then",
        edits(
            "guests.csv",
            GUESTS,
            {
                "give Harper tofu instead of beef in guests.csv": ("beef", "tofu"),
                "swap Quinn's salmon for chicken in guests.csv": ("salmon", "chicken"),
                "rename Rowan to Robin in guests.csv": ("Rowan", "Robin"),
                "move Sasha from seat 18 to seat 21 in guests.csv": ("18", "21"),
            },
        ),
        "Some of the wedding guests changed their minds",
        {"guests.csv": GUESTS},
    ),
    Task(
        "flyers",
        "edits",
        "bullets",
        tuple(
            edit(path, text, old, new, f"{path}: {new} instead of {old}")
            for (path, text), (_, old, new) in zip(FLYER_FILES.items(), FLYERS.values(), strict=True)
        ),
        "All five evenings are postponed, so the dates on the flyers have to be updated",
        FLYER_FILES,
    ),
    Task(
        "shelves",
        "read",
        "paragraphs",
        (
            write(
                "shelf_ropes.txt",
                "B4",
                "look up the shelf of the ropes in shelves.csv and put only that in shelf_ropes.txt",
                reads=("shelves.csv",),
            ),
            number(
                "count_hooks.txt",
                215,
                "find the count of the hooks in shelves.csv and save only the number as count_hooks.txt",
                reads=("shelves.csv",),
            ),
            write(
                "shelf_nets.txt",
                "C1",
                "get the shelf of the nets from shelves.csv and put only that in shelf_nets.txt",
                reads=("shelves.csv",),
            ),
            number(
                "count_buoys.txt",
                17,
                "take the count of the buoys from shelves.csv and save only the number as count_buoys.txt",
                reads=("shelves.csv",),
            ),
        ),
        "I can't find anything in the boathouse",
        {"shelves.csv": SHELVES},
    ),
    Task(
        "teams",
        "read",
        "numbered",
        tuple(
            number(
                f"size_{colour}.txt",
                names.count("\n"),
                f"how many names are in team_{colour}.txt? Save the number as size_{colour}.txt",
                reads=(f"team_{colour}.txt",),
            )
            for colour, names in TEAMS.items()
        ),
        "Each team file has one name per line and I need the head counts, in digits and without any other text",
        {f"team_{colour}.txt": names for colour, names in TEAMS.items()},
    ),
    Task(
        "diary",
        "read",
        "first then",
        tuple(
            write(
                f"closing_{day}.txt",
                text.splitlines()[-1],
                f"take the last line of diary_{day}.txt and save it unchanged as closing_{day}.txt",
                reads=(f"diary_{day}.txt",),
            )
            for day, text in DIARY.items()
        ),
        "I collect the closing lines of my diary",
        {f"diary_{day}.txt": text for day, text in DIARY.items()},
    ),
    Task(
        "clinic",
        "mixed",
        "numbered",
        (
            write("waiting_room.txt", "Please ring the bell", 'make a file waiting_room.txt that says "Please ring the bell"'),
            number(
                "tablets.txt",
                42,
                "how many tablets are 3 a day for 14 days? Put only the number in tablets.txt",
                "3 * 14",
            ),
            edit(
                "patients.txt", PATIENTS, "rabbit", "hamster", "Coco is a hamster and not a rabbit, so correct that in patients.txt"
            ),
            write("hours_backup.txt", OPENING_HOURS, "duplicate hours.txt as hours_backup.txt", reads=("hours.txt",)),
            document(
                "practice.json", {"vet": "Dr Moss", "rooms": 3}, 'store the JSON {"vet": "Dr Moss", "rooms": 3} in practice.json'
            ),
            fact("young_cat.txt", "kitten", "what is a young cat called? Put that one word in young_cat.txt"),
        ),
        "A few things for the vet's practice",
        {"patients.txt": PATIENTS, "hours.txt": OPENING_HOURS},
    ),
    Task(
        "camp",
        "mixed",
        "paragraphs",
        (
            edit(
                "camp_plan.md",
                CAMP_PLAN,
                "church",
                "station",
                "move the meeting point in camp_plan.md from the church to the station",
            ),
            number(
                "sausages.txt",
                108,
                "work out how many sausages 27 children eat at 4 each and save just the number in sausages.txt",
                "27 * 4",
            ),
            write("cabin_sign.txt", "Lights out at ten", 'create cabin_sign.txt with the words "Lights out at ten"'),
            write(
                "leader.txt",
                "Toni",
                "check in camp_plan.md who the leader is and store only the name in leader.txt",
                reads=("camp_plan.md",),
            ),
            number(
                "kit_size.txt",
                5,
                "count the lines in kit_list.txt and record only the number in kit_size.txt",
                reads=("kit_list.txt",),
            ),
            fact("compass.txt", "east", "note down in compass.txt, as one word, the compass direction opposite to west"),
        ),
        "The scouts leave on Saturday and I'm behind with everything",
        {"camp_plan.md": CAMP_PLAN, "kit_list.txt": KIT},
    ),
    Task(
        "payroll",
        "impossible",
        "bullets",
        (
            number("hours_lea.txt", 82, "hours_lea.txt: the sum of 38 and 44", "38 + 44"),
            impossible("hours_max.txt", "hours_max.txt: the total of the hours in timesheet_max.csv", "timesheet_max.csv"),
            number("hours_ida.txt", 144, "hours_ida.txt: the hours of 18 days of 8 hours each", "18 * 8"),
        ),
        "Create the files with the hours of this month, a bare number in each",
        {},
    ),
    Task(
        "exhibition",
        "impossible",
        "commas",
        (
            impossible("label_1.txt", "take the title from curator_notes.md and put it in label_1.txt", "curator_notes.md"),
            write("label_2.txt", "bronze", "put the word bronze in label_2.txt"),
            write("label_3.txt", "marble", "put the word marble in label_3.txt"),
        ),
        "Three labels for the exhibition",
        {},
    ),
    Task(
        "minutes",
        "impossible",
        "first then",
        (
            write("agenda.txt", "budget and hiring", 'store the text "budget and hiring" in agenda.txt'),
            impossible("decisions.txt", "transfer the decisions from minutes_draft.txt to decisions.txt", "minutes_draft.txt"),
            edit("meeting.txt", MEETING, "Tuesday", "Thursday", "move the meeting in meeting.txt from Tuesday to Thursday"),
        ),
        "This is left over from our meeting",
        {"meeting.txt": MEETING},
    ),
    Task(
        "birds",
        "long",
        "numbered",
        tuple(write(f"ring_{place:02}.txt", bird, f"enter {bird} in ring_{place:02}.txt") for place, bird in enumerate(BIRDS, 1)),
        "Please record which bird got which ring, one word per file",
        {},
    ),
    Task(
        "levels",
        "long",
        "first then",
        tuple(
            edit(path, text, f" {old}", f" {new}", f"raise the level in {path} from {old} to {new}")
            for (path, text), (old, new) in zip(MEMBER_FILES.items(), LEVELS.values(), strict=True)
        ),
        "These members of the judo club passed their exams",
        MEMBER_FILES,
    ),
    Task(
        "platforms",
        "long",
        "bullets",
        tuple(
            number(
                f"platform_{town.lower()}.txt",
                platform,
                f"the one for {town} goes in platform_{town.lower()}.txt",
                reads=("departures.csv",),
            )
            for town, platform in PLATFORMS.items()
        ),
        "Look up in departures.csv from which platform the train to each town leaves and save just the platform number",
        {"departures.csv": DEPARTURES},
    ),
    Task(
        "helpers",
        "code",
        "numbered",
        (
            function(
                "clamp.py",
                "def clamp(value, low, high):\n    return max(low, min(value, high))\n",
                {"clamp(5, 1, 9)": 5, "clamp(0, 1, 9)": 1, "clamp(12, 1, 9)": 9},
                "create clamp.py: clamp(value, low, high) returns low if value is smaller than low, high if value is larger than "
                "high, and otherwise value",
            ),
            function(
                "initials.py",
                'def initials(name):\n    return "".join(word[0] for word in name.split())\n',
                {"initials('ada lovelace')": "al", "initials('grace brewster hopper')": "gbh"},
                "create initials.py: initials(name) returns the first letters of the words in name as one string, "
                'so initials("ada lovelace") is "al"',
            ),
            function(
                "average.py",
                "def average(numbers):\n    return sum(numbers) / len(numbers)\n",
                {"average([2, 4, 9])": 5.0, "average([1, 2])": 1.5},
                "create average.py: average(numbers) returns the sum of a list divided by its length",
            ),
        ),
        "I'm short of three Python functions, each file with just the function and without imports",
        {},
    ),
    Task(
        "bugs",
        "code",
        "paragraphs",
        (
            function(
                "fahrenheit.py",
                "def to_fahrenheit(celsius):\n    return celsius * 9 / 5 + 32\n",
                {"to_fahrenheit(0)": 32.0, "to_fahrenheit(37.5)": 99.5, "to_fahrenheit(100)": 212.0},
                "get fahrenheit.py right, so that every line of check_fahrenheit.txt holds",
                reads=("fahrenheit.py", "check_fahrenheit.txt"),
            ),
            function(
                "weekend.py",
                'def is_weekend(day):\n    return day in ("Saturday", "Sunday")\n',
                {"is_weekend('Saturday')": True, "is_weekend('Sunday')": True, "is_weekend('Monday')": False},
                "fix weekend.py, so that every line of check_weekend.txt holds",
                reads=("weekend.py", "check_weekend.txt"),
            ),
        ),
        "Two Python files return wrong results, as the checks beside them show",
        {
            "fahrenheit.py": FAHRENHEIT,
            "check_fahrenheit.txt": CHECK_FAHRENHEIT,
            "weekend.py": WEEKEND,
            "check_weekend.txt": 'assert is_weekend("Saturday")\nassert is_weekend("Sunday")\nassert not is_weekend("Monday")\n',
        },
    ),
    Task(
        "quiz",
        "facts",
        "bullets",
        (
            fact("quiz_planet.txt", "Mercury", "which planet is closest to the sun? The answer goes in quiz_planet.txt"),
            fact("quiz_ocean.txt", "Pacific", "which ocean is the largest? The answer goes in quiz_ocean.txt"),
            fact(
                "quiz_brazil.txt", "Portuguese", "which language do most people in Brazil speak? The answer goes in quiz_brazil.txt"
            ),
            fact(
                "quiz_hamlet.txt", "Shakespeare", "what is the surname of the author of Hamlet? The answer goes in quiz_hamlet.txt"
            ),
            fact("quiz_animal.txt", "giraffe", "which living animal is the tallest? The answer goes in quiz_animal.txt"),
        ),
        "I need the answer sheet for the pub quiz, one word per file",
        {},
    ),
    Task(
        "plurals",
        "facts",
        "commas",
        tuple(
            fact(f"plural_{place}.txt", plural, f"put the plural of {word} in plural_{place}.txt", f"{word} in plural_{place}.txt")
            for place, (word, plural) in enumerate(
                (("goose", "geese"), ("child", "children"), ("tooth", "teeth"), ("woman", "women")), 1
            )
        ),
        "For the English lesson, put only the plural of each word in its file",
        {},
    ),
)

FRESH_TASKS: Final = {task.name: task for task in TASKS_IN_ORDER}
