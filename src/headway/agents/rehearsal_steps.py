"""How the rehearsal reads, by rules: a request as steps, a step as the call of a tool, a tool's answer as an outcome."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from headway.agents.toolbox import judged
from headway.agents.transcript import storable
from headway.ledger.framing import inline
from headway.ledger.text import SUBJECT_LIMIT

READ: Final = 20_000  # characters of a request that are looked at
STEPS: Final = 20
SHOWN: Final = 280  # characters of an outcome


class Call(NamedTuple):
    tool: str
    arguments: dict[str, Any]


class Cannot(NamedTuple):
    why: str


class Outcome(NamedTuple):
    text: str
    ok: bool = True


class Known(NamedTuple):
    """What "it" may mean: the newest result as text, and the file that was touched last."""

    result: str | None = None
    path: str | None = None


# A task that was handed over, between where it comes from and what was given with it.
HANDED_OVER: Final = re.compile(r"\[(DELEGATION|GOAL) CONTEXT\]\n.*?\n\[END \1 CONTEXT\]\n\n(.*?)(?:\n\nContext:\n.*)?", re.DOTALL)


def task_in(request: str) -> str:
    found = HANDED_OVER.fullmatch(request)
    return found[2] if found else request


# A request as steps

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
LEAD: Final = re.compile(
    r"(?:please|kindly|also|and|then|first|firstly|second|secondly|third|next|finally|lastly|afterwards|after that|now|so|ok|okay"
    r"|(?:can|could|would|will) you|i (?:want|need|would like|'d like) you to|let's|let us|hi|hello|hey)\b(?!:)[,.!]? ",
    re.IGNORECASE,
)
POLITE: Final = re.compile(r"(?:thanks|thank you|thx|cheers|please)\b[^\n]{0,40}", re.IGNORECASE)
QUOTED: Final = re.compile(r'"[^"\n]*"|`[^`\n]*`|“[^”\n]*”')
LIST_ITEM: Final = re.compile(r"[^\S\n]*(?:[-*•+]|\(?\d{1,3}[.)]|\(?[a-z]\))[^\S\n]+(?:\[[ xX]\] +)?(\S.*)")
NUMBER: Final = re.compile(r"(?:^|(?<=\s))\(?(\d{1,2})[.)] (?=\S)")
SEPARATOR: Final = re.compile(
    r"(?P<strong>\n ?|(?<=[.!?]) |; ?)|(?P<then>,? (?:and )?then,? )|(?P<weak>, ?(?:and )?| and )", re.IGNORECASE
)


def split(request: str) -> list[str]:
    """The distinct steps of a request; one for anything that does not clearly ask for several, none for nothing."""
    text = request[:READ].strip()
    steps = [step for step in map(trimmed, listed(text) or numbered(text) or phrased(text)) if step]
    return steps if len(steps) <= STEPS else [*steps[: STEPS - 1], "; ".join(steps[STEPS - 1 :])]


def title(step: str) -> str:
    return step if len(step) <= SUBJECT_LIMIT else f"{step[: SUBJECT_LIMIT - 1]}…"


def trimmed(step: str) -> str:
    step = bare(step.strip()).strip(" \t\n;,")
    return step.removesuffix(".") if ":" not in step and not step.endswith("..") else step


def bare(text: str) -> str:
    """Without the politeness in front."""
    for _ in range(4):
        found = LEAD.match(text)
        if not found:
            break
        text = text[found.end() :].lstrip()
    return text


def is_instruction(text: str) -> bool:
    text = bare(text.lstrip())
    word = re.match(r"[A-Za-z]+", text)
    return bool(QUESTION.match(text)) or (word is not None and word[0].lower() in VERBS)


def listed(text: str) -> list[str]:
    """The items of a list with bullets or numbers, and instructions around it."""
    lines = text.split("\n")
    items = [LIST_ITEM.fullmatch(line.rstrip()) for line in lines]
    if sum(item is not None for item in items) < 2 or WRITE_HEAD.fullmatch(bare(lines[0].strip())):
        return []
    steps: list[str] = []
    for line, item in zip(lines, items, strict=True):
        if item:
            steps.append(item[1])
        elif line.strip() and not line.rstrip().endswith(":") and not line[:1].isspace() and is_instruction(line):
            steps.append(line)
        elif steps and line[:1].isspace() and line.strip():
            steps[-1] += f"\n{line.strip()}"
    return steps


def numbered(text: str) -> list[str]:
    """1. one 2. two, all in a line."""
    marks: list[re.Match[str]] = []
    for mark in NUMBER.finditer(masked(text)):
        if int(mark[1]) == len(marks) + 1:
            marks.append(mark)
    if len(marks) < 2:
        return []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return [text[mark.end() : end] for mark, end in zip(marks, ends, strict=True)]


def phrased(text: str) -> list[str]:
    """Split where an instruction ends and another begins. Bread and butter stay together."""
    even = re.sub(r"[^\S\n]+", " ", re.sub(r"\n\s*", "\n", text))
    steps: list[str] = []
    current, place = "", 0
    for separator, piece in pieces(even):
        begins = is_instruction(piece) and (separator["weak"] is None or (wordy(piece) and wordy(current)))
        if begins and (is_instruction(current) or separator["strong"] is not None):
            steps.append(current)
            current, place = piece, separator.end()
        elif separator["strong"] is None or not POLITE.fullmatch(piece.strip()):
            current = even[place : separator.end() + len(piece)]
    instructions = [step for step in (*steps, current) if is_instruction(step)]
    return [text] if instructions in ([], [even]) else instructions


def pieces(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """The separators, each with what follows up to the next; what stands before the first follows a separator of no length."""
    hidden = masked(text)
    beginning = re.compile(r"(?P<strong>)(?P<then>)?(?P<weak>x)?").match("")
    assert beginning is not None
    found = [beginning, *SEPARATOR.finditer(hidden)]
    ends = [*(separator.start() for separator in found[1:]), len(text)]
    for separator, end in zip(found, ends, strict=True):
        yield separator, text[separator.end() : end]


def masked(text: str) -> str:
    """The text with what is quoted made unreadable, as long as before."""
    return QUOTED.sub(lambda quoted: "x" * len(quoted[0]), text)


def wordy(text: str) -> bool:
    return " " in text.strip()


# A step as the call of a tool

FILE: Final = r"[\"'`“]?([\w./~-]{0,200}\w\.[A-Za-z0-9]{1,8}|[\w.~-]{1,80}/[\w./~-]{1,200})[\"'`”]?"
NAMED_FILE: Final = rf"(?:an? |the )?(?:new )?(?:text )?(?:file )?(?:called |named )?{FILE}"
WRITING: Final = r"(?:write|save|store|put|create|make)"
WRITE_HEAD: Final = re.compile(rf"{WRITING} {NAMED_FILE}(?: with)?:", re.IGNORECASE)
AGAIN: Final = r"(?: back| again| aloud| to me)*[.!?]*"
TODO: Final = r"(?:to-?do|task)"
TIME: Final = r"(?:time|date|day)"
IT: Final = re.compile(
    r"it|that|this|them|these|everything|results?|(?:the|this|that|its|all|both)(?: \w+)? (?:results?|answers?|outputs?|outcomes?"
    r"|sum|total|product|number|value|time|date|list|files?|notes?|contents?|page|text|calculation)(?: (?:of|from) [^\n]{1,80})?",
    re.IGNORECASE,
)
DESCRIBED: Final = re.compile(r"(?:an?|the|some|my|your|our|two|three|several|down)\b", re.IGNORECASE)
STOP_WORDS: Final = re.compile(
    r"\b(?:a|about|an|and|are|did|do|for|i|is|me|my|of|on|said|say|that|the|to|told|what|you|your)\b|[^\w\s'@.+-]|[.?!]+$",
    re.IGNORECASE,
)
NO_RESULT_YET: Final = Cannot("there is no result to use here.")


def doing(step: str, known: Known) -> Call | Cannot | None:
    """The call that does this step, why there is none, or nothing where no rule fits: that would take an LLM."""
    whole = bare(step[:READ].strip())
    for text in (whole, re.split(r"(?<=[.!?])\s", whole, maxsplit=1)[0]):
        for pattern, call in RULES:
            if (found := pattern.fullmatch(text)) and (made := call(found, known)):
                return made
    return None


def write_content(path: str, content: str, known: Known) -> Call | Cannot:
    content = content.strip().strip("\"'`“”")
    if IT.fullmatch(content.rstrip(".!")):
        return Call("write_file", {"path": path, "content": known.result}) if known.result else NO_RESULT_YET
    return Call("write_file", {"path": path, "content": content})


def write_to(found: re.Match[str], known: Known) -> Call | Cannot | None:
    content = found[1].strip()
    if DESCRIBED.match(content) and not IT.fullmatch(content):
        return None  # "a poem about spring" has to be made up
    return write_content(found[2], content, known)


def read_it(_found: re.Match[str], known: Known) -> Call | Cannot:
    return Call("read_file", {"path": known.path}) if known.path else Cannot("it is not clear which file is meant.")


def remember(found: re.Match[str], known: Known) -> Call | Cannot | None:
    words = found[1].strip().strip('"“”')
    if IT.fullmatch(words.rstrip(".!")):
        return Call("remember", {"text": known.result}) if known.result else NO_RESULT_YET
    return Call("remember", {"text": words}) if words.strip() else None


def calculate(found: re.Match[str], known: Known) -> Call | None:
    """An expression all through, with something to work out: a number or a date alone has nothing."""
    text = found[1].strip().rstrip("?=.! ")
    if known.result and re.fullmatch(r"-?[0-9.]{1,40}", known.result):
        text = IT_AS_NUMBER.sub(known.result, text)
    for pattern, replacement in SPELLED:
        text = pattern.sub(replacement, text)
    rest = re.sub(r"\b(?:sqrt|round|abs|min|max|sum)(?= ?\()|\bpi\b|\be\b", "", text)
    is_whole = re.fullmatch(r"[0-9.+\-*/%(),\s]+", rest) and re.search("[0-9]", text)
    has_work = re.search(r"[+*/%(]|[0-9)] ?-", text) and not re.fullmatch(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}", text)
    return Call("calculate", {"expression": text}) if is_whole and has_work else None


def rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


IT_AS_NUMBER: Final = rule(r"\b(?:(?:the|that|this) (?:previous |last )?(?:result|answer|sum|total|product|number)|it|that)\b")
N: Final = r"(\(?[0-9][0-9.]{0,30}\)?)"
SPELLED: Final = tuple(
    (rule(pattern), replacement)
    for pattern, replacement in (
        (r"^multiply (.+) (?:by|with|and) (.+)$", r"(\1)*(\2)"),
        (r"^divide (.+) by (.+)$", r"(\1)/(\2)"),
        (r"^subtract (.+) from (.+)$", r"(\2)-(\1)"),
        (r"^(?:add|sum of) (.+) (?:to|and) (.+)$", r"(\1)+(\2)"),
        (r"^product of (.+) and (.+)$", r"(\1)*(\2)"),
        (r"^double (.+)$", r"(\1)*2"),
        (r"^halve (.+)$", r"(\1)/2"),
        (r"^square (?!root)(.+)$", r"(\1)**2"),
        (rf"{N} ?(?:%|per ?cent) of {N}", r"(\1*\2/100)"),
        (rf"square root of {N}", r"sqrt(\1)"),
        (r"\bsquared\b", "**2"),
        (r"\bplus\b", "+"),
        (r"\bminus\b|−|–", "-"),
        (r"\b(?:times|multiplied by)\b|[×·]|(?<=[0-9)]) ?x ?(?=[0-9(])", "*"),
        (r"\bdivided by\b|÷", "/"),
        (r"\bto the power of\b|\^", "**"),
        (r"(?<![0-9.,(])([0-9]{1,3}),([0-9]{3})(?![0-9,)])", r"\1\2"),
    )
)
FETCH: Final = r"(?:fetch|get|download|open|visit|load|read|request|look at|check)\b[^\n:]{0,60}?\b"
NOTE: Final = r"(?:add|create|note|make|put|write down) (?:an? |the )?(?:new )?"
NAMED: Final = r"(?:(?:to|for|called|named|saying)\b)?"
LIST: Final = r"(?:list|show|see|check|which|what(?:'s| is| are)?)(?: me)?(?: all)?(?: on)?(?: the| my| our| your)?(?: open)?"
HERE: Final = (
    r"(?: are| do we have| do you have)?(?: there| here)?(?: (?:in|of|from) (?:the |my |your |this )?(?:workspace|folder))?"
)
HOLDING: Final = r"(?:: ?| with (?:the )?(?:content|text|words?)s?:? | (?:with|containing|saying):? )"
SHOW: Final = r"(?:read|open|show|display|print|cat|check)(?: me)?(?: back)?(?: what(?:'s| is) in)?(?: the)?(?: contents? of)?"
RECALL: Final = (
    r"(?:recall|what do you (?:remember|know)|do you remember|what did i (?:tell|say)|search (?:your |the )?(?:memory|notes))"
)
KEEP: Final = r"(?:remember|memori[sz]e|keep in mind|note down|note(?= that\b|:)|make a note)(?: that\b)?(?: of\b)?"
TELL: Final = r"(?:what(?:['’]s| is)?|tell|show|give|get|check|look up|find out|say)(?: me)?(?: what)? ?(?:the )?"
IS_IT: Final = r"(?: is it| it is| is today| now| right now| today)*"
ZONE: Final = r"(?: in ([A-Za-z_]{2,20}/[A-Za-z_/]{2,40}|UTC))?(?: right)?(?: now)?"
ASK: Final = r"(?:calculate|compute|evaluate|solve|work out|figure out|what(?:['’]s| is| are)|how much (?:is|are)):? (?:the )?"
Rule = Callable[[re.Match[str], Known], Call | Cannot | None]
RULES: Final[tuple[tuple[re.Pattern[str], Rule], ...]] = (
    (
        rule(rf"{FETCH}(https?://[^\s\"'`<>]{{4,2000}}).{{0,200}}"),
        lambda found, _: Call("http_get", {"url": found[1].rstrip(".,;:!?)]”")}),
    ),
    (
        rule(rf"{NOTE}{TODO}(?: item)?\b ?{NAMED} ?[:\-–]? ?(\S.*)"),
        lambda found, _: Call("todo_add", {"subject": title(found[1].strip())}),
    ),
    (rule(rf"{LIST} {TODO}s?(?: list)?[?.!]*"), lambda _found, _known: Call("todo_list", {})),
    (rule(rf"{WRITING} {NAMED_FILE}{HOLDING}\s*(\S.*)"), lambda found, known: write_content(found[1], found[2], known)),
    (rule(rf"(?:write|save|store|put) (.+) (?:to|into|in|as) {NAMED_FILE}[.!]?"), write_to),
    (rule(rf"{SHOW} {NAMED_FILE}{AGAIN}"), lambda found, _: Call("read_file", {"path": found[1]})),
    (rule(rf"(?:read|open|show|print)(?: me)? (?:it|(?:the|that|this) file){AGAIN}"), read_it),
    (rule(rf"(?:ls|{LIST} (?:files|workspace){HERE})[?.! ]*"), lambda _found, _known: Call("list_files", {})),
    (rule(rf"{RECALL}\b(.{{0,300}})"), lambda found, _: Call("recall", {"query": " ".join(STOP_WORDS.sub(" ", found[1]).split())})),
    (rule(rf"{KEEP}:? ?(\S.*)"), remember),
    (
        rule(rf"(?:now|today|(?:{TELL})?(?:the )?(?:current |today['’]s )?{TIME}(?: and (?:the )?{TIME})?){IS_IT}{ZONE}[?.! ]*"),
        lambda found, _: Call("now", {"timezone": found[1]} if found[1] else {}),
    ),
    (rule(rf"(?:{ASK})?(.{{1,500}})"), calculate),
)


# A tool's answer as an outcome

NO_RESULT: Final = {"error": "no result came back."}
LISTS: Final = {
    "recall": ("entries", "text", "note"),
    "list_files": ("files", "path", "file"),
    "todo_list": ("todos", "subject", "open todo"),
}
ACTING: Final = frozenset(("write_file", "remember", "todo_add"))  # what they answer is nothing to pass on


class Told(NamedTuple):
    sentence: str
    value: str  # what "the result" means to a later step


def parsed(content: Any) -> Any:
    """JSON where it is, else the text as it came."""
    if not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


def outcome(tool: str, arguments: dict[str, Any], result: Any) -> Outcome:
    """One line that is never empty."""
    if judged(result).is_error:
        reason = result.get("error", result) if isinstance(result, dict) else result
        return Outcome(f"Not done: {inline(text_of(reason), SHOWN)}", ok=False)
    return Outcome(inline(told(tool, arguments, result).sentence, SHOWN))


def told(tool: str, arguments: dict[str, Any], result: Any) -> Told:
    if tool in LISTS and isinstance(result, dict):
        return told_list(result, *LISTS[tool])
    path = text_of(arguments.get("path"))
    match tool, result:
        case "calculate", {"result": value}:
            return Told(f"{text_of(arguments.get('expression'))} = {text_of(value)}", text_of(value))
        case "now", {"now": moment, "weekday": weekday}:
            return Told(f"It is {text_of(weekday)}, {text_of(moment)}.", text_of(moment))
        case "remember", {"remembered": {"text": words}}:
            return Told(f"Remembered: {text_of(words)}", "")
        case "write_file", {"size": size}:
            return Told(f"Wrote {text_of(size)} bytes to {path}.", "")
        case "read_file", {"content": content}:
            return Told(f"{path} says: {text_of(content)}", text_of(content))
        case "todo_add", {"todo": {"id": number, "subject": subject}}:
            return Told(f"Added todo {text_of(number)}: {text_of(subject)}", "")
        case "http_get", {"status": status, "text": page}:
            return Told(f"{text_of(arguments.get('url'))} answered {text_of(status)}: {text_of(page)}", text_of(page))
    return Told(f"{tool} answered: {text_of(result)}", text_of(result))


def told_list(result: dict[str, Any], name: str, field: str, thing: str) -> Told:
    entries = result.get(name)
    found = [text_of(one.get(field)) for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    return Told(f"{len(found)} {thing}{'' if len(found) == 1 else 's'}{': ' if found else '.'}{'; '.join(found)}", "\n".join(found))


def text_of(value: Any) -> str:
    """JSON may hold what no database can: lone surrogates, and numbers too long to be written out."""
    try:
        return storable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        return "something that cannot be shown"
