"""Operations on requests to people: /inbox, and /approvals and /questions, which are the requests of one kind."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Discriminator, Field, Tag

from headway.actions.goals import goals
from headway.actions.runs import inbox
from headway.actions.runs.inbox import ANSWER_LIMIT, REASON_LIMIT, ApprovalDecision
from headway.ledger.errors import Invalid
from headway.ledger.inbox import ApprovalState, PersonRequest, QuestionState, RequestKind, RequestState
from headway.ledger.permission import Decision
from headway.ledger.text import NAME_LIMIT, SUBJECT_PATTERN, TEXT_PATTERN
from headway.operations.fields import CursorQuery, StrictModel
from headway.operations.goals import NewDecision, interrupt_goal
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, one, page
from headway.values import inbox as values
from headway.values.inbox import Rule
from headway.values.value import Meaning

DECISION_TAG, ANSWER_TAG, GOAL_TAG = "(decision)", "(answer)", "(goal)"  # left out of the descriptions of mistakes


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
    tags = {"answer": ANSWER_TAG, "action": GOAL_TAG}
    return next((tags[name] for name in tags if isinstance(body, dict) and name in body), DECISION_TAG)


Response = Annotated[
    Annotated[NewApprovalDecision, Tag(DECISION_TAG)]
    | Annotated[NewAnswer, Tag(ANSWER_TAG)]
    | Annotated[NewDecision, Tag(GOAL_TAG)],
    Discriminator(choose_tag),
]
KIND_HINTS: Final[dict[RequestKind, str]] = {
    "approval": "asks for approval: send `decision`",
    "question": "is a question: send `answer`",
    "decision": "asks to decide about a goal: send `action`",
}

# Answers


class Policy(BaseModel):
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


class TriedCall(BaseModel):
    decision: Decision
    why: Annotated[str, Field(description="Which rule or default decides")]
    rule: Annotated[Rule | None, Field(description="The rule that matches; null: none does, and the tool's default applies")]
    problem: Annotated[
        str, Field(description="What is wrong with the arguments, so that the tool would refuse the call; empty: nothing")
    ]


class RemovedRules(BaseModel):
    rules: list[Rule]


table = OperationTable("people")

RULE = Meaning("What `always` would add; null if decided, or if no rule can be written")
ONE_REQUEST = one("request", values.PersonRequest)
ONE_APPROVAL = one("approval", values.Approval)
ONE_QUESTION = one("question", values.Question)


def with_rule(shape: AnswerShape, name: str) -> AnswerShape:
    return AnswerShape(name, {**shape.members, "rule": Annotated[values.Rule | None, RULE]})


@table.add("GET /inbox", "List what waits for a person, newest first", page("requests", values.PersonRequest))
def list_requests(call: OperationCall, query: InboxQuery) -> Document:
    """Calls that need approval, questions of agents, and paused goals that need a decision. `state=all` adds decided ones."""
    state = None if query.state == "all" else query.state
    found = inbox.list_page(call.tx, call.tenant_id, query.kind, state, query.limit, query.cursor)
    return {"requests": [request.as_json() for request in found.requests], "next_cursor": found.next_cursor}


@table.add(
    "GET /inbox/{request_id}",
    "Get a request, and the rule that approving it with `always` would add to the policy",
    with_rule(ONE_REQUEST, "RequestAndRule"),
    errors=(404,),
)
def get_request(call: OperationCall, request_id: int) -> Document:
    request = inbox.get(call.tx, call.tenant_id, request_id)
    return {"request": request.as_json(), "rule": preview_rule(call, request)}


def preview_rule(call: OperationCall, request: PersonRequest) -> dict[str, Any] | None:
    rule = call.host.permission.preview_rule(call.tx, request) if request.is_open and request.kind == "approval" else None
    return rule.as_json() if rule else None


@table.add("POST /inbox/{request_id}", "Respond to a request", ONE_REQUEST, errors=(404,))
def answer_request(call: OperationCall, request_id: int, body: Response) -> Document:
    """An approval takes a `decision`, a question an `answer`, a paused goal an `action`. The same again changes nothing. Another
    one is refused with 409."""
    request = inbox.get(call.tx, call.tenant_id, request_id)
    match request.kind, body:
        case "approval", NewApprovalDecision():
            answered = decide(call, request_id, body)
        case "question", NewAnswer():
            answered = answer(call, request_id, body)
        case "decision", NewDecision():
            answered = decide_goal(call, request, body)
        case _:
            raise Invalid(f"Request #{request_id} {KIND_HINTS[request.kind]}.")
    return {"request": answered.as_json()}


def decide(call: OperationCall, request_id: int, body: NewApprovalDecision) -> PersonRequest:
    call.nudge()
    arguments = None if body.arguments is None else inbox.encode_arguments(body.arguments)
    decision = ApprovalDecision(body.decision, call.caller_name, arguments, body.reason)
    return call.host.permission.decide(call.tx, call.tenant_id, request_id, decision, always=body.always)


def answer(call: OperationCall, request_id: int, body: NewAnswer) -> PersonRequest:
    call.nudge()
    return inbox.answer(call.tx, call.tenant_id, request_id, body.answer, call.caller_name)


def decide_goal(call: OperationCall, request: PersonRequest, body: NewDecision) -> PersonRequest:
    answered = goals.answer_decision(call.tx, call.tenant_id, request.id, body.action, body.note, call.host.settings.limits)
    interrupt_goal(call, goals.get_goal(call.tx, call.tenant_id, request.goal_id or 0))
    return answered


# The requests of one kind


@table.add("GET /approvals", "List tool calls that needed approval, newest first", page("approvals", values.Approval))
def list_approvals(call: OperationCall, query: ApprovalsQuery) -> Document:
    return inbox.list_items(call.tx, call.tenant_id, "approval", query.state, query.limit, query.cursor)


@table.add(
    "GET /approvals/{approval_id}",
    "Get an approval, and the rule that approving it with `always` would add to the policy",
    with_rule(ONE_APPROVAL, "ApprovalAndRule"),
    errors=(404,),
)
def get_approval(call: OperationCall, approval_id: int) -> Document:
    approval = inbox.get(call.tx, call.tenant_id, approval_id, "approval")
    return {"approval": approval.as_item(), "rule": preview_rule(call, approval)}


@table.add("POST /approvals/{approval_id}", "Approve or reject a proposed tool call", ONE_APPROVAL, errors=(404,))
def decide_approval(call: OperationCall, approval_id: int, body: NewApprovalDecision) -> Document:
    """The same decision again changes nothing. Another one is refused with 409."""
    return {"approval": decide(call, approval_id, body).as_item()}


@table.add("GET /questions", "List questions of agents to people, newest first", page("questions", values.Question))
def list_questions(call: OperationCall, query: QuestionsQuery) -> Document:
    return inbox.list_items(call.tx, call.tenant_id, "question", query.state, query.limit, query.cursor)


@table.add("GET /questions/{question_id}", "Get a question", ONE_QUESTION, errors=(404,))
def get_question(call: OperationCall, question_id: int) -> Document:
    return {"question": inbox.get(call.tx, call.tenant_id, question_id, "question").as_item()}


@table.add("POST /questions/{question_id}", "Answer a question", ONE_QUESTION, errors=(404,))
def answer_question(call: OperationCall, question_id: int, body: NewAnswer) -> Document:
    """The same answer again changes nothing. Another one is refused with 409."""
    return {"question": answer(call, question_id, body).as_item()}
