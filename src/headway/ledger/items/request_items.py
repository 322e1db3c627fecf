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
    "record swap make"
)
EDITING_WORDS: Final = to_words("replace change edit correct rename swap")  # these need an existing file
INTO_WORDS: Final = to_words("to into onto as")
PLACE_WORDS: Final = INTO_WORDS | to_words("in called named file")
FILLERS: Final = to_words("a an the new text file called named")
LITERAL_MARKS: Final = to_words("text word words name sentence line phrase")
DESCRIBING_WORDS: Final = to_words("of from in on about that which for with")
RESTRICTING_WORDS: Final = to_words("only each every exactly plain without just single keep always never must number capitals one")
RESULT_WORDS: Final = to_words("total sum result")
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
    found = split_list(text) or split_sentences(text) or split_clauses(text)
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


def list_clauses(text: str) -> list[str]:
    words = read_words(text)
    ends = [
        word.end
        for word, following in pairwise(words)
        if (following.bare in ("and", "then", "finally") or any(mark in text[word.end : following.start] for mark in ",;"))
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


# What an item asks for


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
    words = read_words(strip_lead_in(text))
    if not any(word.path for word in words) or text.rstrip().endswith("?") or words[0].bare in QUESTION_WORDS:
        return False
    if words[0].bare == "do" and words[1:2] and words[1].bare in ("you", "i", "we", "they"):
        return False
    return has_change(words) or bool(find_destinations(words, INTO_WORDS))


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
    if end < len(words) and not destinations:
        destinations = {word.path for word in main if word.path}
    return [path for path in list_paths(text) if path not in destinations] if destinations else []


def needs_existing(text: str, path: str) -> bool:
    """Whether an item wants to change a file that must exist already."""
    return list_paths(text) == [path] and any(word.bare in EDITING_WORDS for word in read_words(text))


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
    found = find_replaced_text(text)[1] or (setting and (setting.line or setting.value)) or find_marked_text(text, words)
    if found:
        return [found]
    is_bare = len(words) > 2 and words[-1].path and words[-2].bare == "into" and not has_change(words)
    return [text[: words[-2].start].strip(CLOSING_MARKS + OPENING_MARKS + " ")] if is_bare else []


def find_replaced_text(text: str) -> tuple[str, str]:
    """Find A and B in `replace A by B in FILE`, `in FILE replace A by B` and `in FILE change … from A to B`; otherwise nothing."""
    text = strip_introduction(text[:READ_LIMIT])
    words = read_words(text)
    start = next((n for n, word in enumerate(words) if word.bare in ("replace", "change")), None)
    if start is None:
        return "", ""
    by = next((n for n, word in enumerate(words) if n > start + 1 and word.bare in ("by", "with", "to", "into")), None)
    if by is None or by + 1 >= len(words):
        return "", ""
    end = next((n for n, word in enumerate(words[:-1]) if n > by + 1 and word.bare == "in" and words[n + 1].path), None)
    is_before = any(word.bare == "in" and words[n + 1].path for n, word in enumerate(words[:start]))
    if end is None and not is_before:
        return "", ""
    origin = next((n for n in range(start + 1, by) if words[n].bare == "from"), start)
    first = next(n for n in range(origin + 1, by + 1) if words[n].bare not in ("the", *LITERAL_MARKS) or n == by)
    new = strip_marks(text[words[by + 1].start : words[end - 1].end if end else len(text)])
    return strip_marks(text[words[first].start : words[by - 1].end]), new


def find_setting(text: str) -> LineSetting | None:
    """Find `set KEY: VALUE in FILE`, also with an equals sign, `set KEY to VALUE in FILE`, and both after `in FILE`."""
    text = strip_lead_in(strip_introduction(text[:READ_LIMIT]))
    words = read_words(text)
    is_after = len(words) > 3 and words[0].bare == "in" and bool(words[1].path)
    verb = 2 if is_after else 0
    if len(words) < verb + 3 or words[verb].bare != "set":
        return None
    end = next((n for n, word in enumerate(words[:-1]) if n > verb + 1 and word.bare == "in" and words[n + 1].path), len(words))
    end = next((n for n in range(verb + 2, end) if text[words[n - 1].end : words[n].start].startswith(",")), end)
    if end == len(words) and not is_after:
        return None
    start = verb + 2 if words[verb + 1].bare == "the" else verb + 1
    stated = text[words[start].start : words[end - 1].end]
    *others, by = [0, *(n for n in range(start + 1, end - 1) if words[n].bare == "to")]
    if len(others) > 1:
        return None  # several settings
    if by:
        key, value = text[words[start].start : words[by - 1].end], text[words[by + 1].start : words[end - 1].end]
        line = text.partition("the line is ")[2] or text.partition("the line says ")[2]
        return LineSetting(strip_marks(key), strip_marks(value), strip_marks(line))
    sign = next((sign for sign in ":=" if sign in stated.rstrip(":=")), "")
    key, _, value = stated.partition(sign) if sign else ("", "", "")
    return LineSetting(key.strip(), strip_marks(value), strip_marks(stated)) if key.strip() else None


def find_marked_text(text: str, words: Sequence[Word]) -> str:
    """Find X in `the text X to FILE`."""
    for n, word in enumerate(words[:-1]):
        is_aside = text[word.start : words[n + 1].start].rstrip().endswith((",", ";"))
        if word.bare not in LITERAL_MARKS or words[n + 1].bare in DESCRIBING_WORDS or is_aside:
            continue
        for end in range(n + 2, min(n + LITERAL_WORDS, len(words) - 1)):
            if words[end].bare in ("to", "into", "in") and words[end + 1].path:
                return strip_quotes(text[words[n + 1].start : words[end - 1].end])  # its full stop belongs to it
    return ""


def strip_quotes(text: str) -> str:
    return text.strip().strip("\"'`“”")


def strip_marks(text: str) -> str:
    """Remove quotation marks around a text, and a full stop behind it."""
    return strip_quotes(text).removesuffix(".")
