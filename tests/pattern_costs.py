"""Finds regular expressions whose matching time can grow faster than the text: patterns in Python and in the page's scripts.

A backtracking matcher takes quadratic time if one piece of text can be split in many ways between two repeats, or if a search
that fails starts again in the middle of the text that a repeat has just scanned. Both are read from the parsed pattern.
"""

import re
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import product
from re import _constants as codes  # no public module has the parser
from re import _parser as parser
from typing import Any, NamedTuple

SHORT = 64  # a repeat of at most so many characters costs a constant
SEQUENCES_LIMIT = 50_000
PLAIN = frozenset(map(chr, (*range(0x180), 0x3BB, 0x2028, 0x2800, 0x3000, 0xFF21, 0x1D400, 0x1F600)))
WORD = frozenset(sign for sign in PLAIN if re.match(r"\w", sign))
Signs = frozenset[str]


class Atom(NamedTuple):
    """One character of a pattern, or a repeat of one."""

    signs: Signs
    minimum: int = 1
    is_long: bool = False
    is_possessive: bool = False
    is_end: bool = False  # matches no character, and only at the end of the text


class PatternUse(NamedTuple):
    source: str
    flags: int = 0
    searches: bool = True  # the pattern is tried at each position, not only at the first


class CostReader:
    def __init__(self, use: PatternUse) -> None:
        self.use = use
        self.problems: set[str] = set()
        self.groups: dict[int, Signs] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tree = parser.parse(use.source, use.flags)
        self.flags = self.tree.state.flags
        self.alphabet = PLAIN | frozenset(use.source)

    def find_problems(self) -> set[str]:
        if not re.search(r"[*+]|\{\d*,?\d{2,}\}|\d,\}", self.use.source):
            return set()  # nothing in it is repeated often
        for atoms in self.expand(self.tree):
            self.check_sequence(list(atoms))
        return self.problems

    def expand(self, tree: Any) -> list[tuple[Atom, ...]]:
        """Return the sequences of characters and repeats that a pattern stands for."""
        choices = [self.expand_node(code, argument) for code, argument in tree]
        count = 1
        for choice in choices:
            count *= len(choice)
        assert count < SEQUENCES_LIMIT, f"too many alternatives to read: {self.use.source[:80]}"
        return [tuple(atom for part in parts for atom in part) for parts in product(*choices)]

    def expand_node(self, code: Any, argument: Any) -> list[tuple[Atom, ...]]:
        if code in (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN):
            return [(Atom(self.list_signs(code, argument)),)]
        if code is codes.BRANCH:
            found = list(dict.fromkeys(one for branch in argument[1] for one in self.expand(branch)))
            ends: list[tuple[Atom, ...]] = [one for one in found if len(one) == 1 and one[0].is_end]
            return ends or found  # a branch that may also be the end of the text cannot fail after a repeat of everything
        if code is codes.SUBPATTERN:
            found = self.expand(argument[3])
            self.groups[argument[0]] = frozenset().union(*(atom.signs for one in found for atom in one))
            return found
        if code is codes.ATOMIC_GROUP:
            return [tuple(atom._replace(is_possessive=True) for atom in one) for one in self.expand(argument)]
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            return self.expand_repeat(argument, is_possessive=code is codes.POSSESSIVE_REPEAT)
        if code is codes.GROUPREF:
            return [(Atom(self.groups[argument]),)]
        if code is codes.AT:
            return self.expand_place(argument)
        assert code in (codes.ASSERT, codes.ASSERT_NOT), code
        return self.expand_assertion(argument, is_negative=code is codes.ASSERT_NOT)

    def expand_place(self, place: Any) -> list[tuple[Atom, ...]]:
        if place in (codes.AT_END, codes.AT_END_STRING):
            return [(Atom(frozenset(), is_end=True),)]
        if place is codes.AT_BOUNDARY:  # a word begins after something else, or ends before it
            return [(Atom(self.alphabet - WORD, minimum=-1),)]
        return [()]

    def expand_assertion(self, argument: Any, *, is_negative: bool) -> list[tuple[Atom, ...]]:
        """A look behind says what stands before the next character; a look ahead is read as a text of its own."""
        direction, inner = argument
        if direction < 0:
            signs = frozenset().union(*(atom.signs for one in self.expand(inner) for atom in one))
            return [(Atom(self.alphabet - signs if is_negative else signs, minimum=-1),)]
        return [(), *((*one, Atom(frozenset())) for one in self.expand(inner))]

    def expand_repeat(self, argument: Any, *, is_possessive: bool) -> list[tuple[Atom, ...]]:
        minimum, maximum, body = argument
        is_long = maximum is codes.MAXREPEAT or maximum > SHORT
        bodies = self.expand(body)
        if all(len(one) == 1 and not one[0].is_long and one[0].minimum == 1 for one in bodies):
            signs = frozenset().union(*(one[0].signs for one in bodies))
            return [(Atom(signs, min(minimum, 1), is_long, is_possessive),)]
        has_long = any(atom.is_long for one in bodies for atom in one)
        if is_long and not is_possessive:
            self.check_body(bodies)
        if minimum == 0 and not has_long:
            return [()]  # the text that it could match separates repeats less than nothing does
        copies = [(*first, *second) for first in bodies for second in bodies] if maximum > 1 and len(bodies) < 30 else bodies
        return [*copies, *([()] if minimum == 0 else [])]

    def check_body(self, bodies: list[tuple[Atom, ...]]) -> None:
        """A long repeat of a longer piece must know from the piece's first or last character where it begins."""
        for one in bodies:
            solid = [atom for atom in one if atom.minimum == 1 and not atom.is_end]
            others = [atom.signs for other in bodies for atom in other]
            if not any(sum(bool(atom.signs & signs) for signs in others) == len(bodies) for atom in solid):
                self.problems.add("a repeat within a repeat, without a character that separates its pieces")

    def list_signs(self, code: Any, argument: Any) -> Signs:
        signs: Signs = frozenset()
        if code is codes.ANY:
            return self.alphabet if self.flags & re.DOTALL else self.alphabet - {"\n"}
        if code in (codes.LITERAL, codes.NOT_LITERAL):
            signs = self.fold(frozenset(chr(argument)))
            return signs if code is codes.LITERAL else self.alphabet - signs
        is_negative = False
        for item, value in argument:
            if item is codes.NEGATE:
                is_negative = True
            elif item is codes.LITERAL:
                signs |= {chr(value)}
            elif item is codes.RANGE:
                signs |= list_range(*value, self.alphabet)
            else:
                signs |= list_category(value, self.alphabet)
        signs = self.fold(signs)
        return self.alphabet - signs if is_negative else signs

    def fold(self, signs: Signs) -> Signs:
        if not self.flags & re.IGNORECASE:
            return signs
        return signs | {sign.lower() for sign in signs} | {sign.upper() for sign in signs}

    def check_sequence(self, atoms: list[Atom]) -> None:
        for index, repeat in enumerate(atoms):
            if repeat.is_long and self.can_fail(repeat, atoms[index + 1 :]):
                self.check_before(repeat, atoms[:index])

    def can_fail(self, repeat: Atom, rest: list[Atom]) -> bool:
        """Whether the pattern can fail after the repeat, so that the matcher tries another split or another start."""
        if repeat.signs >= self.alphabet:
            return any(atom.minimum == 1 and not atom.is_end for atom in rest)
        return any(atom.minimum == 1 or atom.is_end for atom in rest) or not self.use.searches

    def check_before(self, repeat: Atom, before: list[Atom]) -> None:
        """Look for an earlier repeat, or a start of the search, from which the same text could be reached."""
        between: list[Signs] = []
        for atom in reversed(before):
            common = atom.signs & repeat.signs
            is_fixed = atom.is_possessive or repeat.is_possessive
            if atom.is_long and not is_fixed and common and all(signs & common for signs in between):
                self.problems.add(f"two repeats can share {show(common)}")
                return
            if atom.minimum != 0 and not atom.is_end:
                between.append(atom.signs)
            if between and not between[-1] & repeat.signs:
                return
        is_anchored = bool(self.tree.data) and self.tree.data[0][0] is codes.AT and self.tree.data[0][1] in ANCHORS
        if self.use.searches and not (is_anchored and not self.flags & re.MULTILINE):
            self.problems.add(f"a search can start again within {show(repeat.signs)}")


ANCHORS = (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING)


@cache
def list_range(first: int, last: int, alphabet: Signs) -> Signs:
    return frozenset(sign for sign in alphabet if first <= ord(sign) <= last) | {chr(first)}


@cache
def list_category(category: Any, alphabet: Signs) -> Signs:
    letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[category.name.split("_")[-1]]
    pattern = re.compile(f"\\{letter.upper() if '_NOT_' in category.name else letter}")
    return frozenset(sign for sign in alphabet if pattern.match(sign))


def show(signs: Signs) -> str:
    return f"{''.join(sorted(signs)[:6])!r}{'…' if len(signs) > 6 else ''}"


def find_problems(use: PatternUse) -> set[str]:
    return CostReader(use).find_problems()


# Regular expressions in JavaScript

LITERAL = re.compile(r"(?:^|[(=,\[:!&|?;])\s*/(?![/*])((?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)/([a-z]*)")


def list_javascript_patterns(script: str) -> Iterator[PatternUse]:
    for line in script.split("\n"):
        code = line.strip()
        if not code.startswith(("//", "/*", "*")):
            for match in LITERAL.finditer(code.partition(" // ")[0]):
                yield PatternUse(translate_javascript(match[1]), re.IGNORECASE if "i" in match[2] else 0)


def translate_javascript(source: str) -> str:
    """Write a pattern as Python does. The classes of Unicode become letters, which they overlap with."""
    return re.sub(r"\\[pu]\{[^}]*\}", r"\\w", source.replace(r"\/", "/"))
