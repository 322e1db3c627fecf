"""The runtime's messages as data. A model that runs in this process reads the facts instead of parsing the wording.

They travel in the metadata of a message, which no provider receives and which no text can forge.
"""

from typing import Any, Final, TypedDict

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

METADATA_KEY: Final = "headway"


class PlanItemFacts(TypedDict):
    id: str
    title: str
    status: str


class SubGoalFacts(TypedDict):
    id: str
    status: str
    depends_on: list[str]
    description: str
    outcome: str
    divergence: str | None


class CompactionFacts(TypedDict):
    """What a compaction did to the messages before it. Messages are named by their number in the transcript."""

    shrunk_before: int  # older tool results are sent as stubs
    noted_before: int | None  # older messages are replaced by this message; None if it replaces none
    results: list[tuple[str, str]]  # the call and the handle of each result that the note replaces
    scale: float  # reported tokens per estimated token, until the next response reports usage


class Facts(TypedDict, total=False):
    """Empty if a message, such as a refusal, states nothing that its model would have to look up in it."""

    request: str  # the turn's request, repeated
    task: str  # a sub-agent's task, without its envelope and context
    plan: list[PlanItemFacts]  # the turn's plan
    plan_digest: str  # changes with everything that the plan shows; missing if the message does not show all that changed
    item_digests: dict[str, str]  # the same for each item, by id
    compaction: CompactionFacts
    refused_tokens: int  # the provider refused a request of this size as too long
    guide: bool  # the message shows the workspace's AGENTS.md
    steering: str  # a person's message to the running agent
    returned_calls: list[str]  # the digests of quoted calls about which the message asks
    focus: list[int]  # the todos that the context which begins here is about
    last_call: str  # the outcome with which the turn ends after the answer to this message
    stretch: str  # to summarise in a note
    answer: str  # to assess
    cut_off: str  # to summarise
    goal: str  # to plan
    sub_goals: list[SubGoalFacts]  # of the goal to replan or to judge
    outcome: str  # of the sub-goal to evaluate


def build_runtime_message(text: str, facts: Facts | None = None) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)], metadata=to_metadata(facts))


def to_metadata(facts: Facts | None = None) -> dict[str, Any]:
    return {METADATA_KEY: facts or {}}


def find_facts(message: ModelMessage) -> Facts | None:
    """Return the facts of a message from the runtime; None for a user's or a model's."""
    metadata = message.metadata if isinstance(message, ModelRequest) else None
    return metadata.get(METADATA_KEY) if metadata else None
