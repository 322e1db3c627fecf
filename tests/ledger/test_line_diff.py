"""Comparing texts by lines: the hunks of a unified diff turn one text into the other, whatever the texts contain."""

from hypothesis import given
from hypothesis import strategies as st

from headway.ledger.file_versions import SHOWN_LINES, Comparison, DiffLine, compare, split_lines

LINES = st.lists(st.sampled_from(["", "a", "b", "c", "}", "\r", "\u2028"]), max_size=30)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def apply(comparison: Comparison, old_text: str) -> str:
    """Apply the hunks to the old text, and check that each begins where it says."""
    old, new = split_lines(old_text), list[str]()
    at = 0
    for hunk in comparison.hunks:
        start = hunk.old_start - (1 if hunk.old_lines else 0)
        new += old[at:start]
        assert len(new) == hunk.new_start - (1 if hunk.new_lines else 0)
        expected = [join(line) for line in hunk.lines if line.kind != "added"]
        assert old[start : start + hunk.old_lines] == expected
        added = [join(line) for line in hunk.lines if line.kind != "deleted"]
        assert len(added) == hunk.new_lines
        new += added
        at = start + hunk.old_lines
    return "".join(new + old[at:])


def join(line: DiffLine) -> str:
    return line.text + ("\n" if line.has_newline else "")


@given(TEXTS, TEXTS)
def test_the_hunks_turn_the_old_text_into_the_new_one(old: str, new: str) -> None:
    comparison = compare(old, new)

    assert apply(comparison, old) == new
    assert (comparison.added + comparison.deleted == 0) == (old == new)
    assert not comparison.is_cut


def test_a_change_is_shown_with_three_lines_around_it() -> None:
    old = "".join(f"line {n}\n" for n in range(100))
    new = old.replace("line 50\n", "line fifty\n").replace("line 90\n", "")

    first, second = compare(old, new).hunks

    assert [(line.kind, line.text) for line in first.lines] == [
        ("same", "line 47"),
        ("same", "line 48"),
        ("same", "line 49"),
        ("deleted", "line 50"),
        ("added", "line fifty"),
        ("same", "line 51"),
        ("same", "line 52"),
        ("same", "line 53"),
    ]
    assert (first.old_start, first.old_lines, first.new_start, first.new_lines) == (48, 7, 48, 7)
    assert (second.old_start, second.old_lines, second.new_start, second.new_lines) == (88, 7, 88, 6)


def test_a_missing_newline_at_the_end_is_a_difference() -> None:
    (hunk,) = compare("a\nb", "a\nb\n").hunks

    assert hunk.lines[1:] == (DiffLine("deleted", "b", has_newline=False), DiffLine("added", "b"))


def test_long_texts_without_unique_lines_are_compared_in_bounded_work() -> None:
    """A comparison that tries all pairs of lines would need 10,000,000,000 steps here."""
    old, new = "a\nb\n" * 50_000, "b\nb\na\n" * 35_000

    comparison = compare(old, new)

    assert comparison.is_cut
    assert comparison.added - comparison.deleted == 5_000
    assert sum(len(hunk.lines) for hunk in comparison.hunks) <= SHOWN_LINES


def test_a_moved_part_of_a_long_text_is_found_without_replacing_the_rest() -> None:
    lines = [f"{n}\n" for n in range(20_000)]
    comparison = compare("".join(lines), "".join(lines[:5_000] + lines[5_100:] + lines[5_000:5_100]))

    assert (comparison.added, comparison.deleted) == (100, 100)


def test_one_very_long_line_is_cut() -> None:
    comparison = compare("", "x" * 2_000_000)

    assert comparison.is_cut
    assert len(comparison.hunks[0].lines[0].text) == 500_000
