"""The rehearsal model's parsing rules: requests into steps, steps into tool calls, tool results into outcomes."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from headway.agents.tools.toolbox import to_result
from headway.ledger.framing import format_inline
from headway.ledger.items.request_items import list_literals
from headway.ledger.text import SUBJECT_LIMIT, to_storable

READ_LIMIT: Final = 8_000  # characters of a request that are parsed
STEPS_LIMIT: Final = 20
TOO_MANY: Final = "Further steps: "  # what follows is read by no rule, so that none of it is done by half
OUTCOME_LIMIT: Final = 280  # characters


class RehearsalCall(NamedTuple):
    tool: str
    arguments: dict[str, Any]


class CannotRun(NamedTuple):
    reason: str


class StepOutcome(NamedTuple):
    text: str
    ok: bool = True


class RecentResults(NamedTuple):
    """The referents of "it": the newest result as text, and the last file that was read or written."""

    result: str | None = None
    path: str | None = None


VERBS: Final = frozenset(
    re.findall(
        r"\w+",
        """add analyse analyze answer arrange ask assemble assess back bake book bring build buy calculate call cancel change
    check choose clean close collect compare compile compose compute configure convert cook copy count create cut decide
    define delete deploy describe design determine develop divide document double download draft draw edit email estimate
    evaluate examine explain explore export extract fetch figure file fill find finish fix format gather generate get give
    go halve help highlight identify implement import improve inform inspect install investigate invite keep learn list
    load locate look make measure meet memorise memorize merge move multiply name note open order organise organize
    outline paint pay phone pick plan prepare present print produce propose provide publish put rank read recall recommend
    record refactor remember remind remove rename repeat replace reply report request research reserve review rewrite run
    save schedule search select send set show simplify sing solve sort split square start store submit subtract suggest
    sum summarise summarize tell test think translate try turn type update upload use verify visit wash watch work write""",
    )
)
QUESTION: Final = re.compile(
    r"what(?:'s|’s| is| are| time| date| day| do| files)\b|how (?:much|many)\b|which files\b", re.IGNORECASE
)
LEAD_IN: Final = re.compile(
    r"(?:please|kindly|also|and|then|first|firstly|second|secondly|third|next|finally|lastly|afterwards|after that|now|so|ok|okay"
    r"|(?:can|could|would|will) you|i (?:want|need|would like|'d like) you to|let's|let us|hi|hello|hey)\b(?!:)[,.!]? ",
    re.IGNORECASE,
)
COURTESY: Final = re.compile(r"(?:thanks|thank you|thx|cheers|please)\b[^\n]{0,40}", re.IGNORECASE)
QUOTATION: Final = re.compile(r'"[^"\n]*"|`[^`\n]*`|“[^“”\n]*”')
QUOTED_TEXT: Final = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`|“[^“”\n]*”")
LIST_ITEM: Final = re.compile(r"[^\S\n]*(?:[-*•+]|\(?\d{1,3}[.)]|\(?[a-z]\))[^\S\n]+(?:\[[ xX]\] +)?(\S.*)")
FILE_NAME: Final = re.compile(r"\w\.[A-Za-z][A-Za-z0-9]{0,7}\b")
NUMBER: Final = re.compile(r"(?:^|(?<=\s))\(?(\d{1,2})[.)] (?=\S)")
SEPARATOR: Final = re.compile(
    r"(?P<strong>\n ?|(?<=[.!?]) |; ?)|(?P<then>,? (?:and )?then,? )|(?P<weak>, ?(?:and )?| and )", re.IGNORECASE
)


def split_request(request: str) -> list[str]:
    """Split a request into distinct steps. Returns a single step unless the request clearly asks for several."""
    text = request[:READ_LIMIT].strip()
    steps = [step for step in map(trim_step, split_list(text) or split_numbered(text) or split_phrases(text)) if step]
    return steps if len(steps) <= STEPS_LIMIT else [*steps[: STEPS_LIMIT - 1], f"{TOO_MANY}{'; '.join(steps[STEPS_LIMIT - 1 :])}"]


def format_title(step: str) -> str:
    return step if len(step) <= SUBJECT_LIMIT else f"{step[: SUBJECT_LIMIT - 1]}…"


def trim_step(step: str) -> str:
    step = strip_lead_in(step.strip()).strip(" \t\n;,")
    return step.removesuffix(".") if ":" not in step and not step.endswith("..") else step


def strip_lead_in(text: str) -> str:
    """Remove leading courtesies such as "please"."""
    for _ in range(4):
        match = LEAD_IN.match(text)
        if not match:
            break
        text = text[match.end() :].lstrip()
    return text


def is_instruction(text: str) -> bool:
    text = strip_lead_in(text.lstrip())
    first_word = re.match(r"[A-Za-z]+", text)
    return bool(QUESTION.match(text)) or (first_word is not None and first_word[0].lower() in VERBS)


def is_work(text: str) -> bool:
    """Whether a sentence asks for something. One that names a file is not only said."""
    return is_instruction(text) or FILE_NAME.search(text) is not None


def split_list(text: str) -> list[str]:
    """Split a bulleted or numbered list into its items, together with instructions before and after it."""
    lines = text.split("\n")
    items = [LIST_ITEM.fullmatch(line.rstrip()) for line in lines]
    if sum(item is not None for item in items) < 2 or WRITE_HEAD.fullmatch(strip_lead_in(lines[0].strip())):
        return []
    steps: list[str] = []
    for line, item in zip(lines, items, strict=True):
        if item:
            steps.append(item[1])
        elif is_work(line) and not line.rstrip().endswith(":") and not line[:1].isspace():
            steps.append(line)
        elif steps and line[:1].isspace() and line.strip():
            steps[-1] += f"\n{line.strip()}"
    return steps


def split_numbered(text: str) -> list[str]:
    """Split an inline enumeration such as `1. one 2. two`."""
    marks: list[re.Match[str]] = []
    for mark in NUMBER.finditer(mask_quotations(text)):
        if int(mark[1]) == len(marks) + 1:
            marks.append(mark)
    if len(marks) < 2:
        return []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return [text[mark.end() : end] for mark, end in zip(marks, ends, strict=True)]


def split_phrases(text: str) -> list[str]:
    """Split where one instruction ends and another begins. Phrases such as "bread and butter" stay together."""
    normalised = re.sub(r"[^\S\n]+", " ", re.sub(r"\n\s*", "\n", text))
    steps: list[str] = []
    current, start = "", 0
    for separator, piece in iter_pieces(normalised):
        starts_step = is_instruction(piece) and (separator["weak"] is None or (has_spaces(piece) and has_spaces(current)))
        if starts_step and (is_instruction(current) or separator["strong"] is not None):
            steps.append(current)
            current, start = piece, separator.end()
        elif separator["strong"] is None or not COURTESY.fullmatch(piece.strip()):
            current = normalised[start : separator.end() + len(piece)]
    instructions = [step for step in (*steps, current) if is_work(step)]
    return [text] if instructions in ([], [normalised]) else instructions


def iter_pieces(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each separator with the text up to the next. The text before the first comes with an empty separator."""
    hidden = mask_quotations(text)
    beginning = re.compile(r"(?P<strong>)(?P<then>)?(?P<weak>x)?").match("")
    assert beginning is not None
    separators = [beginning, *SEPARATOR.finditer(hidden)]
    ends = [*(separator.start() for separator in separators[1:]), len(text)]
    for separator, end in zip(separators, ends, strict=True):
        yield separator, text[separator.end() : end]


def mask_quotations(text: str) -> str:
    """Replace quoted text with a placeholder of the same length, so that it is not split."""
    return QUOTATION.sub(lambda quoted: "x" * len(quoted[0]), text)


def has_spaces(text: str) -> bool:
    return " " in text.strip()


FILE: Final = r"[\"'`“]?([\w./~-]{0,200}\w\.[A-Za-z0-9]{1,8}|[\w.~-]{1,80}/[\w./~-]{1,200})[\"'`”]?"
NAMED_FILE: Final = rf"(?:an? |the )?(?:new )?(?:text )?(?:file )?(?:called |named )?{FILE}"
WRITE_VERB: Final = r"(?:write|save|store|put|create|make)"
WRITE_HEAD: Final = re.compile(rf"{WRITE_VERB} {NAMED_FILE}(?: with)?:", re.IGNORECASE)
AGAIN: Final = r"(?: back| again| aloud| to me)*[.!?]*"
TODO: Final = r"(?:to-?do|task)"
TIME: Final = r"(?:time|date|day)"
REFERENCE: Final = re.compile(
    r"it|that|this|them|these|everything|results?|(?:the|this|that|its|all|both)(?: \w+)? (?:results?|answers?|outputs?|outcomes?"
    r"|sum|total|product|number|value|time|date|list|files?|notes?|contents?|page|text|calculation)(?: (?:of|from) [^\n]{1,80})?",
    re.IGNORECASE,
)
STOP_WORDS: Final = re.compile(
    r"\b(?:a|about|an|and|are|did|do|for|i|is|me|my|of|on|said|say|that|the|to|told|what|you|your)\b|[^\w\s'@.+-]|(?<!\.)\.+$",
    re.IGNORECASE,
)
STATED_TEXTS: Final = ("the text ", "the word ", "the words ", "the sentence ", "the line ")
NO_RESULT_YET: Final = CannotRun("there is no result to use here.")


def find_call(step: str, recent: RecentResults) -> RehearsalCall | CannotRun | None:
    """Return the tool call for a step, the reason it cannot run, or None if no rule fits and an LLM would be needed."""
    instruction = strip_lead_in(step[:READ_LIMIT].strip())
    for pattern, call in RULES:
        if (match := pattern.fullmatch(instruction)) and (tool_call := call(match, recent)):
            return tool_call
    return None


def build_write_call(path: str, content: str, recent: RecentResults) -> RehearsalCall | CannotRun:
    content = content.strip()
    if REFERENCE.fullmatch(content.rstrip(".!")):
        return RehearsalCall("write_file", {"path": path, "content": recent.result}) if recent.result else NO_RESULT_YET
    return RehearsalCall("write_file", {"path": path, "content": content.strip("\"'`“”")})


def write_literally(path: str, content: str, recent: RecentResults) -> RehearsalCall | CannotRun | None:
    """Write a quotation, `the text …`, or a result. Anything else, such as "a poem about spring", would have to be composed."""
    content = content.strip()
    if content.lower().startswith(STATED_TEXTS) and (literals := list_literals(f"write {content} to {path}")):
        return RehearsalCall("write_file", {"path": path, "content": literals[0]})
    content = content.rstrip(".!")
    if QUOTED_TEXT.fullmatch(content) or REFERENCE.fullmatch(content):
        return build_write_call(path, content, recent)
    return None


def to_read_call(_match: re.Match[str], recent: RecentResults) -> RehearsalCall | CannotRun:
    return RehearsalCall("read_file", {"path": recent.path}) if recent.path else CannotRun("it is not clear which file is meant.")


def to_remember_call(match: re.Match[str], recent: RecentResults) -> RehearsalCall | CannotRun | None:
    text = match[1].strip().strip('"“”')
    if REFERENCE.fullmatch(text.rstrip(".!")):
        return RehearsalCall("remember", {"text": recent.result}) if recent.result else NO_RESULT_YET
    return RehearsalCall("remember", {"text": text}) if text.strip() else None


def to_calculate_call(match: re.Match[str], recent: RecentResults) -> RehearsalCall | None:
    """Return a call for text that is entirely an arithmetic expression with an operation. A lone number or date is none."""
    text = match[1].strip().rstrip("?=.! ")
    if recent.result and re.fullmatch(r"-?[0-9.]{1,40}", recent.result):
        text = IT_AS_NUMBER.sub(recent.result, text)
    for pattern, replacement in SPELLED_OPERATIONS:
        text = pattern.sub(replacement, text)
    is_whole = re.fullmatch(r"[0-9.+\-*/%(),\s]+", text) and re.search("[0-9]", text)
    has_work = re.search(r"[+*/%(]|[0-9)] ?-", text) and not re.fullmatch(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}", text)
    return RehearsalCall("calculate", {"expression": text}) if is_whole and has_work else None


def compile_rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


IT_AS_NUMBER: Final = compile_rule(
    r"\b(?:(?:the|that|this) (?:previous |last )?(?:result|answer|sum|total|product|number)|it|that)\b"
)
NUMBER_GROUP: Final = r"(\(?[0-9][0-9.]{0,30}\)?)"
SPELLED_OPERATIONS: Final = tuple(
    (compile_rule(pattern), replacement)
    for pattern, replacement in (
        (r"^multiply (.+) (?:by|with|and) (.+)$", r"(\1)*(\2)"),
        (rf"{NUMBER_GROUP} ?(?:%|per ?cent) of {NUMBER_GROUP}", r"(\1*\2/100)"),
        (r"\bplus\b", "+"),
        (r"\bminus\b|−|–", "-"),
        (r"\b(?:times|multiplied by)\b|[×·]|(?<=[0-9)]) ?x ?(?=[0-9(])", "*"),
        (r"\bdivided by\b|÷", "/"),
        (r"(?<![0-9.,(])([0-9]{1,3}),([0-9]{3})(?![0-9,)])", r"\1\2"),
    )
)
FETCH: Final = r"(?:fetch|get|download|open|visit|load|read|request|look at|check)\b[^\n:]{0,60}?\b"
NOTE: Final = r"(?:add|create|note|make|put|write down) (?:an? |the )?(?:new )?"
LIST: Final = r"(?:list|show|see|check|which|what(?:'s| is| are)?)(?: me)?(?: all)?(?: on)?(?: the| my| our| your)?(?: open)?"
HERE: Final = (
    r"(?: are| do we have| do you have)?(?: there| here)?(?: (?:in|of|from) (?:the |my |your |this )?(?:workspace|folder))?"
)
CONTAINING: Final = r" (?:with|containing|saying)(?: the)?(?: (?:content|text|word)s?)?"
SHOW: Final = r"(?:read|open|show|display|print|cat|check)(?: me)?(?: back)?(?: what(?:'s| is) in)?(?: the)?(?: contents? of)?"
RECALL: Final = (
    r"(?:recall|what do you (?:remember|know)|do you remember|what did i (?:tell|say)|search (?:your |the )?(?:memory|notes))"
)
KEEP: Final = r"(?:remember|memori[sz]e|keep in mind|note down|note(?= that\b|:)|make a note)(?: that\b)?(?: of\b)?"
TELL: Final = r"(?:what(?:['’]s| is)?|tell|show|give|get|check|look up|find out|say)(?: me)?(?: what)? ?(?:the )?"
IS_IT: Final = r"(?: is it| it is| is today| now| right now| today)*"
ASK: Final = r"(?:calculate|compute|evaluate|solve|work out|figure out|what(?:['’]s| is| are)|how much (?:is|are)):? (?:the )?"
QUOTATION_MARKS: Final = r"[\"“`']([^\"”`'\n]{1,500})[\"”`']"
Rule = Callable[[re.Match[str], RecentResults], RehearsalCall | CannotRun | None]
RULES: Final[tuple[tuple[re.Pattern[str], Rule], ...]] = (
    (
        compile_rule(rf"{FETCH}(https?://[^\s\"'`<>]{{4,2000}})"),
        lambda match, _: RehearsalCall("http_get", {"url": match[1].rstrip(".,;:!?)]”")}),
    ),
    (
        compile_rule(rf"{NOTE}{TODO}(?: item)?(?::| (?:to|for|called|named|saying)\b) ?(\S.*)"),
        lambda match, _: RehearsalCall("todo_add", {"subject": format_title(match[1].strip())}),
    ),
    (compile_rule(rf"{LIST} {TODO}s?(?: list)?[?.!]*"), lambda _match, _recent: RehearsalCall("todo_list", {})),
    (
        compile_rule(rf"{WRITE_VERB} {NAMED_FILE}(?:{CONTAINING})?: ?\s*(\S.*)"),
        lambda match, recent: build_write_call(match[1], match[2], recent),
    ),
    (
        compile_rule(rf"{WRITE_VERB} {NAMED_FILE}{CONTAINING} (\S.*)"),
        lambda match, recent: write_literally(match[1], match[2], recent),
    ),
    (
        compile_rule(rf"(?:write|save|store|put) (.+) (?:to|into|in|as) {NAMED_FILE}[.!]?"),
        lambda match, recent: write_literally(match[2], match[1], recent),
    ),
    (
        compile_rule(rf"(?:replace|change) {QUOTATION_MARKS} (?:with|by|to) {QUOTATION_MARKS} in {NAMED_FILE}[.!]?"),
        lambda match, _: RehearsalCall("edit_file", {"path": match[3], "old": match[1], "new": match[2]}),
    ),
    (
        compile_rule(rf"search(?: (?:the|all|my))?(?: (?:files|workspace))? for {QUOTATION_MARKS}(?: in (?:the|all) files)?[.!]?"),
        lambda match, _: RehearsalCall("search_files", {"pattern": re.escape(match[1])}),
    ),
    (compile_rule(rf"{SHOW} {NAMED_FILE}{AGAIN}"), lambda match, _: RehearsalCall("read_file", {"path": match[1]})),
    (compile_rule(rf"(?:read|open|show|print)(?: me)? (?:it|(?:the|that|this) file){AGAIN}"), to_read_call),
    (compile_rule(rf"(?:ls|{LIST} (?:files|workspace){HERE})[?.! ]*"), lambda _match, _recent: RehearsalCall("list_files", {})),
    (
        compile_rule(rf"{RECALL}\b(.{{0,300}})"),
        lambda match, _: RehearsalCall("recall", {"query": " ".join(STOP_WORDS.sub(" ", match[1]).split())}),
    ),
    (compile_rule(rf"{KEEP}:? ?(\S.*)"), to_remember_call),
    (
        compile_rule(rf"(?:now|today|(?:{TELL})?(?:the )?(?:current |today['’]s )?{TIME}(?: and (?:the )?{TIME})?){IS_IT}[?.! ]*"),
        lambda _match, _recent: RehearsalCall("now", {}),
    ),
    (compile_rule(rf"(?:{ASK})?(.{{1,500}})"), to_calculate_call),
)


NO_RESULT: Final = {"error": "no result came back."}
LIST_RESULTS: Final = {
    "recall": ("entries", "text", "note"),
    "list_files": ("files", "path", "file"),
    "todo_list": ("todos", "subject", "open todo"),
}
ACTION_TOOLS: Final = frozenset(
    ("write_file", "edit_file", "remember", "todo_add")
)  # their results are not passed on to later steps


class ResultText(NamedTuple):
    sentence: str
    value: str  # the referent of "the result" in a later step


def parse_json(content: Any) -> Any:
    """Parse JSON, or return the text unchanged if it is not JSON."""
    if not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


def to_outcome(tool: str, arguments: dict[str, Any], result: Any) -> StepOutcome:
    """Describe a tool result in one line, which is never empty."""
    if to_result(result).is_error:
        reason = result.get("error", result) if isinstance(result, dict) else result
        return StepOutcome(f"Not done: {format_inline(to_text(reason), OUTCOME_LIMIT)}", ok=False)
    return StepOutcome(format_inline(describe_result(tool, arguments, result).sentence, OUTCOME_LIMIT))


def describe_result(tool: str, arguments: dict[str, Any], result: Any) -> ResultText:
    if tool in LIST_RESULTS and isinstance(result, dict):
        return describe_list(result, *LIST_RESULTS[tool])
    path = to_text(arguments.get("path"))
    match tool, result:
        case "calculate", {"result": value}:
            return ResultText(f"{to_text(arguments.get('expression'))} = {to_text(value)}", to_text(value))
        case "now", {"now": moment, "weekday": weekday}:
            return ResultText(f"It is {to_text(weekday)}, {to_text(moment)}.", to_text(moment))
        case "remember", {"remembered": {"text": text}}:
            return ResultText(f"Remembered: {to_text(text)}", "")
        case "write_file", {"size": size}:
            return ResultText(f"Wrote {to_text(size)} bytes to {path}.", "")
        case "search_files", {"matches": list(lines)}:
            return ResultText(f"Found {len(lines)}: {'; '.join(map(to_text, lines))}", "\n".join(map(to_text, lines)))
        case "read_file", {"content": content}:
            return ResultText(f"{path} says: {to_text(content)}", to_text(content))
        case "todo_add", {"todo": {"id": number, "subject": subject}}:
            return ResultText(f"Added todo {to_text(number)}: {to_text(subject)}", "")
        case "http_get", {"status": status, "text": page}:
            return ResultText(f"{to_text(arguments.get('url'))} answered {to_text(status)}: {to_text(page)}", to_text(page))
    return ResultText(f"{tool} answered: {to_text(result)}", to_text(result))


def describe_list(result: dict[str, Any], name: str, field: str, noun: str) -> ResultText:
    entries = result.get(name)
    values = [to_text(entry.get(field)) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return ResultText(
        f"{len(values)} {noun}{'' if len(values) == 1 else 's'}{': ' if values else '.'}{'; '.join(values)}", "\n".join(values)
    )


def to_text(value: Any) -> str:
    """Return a value as storable text. JSON can contain lone surrogates and numbers too long to format."""
    try:
        return to_storable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        return "something that cannot be shown"
