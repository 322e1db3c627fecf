"""A request as items: what it asks for, and the files that it names.

These are rules for plain English. A text that none of them fits is one item that names nothing, and is then handled as any answer.
They work on words, so that no text can make them slow.
"""

import posixpath
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

READ_LIMIT: Final = 20_000  # characters of a request that are parsed
ITEMS_LIMIT: Final = 50
INTRODUCTION_END: Final = ":\n"  # between what several items share and the item itself
PIECES_LIMIT: Final = 300
LITERAL_WORDS: Final = 60

WORD: Final = re.compile(r"[^\s,;]++")
OPENING_MARKS: Final = "(['\"`“‘<"
CLOSING_MARKS: Final = ".,;:!?)]'\"`”’>"


def to_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


EXTENSIONS: Final = to_words(
    "txt md rst csv tsv json jsonl yaml yml toml ini cfg conf env xml html htm css scss svg log sql tex bib ics py pyi ipynb js "
    "mjs cjs ts tsx jsx vue go rs rb php java kt c h cc cpp hpp cs swift lua pl r jl sh bash zsh ps1 bat diff patch lock gradle "
    "tf proto graphql srt vtt rtf"
)
LIBRARIES: Final = to_words(
    "node.js next.js vue.js nuxt.js react.js express.js three.js d3.js angular.js backbone.js ember.js p5.js"
)
LEAD_INS: Final = (
    *("it would help if you could", "it would be nice if you could", "it would be good if you could", "i would like you to"),
    *("i also need you to", "we also need you to", "i want you to", "i need you to", "we need you to", "after that", "let us"),
    *("can you", "could you", "would you", "will you", "please", "kindly", "also", "and", "then", "afterwards", "first", "firstly"),
    *("second", "secondly", "third", "next", "finally", "lastly", "now", "let's"),
)
# An instruction that begins with one of these asks for words, not for a changed file.
QUESTION_WORDS: Final = to_words(
    "what how why which who whose when where is are was were does did should explain describe tell say show answer"
)
TELLING_WORDS: Final = to_words("tell explain answer reply")
CHANGING_WORDS: Final = to_words(
    "write rewrite save store put create add append prepend insert copy replace change edit update correct fix rename move delete "
    "remove repair generate produce draft compose export convert translate fill set implement refactor extend complete sort merge "
    "record swap make note jot enter raise lower increase decrease reduce bump switch turn adjust modify amend substitute exchange "
    "summarise summarize erase cross tick"
)
# These change a file only as the first word of an instruction, because elsewhere they may be names of things.
OPENING_WORDS: Final = to_words(
    "strike cut double halve spell shorten clear empty wipe reset revert enable disable toggle reword polish prefix indent reorder "
    "rearrange"
)
REPLACING_WORDS: Final = to_words("replace change swap substitute exchange rename correct")
ADJUSTING_WORDS: Final = to_words("raise lower increase decrease reduce bump switch turn adjust modify amend move")
EDITING_WORDS: Final = REPLACING_WORDS | (ADJUSTING_WORDS - {"move"}) | to_words("edit correct")  # these need an existing file
SETTING_WORDS: Final = ADJUSTING_WORDS | to_words("set change update")
BY_WORDS: Final = to_words("by with to into for")
RECORDING_WORDS: Final = to_words("write save store put note record enter")
RANGE_WORDS: Final = to_words("every each all any")
SPEAKERS: Final = to_words("i you we they it")
NO_STATE_WORDS: Final = to_words("not pass work run stay remain exist you i we they")  # after `should`: nothing is to be changed
CALCULATING_WORDS: Final = to_words("calculate compute work count")
CREATING_WORDS: Final = to_words(
    "create make generate produce draft compose fill list summarise summarize translate convert compute calculate"
)
VALUE_WORDS: Final = to_words("be become cost read say")  # after `should`: a value follows
INTO_WORDS: Final = to_words("to into onto as")
PLACE_WORDS: Final = INTO_WORDS | to_words("in called named file")
FILLERS: Final = to_words("a an the new text file called named")
LITERAL_MARKS: Final = to_words("text word words name sentence line phrase")
SAYING_WORDS: Final = to_words("says saying reads reading")
ASKING_WORDS: Final = to_words("that how what which who where when why")
RESULT_WORDS: Final = to_words("total sum result")
# A text beside one of these is not what the file must say, as in `translate the word house`.
WORKING_WORDS: Final = to_words(
    "translate convert reverse spell count repeat define look find read capitalise capitalize backwards reversed capital capitals "
    "uppercase lowercase twice times"
)
COMBINED_WORDS: Final = RESULT_WORDS | to_words("product difference quotient average")
DESCRIBING_WORDS: Final = to_words("of from in on about that which for with saying describing explaining telling")
RESTRICTING_WORDS: Final = to_words("only each every exactly plain without just single keep always never must number capitals one")
REFERRING_WORDS: Final = to_words("it its them their these those this that both above previous same result results earlier other")
# A word before "that" which does not make it a relative pronoun, as in `the season that follows`
BEFORE_PRONOUN: Final = to_words("write copy put add save move append of from with to into in on and by than use do after before")
STATED_SUBJECTS: Final = to_words("the there this these our my we i a an all each every it its")
STATING_WORDS: Final = to_words("is are was were has have holds contains lists shows says stands stand")
REFERRING_RANGE: Final = 25  # characters at the beginning


class Word(NamedTuple):
    start: int
    end: int
    bare: str  # without marks, in small letters
    path: str  # the file that it names


class LineSetting(NamedTuple):
    """What `set KEY to VALUE in FILE` asks for."""

    key: str
    value: str
    line: str  # the whole line, if the request says it


class RequestItems(NamedTuple):
    introduction: str  # what comes before the items and holds for all of them
    items: tuple[str, ...]  # empty if the request is one piece of work


def read_words(text: str) -> list[Word]:
    words = []
    for match in WORD.finditer(text[:READ_LIMIT]):
        bare = match[0].lstrip(OPENING_MARKS).rstrip(CLOSING_MARKS)
        words.append(Word(match.start(), match.end(), bare.lower(), to_path(bare)))
    return words


def to_path(word: str) -> str:
    """Return the path if a word names a file, otherwise nothing."""
    stem, _, extension = word.rpartition(".")
    is_file = extension.lower() in EXTENSIONS and bool(stem.strip("./")) and word.lower() not in LIBRARIES
    is_plain = all(sign.isalnum() or sign in "_-./" for sign in word) and "//" not in word and not word.startswith("www.")
    return normalise(word) if is_file and is_plain else ""


def normalise(path: str) -> str:
    return posixpath.normpath(path.strip()).lstrip("/")


def list_paths(text: str) -> list[str]:
    """List the files that a text names, each once."""
    return list(dict.fromkeys(word.path for word in read_words(text) if word.path))


# Splitting


def split_request(request: str) -> RequestItems:
    """Split a request into items, if it clearly asks for several."""
    text = request[:READ_LIMIT].strip()
    found = split_list(text) or split_sentences(text) or split_clauses(text) or split_files(text)
    if found is None or not 2 <= len(found.items) <= ITEMS_LIMIT:
        return RequestItems("", ())
    return found


def split_list(text: str) -> RequestItems | None:
    """Split at the marks of a list. A list that is the content of one file is not split."""
    lines = text.split("\n")
    items = [read_list_item(line.strip()) for line in lines]
    first = next((number for number, item in enumerate(items) if item), 0)
    found = tuple(item for item in items if item)
    introduction = "\n".join(lines[:first]).strip()
    if len(found) < 2 or (changes_file(introduction) and not any(map(list_paths, found))):
        return None
    return RequestItems(introduction, found)


def read_list_item(line: str) -> str:
    """Return the text of a line that is an item of a list."""
    mark, _, rest = line.partition(" ")
    number = mark.removeprefix("(").rstrip(".)")
    is_marked = mark in ("-", "*", "•", "+") or (mark != number and number.isdigit() and len(number) <= 3)
    rest = rest.strip()
    return rest.removeprefix("[ ]").removeprefix("[x]").removeprefix("[X]").strip() if is_marked else ""


def split_sentences(text: str) -> RequestItems | None:
    """Split where each sentence asks for a change of a file. A sentence that does not belongs to the next one that does.

    Sentences that come first and name no file, or say only what a file has, introduce all items.
    """
    words = read_words(text)
    ends = [
        word.end
        for word, following in pairwise(words)
        if (text[word.end - 1] in ".!?" and text[following.start].isupper()) or "\n\n" in text[word.end : following.start]
    ]
    sentences = cut(text, ends)
    first = next((number for number, sentence in enumerate(sentences) if list_paths(sentence) and not is_statement(sentence)), 0)
    items = join_pieces(sentences[first:])
    return RequestItems(" ".join(sentences[:first]), items) if len(items) > 1 else None


def is_statement(sentence: str) -> bool:
    """Whether a sentence only says something about a file, as `The prices are in shop.txt.` does."""
    words = read_words(sentence)
    has_subject = words[0].bare in STATED_SUBJECTS or bool(words[0].path)
    return has_subject and any(word.bare in STATING_WORDS for word in words) and not changes_file(sentence)


def split_clauses(text: str) -> RequestItems | None:
    """Split one sentence that names several changes, such as `Do this: a, b and c`."""
    introduction, colon, rest = text.partition(":")
    items = join_pieces(list_clauses(rest)) if colon else ()
    if len(items) > 1:
        return RequestItems(introduction.strip(), items)
    items = join_pieces(list_clauses(text))
    return RequestItems("", items) if len(items) > 1 else None


def split_files(text: str) -> RequestItems | None:
    """Split a last sentence that names one file in each clause, as `Put sun in a.txt, moon in b.txt and star in c.txt` does."""
    words = read_words(text)
    first = next((n for n, word in enumerate(words) if word.path), 0)
    start = next((words[n].end for n in range(first - 1, -1, -1) if text[words[n].end - 1] in ".?!:"), 0)
    introduction, pieces = text[:start].strip(" :"), list_clauses(text[start:])
    pieces = [remove_joint(piece) for piece in pieces]
    named = [list_paths(piece) for piece in pieces]
    lead = read_words(strip_lead_in(pieces[0]))[:1]
    verb = lead[0].bare if lead and lead[0].bare in CHANGING_WORDS else "write"
    is_asked = verb != "write" or bool(introduction)
    says_how = verb == "write" and bool(introduction) and has_change(read_words(introduction))  # then it belongs to each item
    if not is_asked or any(len(paths) != 1 for paths in named) or len({paths[0] for paths in named}) < len(named):
        return None
    if not all(map(is_for_file, pieces)) or any(has_change(read_words(piece)) for piece in pieces[1:]):
        return None
    items = (piece if says_how or has_change(read_words(piece)) else f"{verb} {piece}" for piece in pieces)
    return RequestItems(introduction, tuple(item.rstrip(" .") for item in items))


def is_for_file(piece: str) -> bool:
    """Whether a clause is `… in FILE` or `FILE with …`."""
    words = read_words(piece)
    is_first = len(words) > 2 and bool(words[0].path) and words[1].bare in ("with", "containing", "saying")
    is_last = len(words) > 2 and bool(words[-1].path) and (words[-2].bare in PLACE_WORDS or piece[words[-1].start] == "(")
    return is_first or is_last


def list_clauses(text: str) -> list[str]:
    words = read_words(text)
    ends = [
        word.end
        for word, following in pairwise(words)
        if (following.bare in ("and", "then", "finally") or any(mark in text[word.end : following.start] for mark in ",;"))
        and following.bare not in INTO_WORDS
        and not is_quoted(text, word.end)
    ]
    return [piece.strip(" ,;") for piece in cut(text, ends)]


def is_quoted(text: str, position: int) -> bool:
    return text.count('"', 0, position) % 2 == 1 or text.count("“", 0, position) > text.count("”", 0, position)


def cut(text: str, ends: Sequence[int]) -> list[str]:
    if len(ends) > PIECES_LIMIT:
        return [text]
    return [text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def join_pieces(pieces: Sequence[str]) -> tuple[str, ...]:
    """Join pieces until each changes a file by itself."""
    items: list[str] = []
    rest = ""
    for piece, following in pair(pieces):
        rest = f"{rest} {piece}" if rest else piece
        if changes_file(rest) and not (
            is_calculation(rest) and RESULT_WORDS.intersection(word.bare for word in read_words(following))
        ):
            items.append(remove_joint(rest))
            rest = ""
    if rest and items:
        items[-1] = f"{items[-1]} {rest}"
    return tuple(item.rstrip(" .") for item in items)


def is_calculation(piece: str) -> bool:
    """Whether a clause may be a calculation, as `add the amounts in bill.txt` is before `and write the total to a.txt`."""
    words = read_words(strip_lead_in(piece))
    return bool(words) and words[0].bare == "add" and not find_destinations(words, INTO_WORDS)


def remove_joint(piece: str) -> str:
    """Remove the `and` or `then` that joined a clause to the one before it."""
    for joint in ("and ", "then ", "finally "):
        piece = piece.removeprefix(joint)
    return piece


# The kind of an item


def strip_lead_in(text: str) -> str:
    """Remove words such as "Then, please" from the beginning."""
    text = text.strip()
    while lead_in := find_lead_in(text):
        text = text[len(lead_in) :].lstrip(" ,:\n")
    return text


def find_lead_in(text: str) -> str:
    beginning = text[:40].lower()
    return next((one for one in LEAD_INS if beginning.startswith(one) and beginning[len(one) : len(one) + 1] in (" ", ",")), "")


def changes_file(text: str) -> bool:
    """Whether a text asks for the change of a file that it names."""
    text = text[:READ_LIMIT]
    question, _, rest = text.rpartition("? ")
    if question and not list_paths(question):
        text = rest  # as in `How much is 3 times 4? Save it in a.txt`
    words = read_words(strip_lead_in(text))
    if not any(word.path for word in words) or text.rstrip().endswith("?") or words[0].bare in QUESTION_WORDS:
        return False
    if words[0].bare == "do" and words[1:2] and words[1].bare in SPEAKERS:
        return False
    return (
        has_change(words)
        or opens_change(read_own_words(text))
        or bool(find_heading(text))
        or has_wanted_state(words)
        or bool(find_destinations(words, INTO_WORDS))
    )


def opens_change(words: Sequence[Word]) -> bool:
    """Whether an instruction begins as `double …`, `in FILE double …`, `get FILE right` or `calculate … for FILE`."""
    bare = [word.bare for word in words] or [""]
    is_opened = bare[0] in OPENING_WORDS or (bare[0] == "in" and bare[2:3] != [] and bare[2] in OPENING_WORDS)
    return is_opened or (bare[0] == "get" and "right" in bare) or (bare[0] in CALCULATING_WORDS and "for" in bare)


def has_wanted_state(words: Sequence[Word]) -> bool:
    """Whether the words say how something should be, as `the port in app.ini should be 90` does, but not `I think it should`."""
    return words[0].bare not in SPEAKERS and any(
        (word.bare == "should" and after.bare not in NO_STATE_WORDS)
        or (word.bare == "instead" and after.bare == "of")
        or (word.bare in ("goes", "belongs") and after.bare in PLACE_WORDS)
        for word, after in pairwise(words)
    )


def find_heading(text: str) -> str:
    """Return the file in `FILE: …`."""
    return to_path(strip_lead_in(strip_introduction(text)).partition(":")[0].strip()) if ":" in text else ""


def read_own_words(text: str) -> list[Word]:
    """Read the words of an item without its introduction and lead-in."""
    return read_words(strip_lead_in(strip_introduction(text)))


def has_change(words: Sequence[Word]) -> bool:
    """Whether one of the words is a verb that changes something."""
    following = [*(word.bare for word in words[1:]), ""]
    return any(word.bare in CHANGING_WORDS and after != "sure" for word, after in zip(words, following, strict=True))


def find_destinations(words: Sequence[Word], prepositions: Iterable[str]) -> set[str]:
    """Find the files that come after a preposition, and those that `and` or a comma adds to one."""
    found: set[str] = set()
    is_open = False
    for word in words:
        if word.path and is_open:
            found.add(word.path)
        elif word.bare in prepositions:
            is_open = True
        elif not (is_open and (word.bare in FILLERS or (found and word.bare == "and"))):
            is_open = False
    return found


def asks_for_words(text: str) -> bool:
    """Whether the user expects an answer in words."""
    return "?" in text or not changes_file(text) or has_telling_word(text)


def has_telling_word(text: str) -> bool:
    words = [word.bare for word in read_words(text)]
    return any(
        word in TELLING_WORDS or (word in ("report", "show", "let") and after in ("me", "us")) for word, after in pair(words)
    )


def pair(words: Sequence[str]) -> Iterable[tuple[str, str]]:
    return zip(words, [*words[1:], ""], strict=True)


def list_sources(text: str) -> list[str]:
    """List the files that an item takes something from, as far as its words show."""
    words = read_words(text)
    end = next((n for n, word in enumerate(words[:-1]) if word.bare == "so" and words[n + 1].bare == "that"), len(words))
    main = words[:end]  # what it is for follows, as in `correct a.py so that the tests in b.py pass`
    destinations = find_destinations(main, INTO_WORDS) or find_destinations(main, PLACE_WORDS)
    verb = next((word.bare for word in read_own_words(text)), "")
    if heading := find_heading(text):
        destinations = {heading}
    elif not destinations and verb in CALCULATING_WORDS:
        destinations = find_destinations(main, ("for",))
    if len(destinations) > 1 and verb in RECORDING_WORDS and not any(word.bare == "and" for word in main):
        destinations = {path for path in list_paths(text) if path in destinations and path not in list_paths(text)[:-1]}
    if end < len(words) and not destinations:
        destinations = {word.path for word in main if word.path}
    return [path for path in list_paths(text) if path not in destinations] if destinations else []


def needs_existing(text: str, path: str) -> bool:
    """Whether an item wants to change a file that must exist already."""
    return list_paths(text) == [path] and any(word.bare in EDITING_WORDS for word in read_words(text))


def is_inside(text: str, path: str) -> bool:
    """Whether an item names its only file with `in` and does not ask for a new text: it changes a part of that file."""
    words = read_own_words(text)
    is_in = any(word.bare == "in" and after.path == path for word, after in pairwise(words))
    creates = any(word.bare in RECORDING_WORDS | CREATING_WORDS for word in words)
    return is_in and not creates and list_paths(text) == [path]


def concerns_item(introduction: str, item: str) -> bool:
    """Whether an item needs its introduction: for a file, a restriction such as `Write one word into each file`, or a verb."""
    has_file = not set(list_paths(introduction)) <= set(list_paths(item))
    restricts = any(word.bare in RESTRICTING_WORDS for word in read_words(introduction))
    return has_file or restricts or not has_change(read_words(item))


def strip_introduction(text: str) -> str:
    return text.rpartition(INTRODUCTION_END)[2]


def split_introduction(items: Sequence[str]) -> tuple[str, list[str]]:
    """Return the introduction that all items share, and the items without it and without words such as "Then"."""
    introductions = {item.rpartition(INTRODUCTION_END)[0] for item in items}
    if len(introductions) == 1:
        return introductions.pop(), [strip_lead_in(strip_introduction(item)) for item in items]
    return "", [strip_lead_in(item) for item in items]


def refers_back(text: str) -> bool:
    """Whether an item can only be understood with the rest of the request."""
    words = [word.bare for word in read_words(strip_lead_in(strip_introduction(text))[:REFERRING_RANGE])]
    is_relative = "that" in words and words.index("that") > 0 and words[words.index("that") - 1] not in BEFORE_PRONOUN
    return not REFERRING_WORDS.isdisjoint(set(words) - {"that"} if is_relative else words)


def stands_alone(text: str) -> bool:
    """Whether an item changes a file and can be understood without the rest of the request."""
    return changes_file(text) and not refers_back(text)


# The texts that an item says literally


def list_literals(text: str) -> list[str]:
    """List the texts that an item says literally, and that the file must contain afterwards."""
    text = strip_introduction(text[:READ_LIMIT])
    words = read_words(text)
    setting = find_setting(text)
    old, new = find_replaced_text(text)
    found = (new if old else "") or (setting.line if setting else "" if new else find_marked_text(text, words))
    if found:
        return [found]
    is_bare = len(words) > 2 and words[-1].path and words[-2].bare == "into" and not has_change(words)
    return [text[: words[-2].start].strip(CLOSING_MARKS + OPENING_MARKS + " ")] if is_bare else []


def strip_place(text: str) -> list[str]:
    """Return a text without its first `in FILE`: the words before it, then these with the words after it."""
    words = read_words(text)
    for n, word in enumerate(words[:-1]):
        end = (
            next((later for later in range(n + 1, len(words)) if words[later].bare not in FILLERS), n)
            if word.bare in ("in", "of")
            else n
        )
        if end > n and words[end].path:
            before, after = text[: word.start].strip(), text[words[end].end :].lstrip(" ,")
            return [before, f"{before} {after}"] if before else [after]
    return []


def find_replaced_text(text: str) -> tuple[str, str]:
    """Find A and B in `replace A by B in FILE`, `in FILE replace A by B` and `in FILE change … from A to B`; otherwise nothing.

    Only B is known where A is described, as in `change the title to B in FILE`.
    """
    stated = strip_place(strip_introduction(text[:READ_LIMIT]))
    return next((found for part in stated if any(found := parse_replacement(part))), ("", ""))


def parse_replacement(text: str) -> tuple[str, str]:
    words = read_words(text)
    if instead := next((n for n in range(1, len(words) - 2) if words[n].bare == "instead" and words[n + 1].bare == "of"), 0):
        old = text[words[instead + 2].start :]
        first = max(instead - len(old.split()), 0)
        return strip_marks(old), strip_marks(text[words[first].start : words[instead - 1].end])
    verbs = REPLACING_WORDS | ADJUSTING_WORDS
    start = next((n for n, word in enumerate(words) if word.bare in verbs), len(words))
    origin = next((n for n in range(start + 1, len(words)) if words[n].bare == "from"), start)
    by = next((n for n in range(origin + 2, len(words) - 1) if words[n].bare in BY_WORDS), 0)
    if not by or (origin == start and words[start].bare in ADJUSTING_WORDS):
        return "", ""
    first = next(n for n in range(origin + 1, by + 1) if words[n].bare not in ("the", *LITERAL_MARKS) or n == by)
    old, new = text[words[first].start : words[by - 1].end], strip_marks(text[words[by + 1].start :])
    if words[first - 1].bare == "the":
        new = new.removeprefix("the ")
    if words[first].bare in RANGE_WORDS:
        return "", ""
    is_described = words[start].bare in ("change", "correct") and origin == start and words[first - 1].bare == "the"
    return ("" if is_described and strip_quotes(old) == old else strip_marks(old)), new


def find_setting(text: str) -> LineSetting | None:
    """Find `set KEY: VALUE in FILE`, `set KEY to VALUE in FILE` and `KEY should be VALUE in FILE`, with `in FILE` in any place."""
    text = strip_lead_in(strip_introduction(text[:READ_LIMIT]))
    found = next((found for part in strip_place(text) if (found := parse_setting(part))), None)
    line = text.partition("the line is ")[2] or text.partition("the line says ")[2]
    return found._replace(line=strip_marks(line)) if found and line else found


def is_joint(word: str, after: str) -> bool:
    """Whether two words stand between a key and its value."""
    return word == "should" and after in VALUE_WORDS


def parse_setting(text: str) -> LineSetting | None:
    words = read_words(text)
    wanted = next((n for n in range(1, len(words) - 2) if is_joint(words[n].bare, words[n + 1].bare)), 0)
    is_set = bool(words) and words[0].bare in SETTING_WORDS
    if len(words) < 3 or not (wanted or is_set):
        return None
    start = 0 if wanted else 1
    start += words[start].bare == "the"
    end = next((n for n in range(start + 2, len(words)) if text[words[n - 1].end : words[n].start].startswith(",")), len(words))
    if words[start].bare in RANGE_WORDS:
        return None
    joints = [wanted] if wanted else [n for n in range(start + 1, end - 1) if words[n].bare == "to"]
    if len(joints) > 1:
        return None  # several settings
    if joints:
        [by] = joints
        key = text[words[start].start : words[by - 1].end].partition(" from ")[0]
        value = text[words[by + (2 if wanted else 1)].start : words[end - 1].end]
        return LineSetting(strip_marks(key), strip_marks(value), "")
    stated = text[words[start].start : words[end - 1].end] if words[0].bare == "set" else ""
    sign = next((sign for sign in ":=" if sign in stated.rstrip(":=")), "")
    key, _, value = stated.partition(sign) if sign else ("", "", "")
    return LineSetting(key.strip(), strip_marks(value), strip_marks(stated)) if key.strip() else None


def find_marked_text(text: str, words: Sequence[Word]) -> str:
    """Find X in `the text X to FILE`, `FILE with the text X`, `FILE that says X` and `"X" to FILE`."""
    if any(word.bare in WORKING_WORDS for word in words[:LITERAL_WORDS]):
        return ""
    for n, word in enumerate(words[:-1]):
        following = words[n + 1]
        is_aside = text[word.start : following.start].rstrip().endswith((",", ";"))
        is_last = not any(later.path for later in words[n + 1 : n + LITERAL_WORDS])
        is_saying = word.bare in SAYING_WORDS and (word.bare.endswith("ing") or words[n - 1].bare in ("that", "which"))
        if is_saying and is_last and following.bare not in ASKING_WORDS:
            said = strip_quotes(text[following.start :])
            return said if words[n - 1].path or words[n - 2].path or not said[:1].islower() else ""
        quoted = text[following.start :].split('"', 2)
        if word.bare in LITERAL_MARKS and len(quoted) == 3 and not quoted[0]:
            return quoted[1]
        if word.bare not in LITERAL_MARKS or following.bare in DESCRIBING_WORDS or is_aside:
            continue
        if is_last and n > 1 and words[n - 1].bare == "the" and words[n - 2].bare == "with":
            said, _, _ = text[following.start :].partition(" in it")
            return strip_quotes(said)
        for end in range(n + 2, min(n + LITERAL_WORDS, len(words) - 1)):
            if words[end].bare in ("to", "into", "in") and words[end + 1].path:
                return strip_quotes(text[following.start : words[end - 1].end])  # its full stop belongs to it
    return find_quoted_text(text) or find_given_value(text, words)


def find_given_value(text: str, words: Sequence[Word]) -> str:
    """Find 42 in `write the number 42 to FILE`."""
    beginning = [word.bare for word in words[:3]]
    end = next((n for n, word in enumerate(words[:-1]) if word.bare in ("to", "into", "in") and words[n + 1].path), 0)
    if len(beginning) < 3 or end not in (4, 5) or beginning[0] not in RECORDING_WORDS or beginning[1] != "the":
        return ""
    value = strip_quotes(text[words[3].start : words[end - 1].end])
    is_value = value[:1].isdigit() and not any(sign in value for sign in "+*/×=")
    return value if is_value and beginning[2] not in COMBINED_WORDS else ""


def find_quoted_text(text: str) -> str:
    """Find X in `write "X" to FILE`."""
    plain = text.replace("“", '"').replace("”", '"')
    pieces = plain.split('"')
    if len(pieces) != 3:
        return ""
    before, after = read_words(strip_lead_in(pieces[0])), read_words(pieces[2])
    is_written = len(before) == 1 and before[0].bare in RECORDING_WORDS
    is_placed = len(after) > 1 and after[0].bare in ("to", "into", "in") and any(word.path for word in after[1:4])
    return pieces[1] if is_written and is_placed else ""


def strip_quotes(text: str) -> str:
    return text.strip().strip("\"'`“”")


def strip_marks(text: str) -> str:
    """Remove quotation marks around a text, and a full stop behind it."""
    return strip_quotes(text).removesuffix(".")
