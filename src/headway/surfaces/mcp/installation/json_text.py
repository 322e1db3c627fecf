"""Changes one member of a JSON file and leaves the rest of its text alone, with comments and trailing commas (JSONC)."""

import json
import re
from typing import Any, Final, NamedTuple

from headway.ledger.errors import BadDocument

STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
SCALAR: Final = re.compile(r"[A-Za-z0-9+.-]+")
DEPTH_LIMIT: Final = 200


class Member(NamedTuple):
    key: str
    start: int  # where its key begins
    value: "Node"


class Node(NamedTuple):
    """A value and where it is in the text. Objects have members, and arrays have items."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] = ()
    items: tuple["Node", ...] = ()

    def find(self, key: str) -> Member | None:
        return next((member for member in reversed(self.members) if member.key == key), None)


def parse(text: str) -> Node:
    """Parse a file. Raises BadDocument."""
    node = parse_value(text, skip_space(text, 0), 0)
    if skip_space(text, node.end) != len(text):
        raise build_error(text, node.end)
    return node


def parse_value(text: str, at: int, depth: int) -> Node:
    if depth > DEPTH_LIMIT:
        raise build_error(text, at)
    if text.startswith("{", at):
        return parse_object(text, at, depth)
    if text.startswith("[", at):
        return parse_array(text, at, depth)
    match = STRING.match(text, at) or SCALAR.match(text, at)
    if match is None:
        raise build_error(text, at)
    try:
        return Node(at, match.end(), json.loads(match[0]))
    except ValueError:
        raise build_error(text, at) from None


def parse_object(text: str, at: int, depth: int) -> Node:
    members: list[Member] = []
    start, at = at, skip_space(text, at + 1)
    while not text.startswith("}", at):
        key = parse_value(text, at, depth)
        colon = skip_space(text, key.end)
        if not isinstance(key.value, str) or not text.startswith(":", colon):
            raise build_error(text, at)
        value = parse_value(text, skip_space(text, colon + 1), depth + 1)
        members.append(Member(key.value, at, value))
        at = skip_comma(text, value.end, "}")
    return Node(start, at + 1, {member.key: member.value.value for member in members}, tuple(members))


def parse_array(text: str, at: int, depth: int) -> Node:
    items: list[Node] = []
    start, at = at, skip_space(text, at + 1)
    while not text.startswith("]", at):
        item = parse_value(text, at, depth + 1)
        items.append(item)
        at = skip_comma(text, item.end, "]")
    return Node(start, at + 1, [item.value for item in items], items=tuple(items))


def skip_space(text: str, at: int) -> int:
    """Return the place after white space and comments."""
    while at < len(text):
        if text[at] in " \t\r\n":
            at += 1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise build_error(text, at)
            at = end + 2
        else:
            break
    return at


def skip_comma(text: str, at: int, closing: str) -> int:
    """Return where the next member begins, or the closing bracket."""
    at = skip_space(text, at)
    if text.startswith(",", at):
        return skip_space(text, at + 1)
    if not text.startswith(closing, at):
        raise build_error(text, at)
    return at


def build_error(text: str, at: int) -> BadDocument:
    return BadDocument(f"It is not valid JSON at line {text.count(chr(10), 0, at) + 1}.")


def add_member(text: str, section: str, name: str, value: Any) -> str:
    """Add a member to an object of the file's object, as its last one."""
    root = parse(text)
    found = root.find(section)
    if found is None:
        return insert(text, root, section, {name: value})
    if not isinstance(found.value.value, dict):
        raise BadDocument(f"Its member {section} is not an object.")
    return insert(text, found.value, name, value)


def insert(text: str, parent: Node, name: str, value: Any) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = find_indentation(text)
    outer = get_line_indentation(text, parent.start)
    inner = get_line_indentation(text, parent.members[0].start) if parent.members else outer + unit
    member = f"{json.dumps(name)}: {json.dumps(value, indent=unit, ensure_ascii=False)}".replace("\n", f"{newline}{inner}")
    if not parent.members:
        start, rest = parent.start + 1, skip_space(text, parent.start + 1)
        comments = text[start:rest].rstrip()
        return f"{text[:start]}{comments}{newline}{inner}{member}{newline}{outer}{text[rest:]}"
    end = parent.members[-1].value.end
    comma = skip_space(text, end)
    if text.startswith(",", comma):  # a trailing comma: the new member gets one, too
        line_end = find_line_end(text, comma + 1)
        return f"{text[:line_end]}{newline}{inner}{member},{text[line_end:]}"
    line_end = find_line_end(text, end)
    return f"{text[:end]},{text[end:line_end]}{newline}{inner}{member}{text[line_end:]}"


def add_item(text: str, section: str, name: str, value: Any) -> str:
    """Add an item at the end of a list in an object of the file's object. The list and the object are added if they are missing."""
    found = parse(text).find(section)
    member = found.value.find(name) if found and isinstance(found.value.value, dict) else None
    if member is None:
        return add_member(text, section, name, [value])
    node = member.value
    if not isinstance(node.value, list):
        raise BadDocument(f"Its member {section}.{name} is not a list.")
    newline, unit = "\r\n" if "\r\n" in text else "\n", find_indentation(text)
    outer = get_line_indentation(text, node.start)
    inner = get_line_indentation(text, node.items[0].start) if node.items else outer + unit
    item = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"{newline}{inner}")
    if not node.items:
        return f"{text[: node.start]}[{newline}{inner}{item}{newline}{outer}]{text[node.end :]}"
    end = node.items[-1].end
    return f"{text[:end]},{newline}{inner}{item}{text[end:]}"


def remove_item(text: str, section: str, name: str, value: Any) -> str:
    """Remove an item that `add_item` has added. A list that is empty then is removed, too."""
    found = parse(text).find(section)
    member = found.value.find(name) if found and isinstance(found.value.value, dict) else None
    if member is None or not isinstance(member.value.value, list) or value not in member.value.value:
        return text
    items = member.value.items
    if len(items) == 1:
        return remove_member(text, section, name)
    index = next(index for index, item in enumerate(items) if item.value == value)
    if index == 0:
        return text[: items[0].start] + text[items[1].start :]
    return text[: items[index - 1].end] + text[items[index].end :]


def find_line_end(text: str, at: int) -> int:
    """Return the end of a comment that follows on the same line, or the place itself."""
    comment = re.compile(r"[ \t]*//[^\r\n]*").match(text, at)
    return comment.end() if comment else at


def remove_member(text: str, section: str, name: str) -> str:
    """Remove a member of an object of the file's object. An object that is empty then is removed, too."""
    root = parse(text)
    found = root.find(section)
    if found is None or found.value.find(name) is None:
        return text
    return cut(text, root, section) if len(found.value.members) == 1 else cut(text, found.value, name)


def cut(text: str, parent: Node, name: str) -> str:
    """Cut a member out, so that what `insert` has added is gone."""
    members = parent.members
    index = next(index for index, member in enumerate(members) if member.key == name)
    end = members[index].value.end
    if len(members) == 1:
        return f"{text[: parent.start + 1]}}}{text[parent.end :]}"
    if index == 0:
        return text[: members[0].start] + text[members[1].start :]
    comma_before, comma_after = skip_space(text, members[index - 1].value.end), skip_space(text, end)
    line_end = find_line_end(text, comma_before + 1)
    if text.startswith(",", comma_after):
        return text[:line_end] + text[comma_after + 1 :]
    return text[:comma_before] + text[comma_before + 1 : line_end] + text[end:]


def find_indentation(text: str) -> str:
    """Return what the file indents its first indented line with."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def get_line_indentation(text: str, at: int) -> str:
    """Return the white space at the beginning of the line that has this place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]
