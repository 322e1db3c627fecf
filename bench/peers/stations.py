"""The job of the token benchmarks: read many files, note one fact of each, and report all of them.

Every file has two facts. The code is asked for, and an agent notes it when it reads the file. The keeper is not asked for: it shows
whether what was read is still in view at the end.
"""

import random
import re
from pathlib import Path

MODEL = "gpt-4.1"  # its window of a million tokens lets every agent keep everything
SIZES = (8, 2, 14, 20, 4, 10, 16, 6, 18, 12)  # KB; any ten files in a row have the same total
CODE = re.compile(r"The code of station (\d+) is ([A-Z]{2}-\d{4}-[A-Z])\.")
ENTRIES = (
    "the wind came from the {direction} at {number} knots, and the sea was {state}",
    "the lamp was trimmed after {number} hours and burned {state} until the morning",
    "a {ship} passed at a distance of {number} miles, bound for the {direction}",
    "the barometer fell by {number} points, so the boat was hauled up to the {direction} shed",
    "{number} barrels of oil were landed from the {ship} and stored on the {direction} side",
    "the fog signal sounded for {number} minutes while a {ship} lay off the {direction} reef",
)
DIRECTIONS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")
STATES = ("calm", "clear", "rough", "steady", "uneven", "bright", "moderate", "heavy")
SHIPS = ("schooner", "collier", "steam packet", "fishing smack", "mail boat", "pilot cutter", "barque", "tender")


def write_files(folder: Path, steps: int) -> None:
    """Write the files of a job into the folder `stations`."""
    for station in range(1, steps + 1):
        path = folder / name_file(station)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(write_log(station), encoding="utf-8")


def name_file(station: int) -> str:
    return f"stations/{station:02}.md"


def find_station(path: str) -> int:
    """Return the number of the station that a path names."""
    return int(Path(path).stem)


def write_request(steps: int) -> str:
    return (
        f"Read the {steps} log books {name_file(1)} to {name_file(steps)}, one after the other, and note the code of each station. "
        "Plan it, a step for each file. At the end report all codes."
    )


def name_step(station: int) -> str:
    return f"Note the code in {name_file(station)}"


def state_code(station: int) -> str:
    source = random.Random(f"code {station}")
    letters = [source.choice("ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(3)]
    return f"The code of station {station:02} is {letters[0]}{letters[1]}-{source.randrange(1000, 10000)}-{letters[2]}."


def state_keeper(station: int) -> str:
    source = random.Random(f"keeper {station}")
    names = [source.choice(("Ash", "Bel", "Cor", "Dun", "Elm", "Fen", "Gar", "Hol", "Ive", "Kel")) for _ in range(2)]
    return f"The keeper of station {station:02} is {names[0]}{names[1].lower()}, number {source.randrange(100, 1000)}."


def report_codes(steps: int) -> str:
    return "\n".join(state_code(station) for station in range(1, steps + 1))


def write_log(station: int) -> str:
    """Write a log book with both facts somewhere inside, in lines of about a hundred characters."""
    source, size = random.Random(station), SIZES[(station - 1) % len(SIZES)] * 1024
    lines: list[str] = [f"# Log of station {station:02}", ""]
    length = 0
    while length < size:
        words = {"direction": source.choice(DIRECTIONS), "state": source.choice(STATES), "ship": source.choice(SHIPS)}
        entry = source.choice(ENTRIES).format(number=source.randrange(2, 60), **words)
        hour = f"{source.randrange(24):02}:{source.choice((0, 15, 30, 45)):02}"
        lines.append(f"Day {len(lines)}, {hour}: {entry}.")
        length += len(lines[-1]) + 1
    lines.insert(2 + int(len(lines) * source.uniform(0.1, 0.4)), state_keeper(station))
    lines.insert(2 + int(len(lines) * source.uniform(0.4, 0.9)), state_code(station))
    return "\n".join(lines) + "\n"
