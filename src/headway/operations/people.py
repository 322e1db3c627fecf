"""Operations on requests to people: /approvals and /questions"""

from headway.actions.people import approvals, questions
from headway.actions.people.approvals import ApprovalDecision
from headway.operations.operation import Document, OperationCall, OperationTable
from headway.operations.schemas import people as schemas

table = OperationTable("people")


@table.add("GET /approvals", "List tool calls that needed approval, newest first", schemas.ManyApprovals)
def list_approvals(call: OperationCall, query: schemas.ApprovalsQuery) -> Document:
    return approvals.list_page(call.tx, call.tenant_id, query.state, query.limit, query.cursor)


@table.add(
    "GET /approvals/{approval_id}",
    "Get an approval, and the rule that approving it with `always` would add to the policy",
    schemas.ApprovalAndRule,
    errors=(404,),
)
def get_approval(call: OperationCall, approval_id: int) -> Document:
    approval = approvals.get(call.tx, call.tenant_id, approval_id)
    rule = call.host.permission.preview_rule(call.tx, approval) if approval.is_open else None
    return {"approval": approval.as_json(), "rule": rule.as_json() if rule else None}


@table.add("POST /approvals/{approval_id}", "Approve or reject a proposed tool call", schemas.OneApproval, errors=(404,))
def decide_approval(call: OperationCall, approval_id: int, body: schemas.NewApprovalDecision) -> Document:
    """The same decision again changes nothing. Another one is refused with 409."""
    arguments = None if body.arguments is None else approvals.encode_arguments(body.arguments)
    decision = ApprovalDecision(body.decision, call.caller_name, arguments, body.reason)
    approval = call.host.permission.decide(call.tx, call.tenant_id, approval_id, decision, always=body.always)
    call.nudge()
    return {"approval": approval.as_json()}


@table.add("GET /questions", "List questions of agents to people, newest first", schemas.ManyQuestions)
def list_questions(call: OperationCall, query: schemas.QuestionsQuery) -> Document:
    return questions.list_page(call.tx, call.tenant_id, query.state, query.limit, query.cursor)


@table.add("GET /questions/{question_id}", "Get a question", schemas.OneQuestion, errors=(404,))
def get_question(call: OperationCall, question_id: int) -> Document:
    return {"question": questions.get(call.tx, call.tenant_id, question_id).as_json()}


@table.add("POST /questions/{question_id}", "Answer a question", schemas.OneQuestion, errors=(404,))
def answer_question(call: OperationCall, question_id: int, body: schemas.NewAnswer) -> Document:
    """The same answer again changes nothing. Another one is refused with 409."""
    question = questions.answer(call.tx, call.tenant_id, question_id, body.answer, call.caller_name)
    call.nudge()
    return {"question": question.as_json()}
