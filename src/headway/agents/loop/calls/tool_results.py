"""The message with the results of tool calls, in the form that the model gets."""

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from headway.agents.instructions import prompts
from headway.agents.loop.calls.call_arguments import JSON_ENCODER, encode_arguments, resolve_tool
from headway.agents.loop.context import PLAN_FAMILIES
from headway.agents.loop.step import Step
from headway.agents.tools.results import READ_RESULT, build_handle
from headway.agents.transcripts.facts import Facts, to_metadata
from headway.ledger.attachment import Attachment
from headway.ledger.framing import escape_frames
from headway.ledger.run import Effect
from headway.ledger.todo import Todo, digest_item

SINGLE_ITEM_TOOLS: Final = frozenset(("create_todo", "start_todo", "complete_todo"))  # results name the items that they change
SIMPLE_TOOLS: Final = frozenset(("read_file", "write_file", "edit_file"))
ITEM_RESULTS: Final = frozenset(("start_todo", "list_todo"))  # plan tools whose own result is enough


def build_results_message(step: Step, response: ModelResponse, ended: list[Effect], notices: list[UserPromptPart]) -> ModelRequest:
    """Build the message with the results of a response's calls. The last call of a plan tool shows what is open."""
    plan_calls = [index for index, effect in enumerate(ended) if get_family(step, effect) in PLAN_FAMILIES]
    plan = step.plan() if plan_calls else []
    last = plan_calls[-1] if plan_calls else None
    parts = [
        ToolReturnPart(
            call.tool_name,
            abridge_result(step, effect, plan, shows_plan=index == last) + describe_changes(step, call, effect),
            call.tool_call_id,
            metadata=None if index in plan_calls else {"handle": build_handle(step.run.id, effect)},  # a plan is never shortened
        )
        for index, (call, effect) in enumerate(zip(response.tool_calls, ended, strict=True))
    ]
    pictures = [
        UserPromptPart([f"The image in the result of {effect.tool}:", *list_images(step, effect)])
        for effect in ended
        if effect.images
    ]
    metadata = to_metadata(list_facts(step, plan, [ended[index] for index in plan_calls])) if plan or notices else None
    return ModelRequest([*parts, *notices, *pictures], metadata=metadata)


def list_images(step: Step, effect: Effect) -> list[UserContent]:
    """Return the images of a result, if the model can look at them."""
    images = [Attachment("image", media_type, b64decode(data)) for media_type, data in json.loads(effect.images)]
    if not all(map(step.context.can_read, images)):
        return ["(not shown: this model cannot look at images)"]
    return [BinaryContent(image.data, media_type=image.media_type) for image in images]


def list_facts(step: Step, plan: list[Todo], plan_calls: list[Effect]) -> Facts:
    """Return the plan as facts. Without the digest, the whole plan is shown next: others changed what these calls do not show."""
    facts = prompts.to_plan_facts(plan) if plan else {}
    shown = next((known["item_digests"] for known in iter_facts(step) if "item_digests" in known), {})
    results = "".join(effect.result for effect in plan_calls)
    others = {(str(todo.id), digest_item(todo)) for todo in plan if f'"{todo.uuid}"' not in results}
    if plan and all(effect.tool in SINGLE_ITEM_TOOLS for effect in plan_calls) and not others <= shown.items():
        del facts["plan_digest"]
    return facts


def iter_facts(step: Step) -> Iterator[Facts]:
    """Yield the facts of the run's messages, newest first."""
    return (entry.facts for entry in reversed(step.entries))


def get_family(step: Step, effect: Effect) -> str:
    tool = step.context.tools.get(effect.tool)
    return tool.family if tool else ""


def abridge_result(step: Step, effect: Effect, plan: list[Todo], *, shows_plan: bool) -> str:
    """Return the form of a result that is sent to the model: short ids, no unneeded fields, and cut if it is long."""
    text = effect.result
    tool = step.context.tools.get(effect.tool)
    is_explanation = text.startswith('{"description"')  # use_tool without arguments asked for the parameters
    if effect.state == "succeeded" and tool is not None and tool.abridge is not None and not is_explanation:
        result = tool.abridge(json.loads(text))
        is_whole_plan = effect.tool in ITEM_RESULTS or len(result.get("created", ())) == len(plan)
        next_items = prompts.list_next_items(plan) if shows_plan and not is_whole_plan else []
        text = JSON_ENCODER.encode({**result, "plan": next_items} if next_items else result)
        for todo in plan:
            text = text.replace(f'"{todo.uuid}"', str(todo.id))
    elif effect.state == "succeeded" and step.context.drives_items and (sentence := shorten(effect)):
        text = sentence
    limit = step.context.execution.result_limit
    if len(text) > limit:
        more = f"{len(text) - limit:,} more characters: {READ_RESULT} with handle {build_handle(step.run.id, effect)}"
        text = f"{text[:limit]}\n… ({more}, offset {limit})"
    return escape_frames(text)


def shorten(effect: Effect) -> str:
    """Return the result of a simple tool in plain words. Small models copy the braces and quotes of JSON into what they write."""
    if effect.tool not in SIMPLE_TOOLS:
        return ""
    try:
        result = json.loads(effect.result)
    except ValueError:  # cut off, because it is very long
        return ""
    match effect.tool, result:
        case "read_file", {"content": str(content)} if len(result) == 1:
            return content
        case "write_file" | "edit_file", {"path": str(path)}:
            return f"Wrote {path}."
    return ""


def describe_changes(step: Step, call: ToolCallPart, effect: Effect) -> str:
    """Tell the model if the arguments were changed before the call was made."""
    if effect.arguments == call.args or effect.arguments == encode_arguments(resolve_tool(step, call).arguments):
        return ""
    return f"\n(A person changed the arguments before the call was made: {escape_frames(cut_text(effect.arguments, 2_000))})"


def cut_text(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n… ({len(text) - limit:,} more characters)"
