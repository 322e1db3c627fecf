"""Schemas of requests to people and of the policy."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, Tag

from headway.actions.people.inbox import ANSWER_LIMIT, REASON_LIMIT
from headway.ledger.inbox import ApprovalState, QuestionState, RequestKind, RequestState
from headway.ledger.permission import Decision
from headway.ledger.text import NAME_LIMIT, SUBJECT_PATTERN, TEXT_PATTERN
from headway.operations.schemas.strict_model import StrictModel
from headway.operations.schemas.todos import CursorQuery
from headway.values.inbox import Rule

DECISION_TAG, ANSWER_TAG = "(decision)", "(answer)"  # left out of the descriptions of mistakes


class InboxQuery(CursorQuery):
    kind: RequestKind | None = None
    state: Literal[RequestState, "all"] = "open"


class ApprovalsQuery(CursorQuery):
    state: ApprovalState | None = None


class QuestionsQuery(CursorQuery):
    state: QuestionState | None = None


class NewApprovalDecision(StrictModel):
    decision: Literal["approve", "reject"]
    arguments: Annotated[
        dict[str, Any] | None, Field(description="With `approve`: call the tool with these arguments instead of the proposed ones")
    ] = None
    reason: Annotated[
        str,
        Field(
            max_length=REASON_LIMIT,
            description="The agent reads why a call was rejected",
            json_schema_extra={"pattern": TEXT_PATTERN},
        ),
    ] = ""
    always: Annotated[bool, Field(description="With `approve`: add a rule to the policy that allows such calls from now on")] = (
        False
    )


class NewAnswer(StrictModel):
    answer: Annotated[
        str,
        Field(
            min_length=1,
            max_length=ANSWER_LIMIT,
            description="One of the choices, if the question has any",
            json_schema_extra={"pattern": SUBJECT_PATTERN},
        ),
    ]


def choose_tag(body: Any) -> str:
    return ANSWER_TAG if isinstance(body, dict) and "answer" in body else DECISION_TAG


Response = Annotated[
    Annotated[NewApprovalDecision, Tag(DECISION_TAG)] | Annotated[NewAnswer, Tag(ANSWER_TAG)], Discriminator(choose_tag)
]

# Answers


class PolicyShape(BaseModel):
    """The first rule that matches a call decides about it. The patterns are globs."""

    rules: list[Rule]
    defaults: Annotated[list[str], Field(description="Tools that need approval if no rule matches. All others are allowed")]
    tools: Annotated[list[str], Field(description="All tools that rules can be about")]
    roles: Annotated[list[str], Field(description="The roles of agents")]
    file: Annotated[str, Field(description="The file that has the rules, relative to the home")]
    problem: Annotated[str, Field(description="Why the file as it is now is not in force, so that earlier rules are; empty: it is")]


class CallToTry(StrictModel):
    tool: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})]
    role: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})] = "index"
    arguments: dict[str, Any] = {}


class TriedCallShape(BaseModel):
    decision: Decision
    why: Annotated[str, Field(description="Which rule or default decides")]
    rule: Annotated[Rule | None, Field(description="The rule that matches; null: none does, and the tool's default applies")]
    problem: Annotated[
        str, Field(description="What is wrong with the arguments, so that the tool would refuse the call; empty: nothing")
    ]


class RemovedRules(BaseModel):
    rules: list[Rule]
