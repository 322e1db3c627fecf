"""Schemas of approvals, questions and the policy."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from headway.actions.people.approvals import REASON_LIMIT
from headway.actions.people.questions import ANSWER_LIMIT
from headway.ledger.permission import ApprovalState, Decision, QuestionState
from headway.ledger.text import NAME_LIMIT, SUBJECT_PATTERN, TEXT_PATTERN
from headway.operations.schemas.strict_model import StrictModel
from headway.operations.schemas.todos import CursorQuery


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


# Answers


class ApprovalShape(BaseModel):
    id: int
    conversation_id: int
    turn_id: str | None
    run_id: str
    goal_id: int | None
    call_id: str
    role: Annotated[str, Field(description="The role of the agent that asks")]
    tool: str
    arguments: Annotated[Any, Field(description="Those proposed, or those that were approved instead")]
    digest: Annotated[str, Field(description="SHA-256 of the tool and its arguments. Only a call with this digest is made")]
    why: Annotated[str, Field(description="The rule of the policy that asks")]
    state: ApprovalState
    reason: str
    decided_by: Annotated[str, Field(description="The label of the token that decided; empty: not decided by a person")]
    created_at: int
    expires_at: int
    decided_at: Annotated[int, Field(description="Epoch seconds; 0: not yet")]


class OneApproval(BaseModel):
    approval: ApprovalShape


class ManyApprovals(BaseModel):
    approvals: list[ApprovalShape]
    next_cursor: str | None


class ClientCallShape(BaseModel):
    tool: str
    arguments: dict[str, Any]


class QuestionShape(BaseModel):
    id: int
    conversation_id: int
    turn_id: str | None
    run_id: str
    goal_id: int | None
    role: Annotated[str, Field(description="The role of the agent that asks")]
    question: str
    choices: Annotated[list[str], Field(description="Empty: any answer is accepted")]
    client_call: Annotated[
        ClientCallShape | None,
        Field(description="The turn's client is to make this call and answer with its result; null: a question"),
    ]
    answer: str
    state: QuestionState
    answered_by: Annotated[str, Field(description="The label of the token that answered; empty: not answered")]
    created_at: int
    answered_at: Annotated[int, Field(description="Epoch seconds; 0: not yet")]


class OneQuestion(BaseModel):
    question: QuestionShape


class ManyQuestions(BaseModel):
    questions: list[QuestionShape]
    next_cursor: str | None


class RuleShape(BaseModel):
    decision: Decision
    tool: str
    role: str
    server: str
    tenant: str
    arguments: dict[str, str]
    line: Annotated[int, Field(description="In policy.toml")]
    approval: Annotated[
        int, Field(description="The approval with which a person allowed such calls always; 0: the rule was written by hand")
    ]


class ApprovalAndRule(OneApproval):
    rule: Annotated[RuleShape | None, Field(description="What `always` would add; null if decided, or if no rule can be written")]


class PolicyShape(BaseModel):
    """The first rule that matches a call decides about it. The patterns are globs."""

    rules: list[RuleShape]
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
    rule: Annotated[RuleShape | None, Field(description="The rule that matches; null: none does, and the tool's default applies")]
    problem: Annotated[
        str, Field(description="What is wrong with the arguments, so that the tool would refuse the call; empty: nothing")
    ]


class RemovedRules(BaseModel):
    rules: list[RuleShape]
