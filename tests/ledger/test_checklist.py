"""Todos as a Markdown checklist: exporting and importing a tree of todos loses nothing."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.ledger import text
from headway.ledger.parsing import checklist
from headway.ledger.todo import STATUSES, Status, Todo
from tests.tables import each_row


class Tree(NamedTuple):
    subject: str
    status: Status
    description: str
    children: "list[Tree]"


def trees(words: st.SearchStrategy[str], details: st.SearchStrategy[str]) -> st.SearchStrategy[list[Tree]]:
    def extend(children: st.SearchStrategy[list[Tree]]) -> st.SearchStrategy[list[Tree]]:
        return st.lists(st.builds(Tree, words, st.sampled_from(STATUSES), details, children), min_size=1, max_size=4)

    return extend(st.recursive(st.just([]), extend, max_leaves=8))


def to_todos(forest: list[Tree]) -> list[Todo]:
    """Build the todos of these trees. Each todo depends on its children."""
    todos: list[Todo] = []

    def add(tree: Tree) -> int:
        number = len(todos) + 1
        ended = int(tree.status in ("completed", "canceled"))
        fields = (tree.subject, tree.description, "", None, tree.status)
        todo = Todo(number, f"{number}", 0, None, "index", *fields, number, None, 1, 1, 0, ended)
        todos.append(todo)
        children = tuple(add(child) for child in tree.children)
        todos[number - 1] = todo._replace(depends_on=children)
        return number

    for tree in forest:
        add(tree)
    return todos


def to_trees(items: list[checklist.ChecklistItem]) -> list[Tree]:
    forest = [Tree(item.subject, item.status, item.description, []) for item in items]
    for tree, item in zip(forest, items, strict=True):
        if item.parent is not None:
            forest[item.parent].children.append(tree)
    return [tree for tree, item in zip(forest, items, strict=True) if item.parent is None]


def shape(forest: list[Tree]) -> list[object]:
    return [(tree.status, shape(tree.children)) for tree in forest]


anything = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
fragments = st.sampled_from(["- [ ] ", "* [x] ", "```", "~~~", "> ", "#", "  ", "1. ", "[-]", "\n", "\u2028", "ready", "é", "🧭"])
hostile = st.lists(fragments | anything, max_size=4).map("".join)
printable = hostile.map(text.to_one_line)
plain_subjects = printable.map(str.strip).filter(bool)
plain_lines = st.lists(printable.map(str.rstrip), max_size=4).map("\n".join).filter(lambda said: said == "" or said.strip("\n"))
plain_details = plain_lines.map(lambda said: said.rstrip("\n"))


@settings(deadline=None)
@given(trees(plain_subjects, plain_details))
def test_a_tree_of_todos_is_the_same_after_a_round_trip_through_markdown(forest: list[Tree]) -> None:
    rendering = checklist.render(to_todos(forest))

    assert to_trees(checklist.parse(rendering.text)) == forest
    assert rendering.losses == []


@settings(deadline=None)
@given(trees(hostile.map(str.strip).filter(bool), hostile))
def test_no_text_can_forge_items_or_nesting(forest: list[Tree]) -> None:
    rendering = checklist.render(to_todos(forest))
    parsed = to_trees(checklist.parse(rendering.text))

    assert shape(parsed) == shape(forest)
    assert checklist.render(to_todos(parsed)).text == rendering.text


@settings(deadline=None)
@given(hostile)
def test_any_text_can_be_read_as_a_checklist(document: str) -> None:
    for place, item in enumerate(checklist.parse(document)):
        assert item.subject == item.subject.strip() != ""
        assert item.parent is None or item.parent < place


@each_row(
    ("line", "status"),
    [
        ("- [ ] it", "pending"),
        ("- [/] it", "in_progress"),
        ("- [x] it", "completed"),
        ("- [X] it", "completed"),
        ("- [-] it", "canceled"),
        ("* [ ] it", "pending"),
        ("+ [ ] it", "pending"),
        ("3. [ ] it", "pending"),
        ("3) [x]   it  ", "completed"),
        ("\t- [ ] it", "pending"),
    ],
)
def test_an_item_is_a_list_mark_a_box_and_a_subject(line: str, status: Status) -> None:
    assert checklist.parse(line) == [checklist.ChecklistItem("it", status, "", None)]


@each_row("line", ["it", "- it", "[ ] it", "- [] it", "- [?] it", "- [ ]", "- [ ]it", "# - [ ] it", "> - [ ] it", ""])
def test_everything_else_is_not_an_item(line: str) -> None:
    assert checklist.parse(line) == []


@each_row(
    "fenced",
    [
        "```\n- [ ] code\n```",
        "~~~ md\n- [ ] code\n~~~",
        "```\n~~~\n- [ ] code\n```",
        "````md\n```\n- [ ] code\n```\n````",
        "```\n``` python\n- [ ] code\n```",
        "  ```\n  - [ ] code\n  ```",
        "```\n- [ ] code\n````",
    ],
)
def test_fenced_code_is_not_read(fenced: str) -> None:
    assert [item.subject for item in checklist.parse(f"- [ ] before\n{fenced}\n- [ ] after\n")] == ["before", "after"]


def test_a_fence_that_is_never_closed_reaches_to_the_end() -> None:
    assert [item.subject for item in checklist.parse("- [ ] before\n```\n- [ ] code\n")] == ["before"]


def test_code_within_a_line_is_no_fence() -> None:
    assert [item.subject for item in checklist.parse("```inline``` code\n- [ ] after\n")] == ["after"]


def test_lines_below_an_item_describe_it_and_lines_beside_it_do_not() -> None:
    document = """\
# A plan
Prose that belongs to nobody.
- [ ] parent
  plain words
  > quoted words
  >
  > > a quotation
  >     code
  - [ ] child
    of the child

  again of the parent
More prose.
    not indented below anything
- [x] other
"""
    parent, child, other = checklist.parse(document)

    assert parent.description == "plain words\nquoted words\n\n> a quotation\n    code\nagain of the parent"
    assert (child.description, child.parent) == ("of the child", 0)
    assert (other.description, other.parent) == ("", None)


def test_a_heading_ends_the_nesting() -> None:
    assert [item.parent for item in checklist.parse("- [ ] a\n# Next\n  - [ ] b\n")] == [None, None]


def test_a_checklist_lists_the_fields_it_cannot_express() -> None:
    shared, first, second = to_todos([Tree(name, "pending", "", []) for name in ("shared", "first", "second")])
    first = first._replace(depends_on=(shared.id,), outcome="done so", agent_type="coder")
    second = second._replace(depends_on=(shared.id,), outcome="and so", completion_criteria="it is", conversation_id=3, turn_id="t")
    rendering = checklist.render([shared, first, second])

    assert rendering.text == "- [ ] first\n  - [ ] shared\n- [ ] second\n"
    assert rendering.losses == [
        "that several todos wait for #1 (shared)",
        "the outcome of 2 todos",
        "the completion criteria of 1 todo",
        "the agent type of 1 todo",
        "the conversation of 1 todo",
        "the turn of 1 todo",
    ]
