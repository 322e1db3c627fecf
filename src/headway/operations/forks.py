"""Schemas of forks and comparisons."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from headway.actions.inspection.forks import ForkRequest
from headway.ledger.text import NAME_LIMIT, SUBJECT_PATTERN, TEXT_LIMIT
from headway.operations.fields import Id, Name, StrictModel, to_whole_number
from headway.operations.goals import GoalDescription
from headway.values import turns as values_turns

ForkMessage = Annotated[str, Field(min_length=1, max_length=TEXT_LIMIT, json_schema_extra={"pattern": SUBJECT_PATTERN})]
ModelName = Annotated[
    str, Field(min_length=1, max_length=NAME_LIMIT, examples=["rehearsal"], json_schema_extra={"pattern": SUBJECT_PATTERN})
]
Live = Annotated[bool, Field(description="Make calls that have no recorded result, instead of stopping there")]


ForkModel = Annotated[ModelName | None, Field(description="Asked instead of the role's model")]
ForkRole = Annotated[Name | None, Field(description="The role that continues, instead of the original's")]


class TurnToFork(StrictModel):
    at: Annotated[
        int,
        Field(ge=0, le=1_000_000, description="How many steps to keep. 0: only the request"),
        BeforeValidator(to_whole_number),
    ]
    message: Annotated[ForkMessage | None, Field(description="At 0 it replaces the request; later the agent reads it next")] = None
    model: ForkModel = None
    role: ForkRole = None
    live: Live = False

    def fork_request(self, sender: str) -> ForkRequest:
        return ForkRequest(self.at, self.message or "", self.model or "", self.role or "", self.live, sender=sender)


class ConversationToFork(StrictModel):
    at: Annotated[Id, Field(description="The message that is sent again (a user's) or written again (an agent's)")]
    message: Annotated[ForkMessage | None, Field(description="Replaces the user's message")] = None
    model: ForkModel = None
    role: ForkRole = None
    live: Live = False

    def fork_request(self, sender: str) -> ForkRequest:
        return ForkRequest(self.at, self.message or "", self.model or "", self.role or "", self.live, sender=sender)


class GoalToFork(StrictModel):
    at: Annotated[Id, Field(description="The journal entry after which the fork begins")]
    message: Annotated[GoalDescription | None, Field(description="Replaces the description; a new plan is made")] = None
    live: Live = False


# Answers


class ForkedConversation(BaseModel):
    conversation: values_turns.Conversation
    turn: values_turns.Turn


class ComparedItem(BaseModel):
    title: str
    status: str
    outcome: str


class ComparedTurn(BaseModel):
    id: str
    conversation_id: int
    request: str
    status: str
    outcome: str | None
    forked_from: values_turns.ForkOrigin | None
    role: str | None
    models: list[str]
    steps: int
    answer: str
    plan: list[ComparedItem]
    usage: values_turns.Usage
    duration_s: float


class ComparedCall(BaseModel):
    tool: str
    arguments: Annotated[str, Field(description="JSON; long ones are cut")]
    state: str
    result: str
    replayed: Annotated[bool, Field(description="The result was recorded by another turn")]


class ComparedAnswer(BaseModel):
    text: str
    calls: list[ComparedCall]
    input_tokens: int
    output_tokens: int


class ComparedStep(BaseModel):
    step: int
    same: bool
    a: ComparedAnswer | None
    b: ComparedAnswer | None


class TurnDiff(BaseModel):
    a: ComparedTurn
    b: ComparedTurn
    diverged_at: Annotated[int | None, Field(description="The first step that differs")]
    steps: list[ComparedStep]


class OneDiff(BaseModel):
    diff: TurnDiff
