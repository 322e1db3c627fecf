"""Requests to people."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from headway.ledger.inbox import ApprovalState, QuestionState, RequestKind, RequestState
from headway.ledger.permission import Decision
from headway.values.value import Meaning, Value

ARGUMENTS = "Those proposed, or those that were approved instead"
ASKER = "The role of the agent that asks"
DECIDER = "The label of the token that decided; empty: not decided by a person"
DIGEST = "SHA-256 of the tool and its arguments. Only a call with this digest is made"
WHY = "The rule of the policy that asks"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PersonRequest(Value):
    """A request to a person: to approve a call, to answer a question, or to decide about a goal."""

    id: int
    kind: RequestKind
    state: RequestState
    role: Annotated[str, Meaning(ASKER)] = ""
    tool: Annotated[
        str, Meaning("Of the call to approve, or of the call whose result the turn's client answers a question with; empty: none")
    ] = ""
    arguments: Annotated[Any, Meaning(ARGUMENTS)] = None
    call_id: str = ""
    digest: Annotated[str, Meaning(DIGEST)] = ""
    why: Annotated[str, Meaning(WHY)] = ""
    reason: Annotated[str, Meaning("Why a person decided so, or why it expired or was canceled")] = ""
    question: Annotated[str, Meaning("Empty: a call is to be approved")] = ""
    choices: Annotated[tuple[str, ...], Meaning("Answers to choose from; empty: any answer is accepted")] = ()
    answer: Annotated[str, Meaning("To the question, or the action that was decided")] = ""
    conversation_id: int = 0
    turn_id: str | None = None
    run_id: Annotated[str | None, Meaning("null: a decision about a goal")] = None
    goal_id: int | None = None
    decided_by: Annotated[str, Meaning(DECIDER)] = ""
    created_at: datetime
    expires_at: Annotated[datetime | None, Meaning("Epoch seconds; 0: never")] = None
    decided_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Approval(Value):
    """A tool call that a person has to approve."""

    id: int
    tool: str
    arguments: Annotated[Any, Meaning(ARGUMENTS)]
    state: ApprovalState
    call_id: str = ""
    digest: Annotated[str, Meaning(DIGEST)] = ""
    why: Annotated[str, Meaning(WHY)] = ""
    reason: str = ""
    decided_by: Annotated[str, Meaning(DECIDER)] = ""
    role: Annotated[str, Meaning(ASKER)] = ""
    conversation_id: int = 0
    turn_id: str | None = None
    run_id: str = ""
    goal_id: int | None = None
    created_at: datetime
    expires_at: datetime
    decided_at: Annotated[datetime | None, Meaning("Epoch seconds; 0: not yet")] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientCall(Value):
    """A call that the turn's client is to make."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Question(Value):
    """A question of an agent to a person. Without `choices`, any answer is accepted."""

    id: int
    question: str
    choices: Annotated[tuple[str, ...], Meaning("Empty: any answer is accepted")] = ()
    state: QuestionState
    answer: str = ""
    answered_by: Annotated[str, Meaning("The label of the token that answered; empty: not answered")] = ""
    role: Annotated[str, Meaning(ASKER)] = ""
    conversation_id: int = 0
    turn_id: str | None = None
    run_id: str = ""
    goal_id: int | None = None
    client_call: Annotated[
        ClientCall | None, Meaning("The turn's client is to make this call and answer with its result; null: a question")
    ] = None
    created_at: datetime
    answered_at: Annotated[datetime | None, Meaning("Epoch seconds; 0: not yet")] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rule(Value):
    """A rule of the policy. The patterns are globs."""

    decision: Decision
    tool: str
    role: str
    server: str
    tenant: str
    arguments: Mapping[str, str]
    line: Annotated[int, Meaning("In policy.toml")]
    approval: Annotated[int, Meaning("The approval with which a person allowed such calls always; 0: the rule was written by hand")]
